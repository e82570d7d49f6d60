//! Random graphs over live dims; a seed gives the same graph whatever the bounds.

use crate::ir::{DataType, Value, ValueId};
use crate::reference::HostTensor;
use crate::testing::{GraphBuilder, f32s, i32s, noise};

/// A deterministic pseudo-random generator.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(super) fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from(self.0 >> 33).unwrap() % limit
    }

    pub(super) fn of<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(u32::try_from(items.len()).unwrap()) as usize].clone()
    }
}

/// Rows of the table that tokens and positions index.
pub(super) const TABLE_ROWS: u32 = 24;
/// The largest live dims.
pub(super) const MOST: [u32; 2] = [17, 9];

/// A dim: fixed, or one of the live ones.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Dim {
    Fixed(u32),
    Live(usize),
}

#[derive(Clone, Debug)]
struct Node {
    id: ValueId,
    dims: Vec<Dim>,
}

/// A graph with two live dims: `tokens` [1, a], `position` [1], `x` [a, w], `y` [b, v].
pub(super) struct RandomGraph {
    pub(super) builder: GraphBuilder,
    widths: [u32; 2],
}

struct Generator {
    random: Random,
    builder: GraphBuilder,
    /// The largest live dims of this graph.
    most: [u32; 2],
    /// The live dims as symbolic scalars.
    sizes: [ValueId; 2],
    nodes: Vec<Node>,
    constants: u64,
}

impl RandomGraph {
    /// The graph of a seed with `steps` operators, its live dims at most `most`.
    pub(super) fn new(seed: u64, steps: u32, most: [u32; 2]) -> Self {
        let mut random = Random::new(seed);
        let widths = [random.of(&[4, 12, 16, 6]), random.of(&[1, 3, 8])];
        let mut builder = GraphBuilder::new();
        let tokens = builder.input(DataType::Int32, &[1, most[0]]);
        let position = builder.input(DataType::Int32, &[1]);
        let x = builder.input(DataType::Float32, &[most[0], widths[0]]);
        let y = builder.input(DataType::Float32, &[most[1], widths[1]]);
        let [a, b, start, end] = [(); 4].map(|()| builder.value(Value::SymInt));
        let (zero, one) = (builder.int(0), builder.int(1));
        builder.call("sym_size.int", &[tokens, one, a]);
        builder.call("sym_size.int", &[y, zero, b]);
        builder.call("et_vk.select_as_symint.default", &[position, zero, zero, start]);
        builder.call("add", &[start, a, end]);
        let node = |id, live, width| Node { id, dims: vec![Dim::Live(live), Dim::Fixed(width)] };
        let nodes = vec![node(x, 0, widths[0]), node(y, 1, widths[1])];
        let mut generator = Generator { random, builder, most, sizes: [a, b], nodes, constants: 0 };
        generator.table(tokens, [start, end], widths[0]);
        for _ in 0..steps {
            generator.step();
        }
        generator.outputs();
        Self { builder: generator.builder, widths }
    }

    /// The inputs of a call at these live dims. Positions are such that a slice of the table always has enough rows.
    pub(super) fn inputs(&self, random: &mut Random, live: [u32; 2]) -> Vec<HostTensor> {
        let tokens = (0..live[0]).map(|_| i32::try_from(random.below(TABLE_ROWS)).unwrap()).collect();
        let position = i32::try_from(random.below(TABLE_ROWS - live[0] + 1)).unwrap();
        let mut floats =
            |rows: u32, width: u32| f32s(&[rows, width], noise(u64::from(random.below(1 << 20)), (rows * width) as usize));
        let (x, y) = (floats(live[0], self.widths[0]), floats(live[1], self.widths[1]));
        vec![i32s(&[1, live[0]], tokens), i32s(&[1], vec![position]), x, y]
    }
}

impl Generator {
    fn bound(&self, dims: &[Dim]) -> Vec<u32> {
        let size = |dim: &Dim| match *dim {
            Dim::Fixed(size) => size,
            Dim::Live(live) => self.most[live],
        };
        dims.iter().map(size).collect()
    }

    fn constant(&mut self, dims: &[u32]) -> ValueId {
        self.constants += 1;
        let count = dims.iter().product::<u32>() as usize;
        self.builder.floats(dims, &noise(self.constants, count))
    }

    fn out(&mut self, name: &str, mut args: Vec<ValueId>, dims: Vec<Dim>) {
        let id = self.builder.tensor(DataType::Float32, &self.bound(&dims));
        args.push(id);
        self.builder.call(name, &args);
        self.nodes.push(Node { id, dims });
    }

    /// Rows of a table, by token and from the position on.
    fn table(&mut self, tokens: ValueId, [start, end]: [ValueId; 2], width: u32) {
        let table = self.constant(&[TABLE_ROWS, width]);
        let (minus, no) = (self.builder.int(-1), self.builder.value(Value::Bool(false)));
        let dims = vec![Dim::Fixed(1), Dim::Live(0), Dim::Fixed(width)];
        self.out("aten.embedding.default", vec![table, tokens, minus, no, no], dims);
        let (zero, one) = (self.builder.int(0), self.builder.int(1));
        let dims = vec![Dim::Live(0), Dim::Fixed(width)];
        self.out("aten.slice_copy.Tensor", vec![table, zero, start, end, one], dims);
        self.out("aten.select_copy.int", vec![table, zero, start], vec![Dim::Fixed(width)]);
    }

    /// Adds an operator on an existing tensor, preferring recent ones.
    fn step(&mut self) {
        let count = u32::try_from(self.nodes.len()).unwrap();
        let newest = count - self.random.below(count.min(4)) - 1;
        let at = if self.random.below(3) == 0 { self.random.below(count) } else { newest };
        let node = self.nodes[at as usize].clone();
        match self.random.below(9) {
            0 | 1 => self.binary(&node),
            2 => self.unary(&node),
            3 | 4 => self.view(&node),
            5 => self.norm(&node),
            6 => self.linear(&node),
            7 => self.slice(&node),
            _ => self.select(&node),
        }
    }

    fn binary(&mut self, node: &Node) {
        let name = self.random.of(&["aten.add.Tensor", "aten.mul.Tensor"]);
        let same: Vec<ValueId> = self.nodes.iter().filter(|other| other.dims == node.dims).map(|other| other.id).collect();
        let other = match (self.random.below(4), node.dims.last()) {
            (0, Some(&Dim::Fixed(width))) => self.constant(&[width]),
            (1, _) => self.constant(&[]),
            _ => self.random.of(&same),
        };
        let mut args = vec![node.id, other];
        if name == "aten.add.Tensor" {
            args.push(self.builder.float(0.5));
        }
        self.out(name, args, node.dims.clone());
    }

    fn unary(&mut self, node: &Node) {
        let name = self.random.of(&["aten.sigmoid.default", "aten.relu.default", "aten.neg.default"]);
        self.out(name, vec![node.id], node.dims.clone());
    }

    /// The same elements with an additional dim of 1, with two dims merged, or with one split.
    fn view(&mut self, node: &Node) {
        let mut dims = node.dims.clone();
        let last = dims.last().copied();
        match (self.random.below(3), last) {
            (0, _) if dims.len() < 5 => dims.insert(0, Dim::Fixed(1)),
            (1, Some(Dim::Fixed(width))) if width % 2 == 0 && dims.len() < 5 => {
                dims.pop();
                dims.extend([Dim::Fixed(2), Dim::Fixed(width / 2)]);
            }
            (_, Some(Dim::Fixed(width))) if dims.len() > 1 => {
                let Dim::Fixed(above) = dims[dims.len() - 2] else { return self.unary(node) };
                dims.truncate(dims.len() - 2);
                dims.push(Dim::Fixed(above * width));
            }
            _ => return self.unary(node),
        }
        let size = |generator: &mut Self, dim: &Dim| match *dim {
            Dim::Fixed(size) => generator.builder.int(size.into()),
            Dim::Live(live) => generator.sizes[live],
        };
        let sizes: Vec<ValueId> = dims.iter().map(|dim| size(self, dim)).collect();
        let sizes = self.builder.value(Value::ValueList(sizes));
        self.out("aten.view_copy.default", vec![node.id, sizes], dims);
    }

    fn norm(&mut self, node: &Node) {
        let Some(&Dim::Fixed(width)) = node.dims.last() else { return self.unary(node) };
        let weight = self.constant(&[width]);
        let eps = self.builder.float(1e-5);
        self.out("et_vk.rms_norm.default", vec![node.id, weight, eps], node.dims.clone());
    }

    fn linear(&mut self, node: &Node) {
        let Some(&Dim::Fixed(width)) = node.dims.last() else { return self.unary(node) };
        let columns = self.random.of(&[4, 5, 12, 16]);
        let weight = self.constant(&[columns, width]);
        let bias = if self.random.below(2) == 0 { self.constant(&[columns]) } else { self.builder.value(Value::Null) };
        let mut dims = node.dims.clone();
        dims.pop();
        dims.push(Dim::Fixed(columns));
        self.out("aten.linear.default", vec![node.id, weight, bias], dims);
    }

    /// Slices part of the last dim, or all of the first.
    fn slice(&mut self, node: &Node) {
        let Some(&Dim::Fixed(width)) = node.dims.last() else { return self.unary(node) };
        let mut dims = node.dims.clone();
        let (axis, from, to) = if width < 3 || self.random.below(3) == 0 {
            (self.builder.int(0), self.builder.value(Value::Null), self.builder.int(i64::MAX))
        } else {
            let from = self.random.below(width - 2);
            let to = from + 1 + self.random.below(width - from);
            let to = to.min(width);
            dims.pop();
            dims.push(Dim::Fixed(to - from));
            (self.builder.int(-1), self.builder.int(from.into()), self.builder.int(to.into()))
        };
        let one = self.builder.int(1);
        self.out("aten.slice_copy.Tensor", vec![node.id, axis, from, to, one], dims);
    }

    /// Selects the last index of the first dim: if the dim is live, the index varies, and an empty dim is rejected.
    fn select(&mut self, node: &Node) {
        if node.dims.len() < 2 {
            return self.unary(node);
        }
        let (axis, index) = (self.builder.int(0), self.builder.int(-1));
        self.out("aten.select_copy.int", vec![node.id, axis, index], node.dims[1..].to_vec());
    }

    /// Outputs the newest tensor and two others, one of them twice.
    fn outputs(&mut self) {
        let any = self.random.of(&self.nodes).id;
        let newest = self.nodes[self.nodes.len() - 1].id;
        for output in [newest, any, self.random.of(&self.nodes).id, any] {
            self.builder.output(output);
        }
    }
}
