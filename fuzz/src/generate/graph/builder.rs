//! A graph as it is built: values, calls, and what is known of each tensor.

use pteron_format::vulkan::{Call, Constant, ConstantId, ConstantSource, DataType, Graph, Tensor, Value, ValueId};
use pteron_gpu::frontend;
use pteron_gpu::fuse::Fusions;

use crate::generate::cursor::Cursor;

/// A size of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// The same in every call.
    Fixed(u32),
    /// One of the live ones, by index into [`GraphBuilder::live`].
    Live(usize),
}

/// A tensor that a call may take.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its value.
    pub id: ValueId,
    /// Its elements.
    pub dtype: DataType,
    /// Its sizes.
    pub dims: Vec<Dim>,
    /// Whether it changes in place, so that only the operator that changes it takes it.
    pub changes: bool,
}

/// An input of the graph.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its elements.
    pub dtype: DataType,
    /// Its sizes.
    pub dims: Vec<Dim>,
    /// Its integers name one of so many elements, where they do.
    pub below: Option<u32>,
    /// Whether it is the position that rows are written at.
    pub position: bool,
}

/// The bytes of a constant: numbers that follow from a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// The element type.
    pub dtype: DataType,
    /// How many elements.
    pub count: u64,
    /// Integers are below it.
    pub below: u32,
    /// Constants with the same seed are equal.
    pub seed: u8,
}

impl Content {
    /// The bytes: floats in -2..2, integers below a number, truth values.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut state = (u64::from(self.seed) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u32
        };
        let mut bytes = Vec::new();
        for _ in 0..self.count {
            let number = next();
            match self.dtype {
                DataType::Float32 => {
                    // Whole quarters now and then, so that numbers are equal and ties are met.
                    let value = (number >> 8) as f32 / (1 << 22) as f32 - 2.0;
                    let value = if number % 4 == 0 { (value * 4.0).round() / 4.0 } else { value };
                    bytes.extend(value.to_le_bytes());
                }
                DataType::Int32 => bytes.extend((number % self.below.max(1)).to_le_bytes()),
                DataType::Bool => bytes.push((number & 1) as u8),
                _ => bytes.push((number % self.below.clamp(1, 256)) as u8),
            }
        }
        bytes
    }
}

/// How many rows caches and tables of positions have.
pub const CACHE_ROWS: u32 = 24;
/// The most a live dim may be.
pub const MOST: [u32; 2] = [9, 5];

/// A graph as it is built.
#[derive(Debug)]
pub struct GraphBuilder {
    /// The graph, as a file would state it.
    pub graph: Graph,
    /// The graph's inputs.
    pub inputs: Vec<Input>,
    /// The constants' bytes.
    pub contents: Vec<Content>,
    /// Tensors that calls may take.
    pub nodes: Vec<Node>,
    /// The live dims as symbolic integers, where a call asked for them.
    pub sizes: [Option<ValueId>; 2],
    /// The position as a symbolic integer.
    pub position: Option<ValueId>,
    /// Whether sizes and numbers near the limits are wanted.
    pub hostile: bool,
}

impl GraphBuilder {
    /// Decodes the graph as the file of a delegate would be.
    ///
    /// # Errors
    /// As the front end and the decoder.
    pub fn decode(&self, fusions: &Fusions) -> pteron_gpu::Result<pteron_gpu::graph::DecodedGraph> {
        frontend::vulkan::translate(&self.graph)?.decode(fusions)
    }

    /// A graph without anything.
    #[must_use]
    pub fn new(hostile: bool) -> Self {
        Self {
            graph: Graph { version: "1".to_owned(), ..Graph::default() },
            inputs: Vec::new(),
            contents: Vec::new(),
            nodes: Vec::new(),
            sizes: [None; 2],
            position: None,
            hostile,
        }
    }

    /// A value more.
    pub fn value(&mut self, value: Value) -> ValueId {
        self.graph.values.push(value);
        ValueId((self.graph.values.len() - 1) as u32)
    }

    /// None.
    pub fn null(&mut self) -> ValueId {
        self.value(Value::Null)
    }

    /// An integer.
    pub fn int(&mut self, value: impl Into<i64>) -> ValueId {
        self.value(Value::Int(value.into()))
    }

    /// A float.
    pub fn float(&mut self, value: f64) -> ValueId {
        self.value(Value::Double(value.into()))
    }

    /// A truth value.
    pub fn bool(&mut self, value: bool) -> ValueId {
        self.value(Value::Bool(value))
    }

    /// A string.
    pub fn text(&mut self, text: &str) -> ValueId {
        self.value(Value::String(text.to_owned()))
    }

    /// A list of values.
    pub fn list(&mut self, ids: Vec<ValueId>) -> ValueId {
        self.value(Value::ValueList(ids))
    }

    /// A list of integers.
    pub fn ints(&mut self, items: Vec<i64>) -> ValueId {
        self.value(Value::IntList(items))
    }

    /// Sizes at their largest.
    #[must_use]
    pub fn bound(dims: &[Dim]) -> Vec<u32> {
        let size = |dim: &Dim| match *dim {
            Dim::Fixed(size) => size,
            Dim::Live(live) => MOST[live],
        };
        dims.iter().map(size).collect()
    }

    fn tensor(&mut self, dtype: DataType, dims: &[Dim], constant: Option<ConstantId>) -> ValueId {
        self.value(Value::Tensor(Tensor { constant, ..Tensor::new(dtype, &Self::bound(dims)) }))
    }

    fn node(&mut self, id: ValueId, dtype: DataType, dims: &[Dim]) -> Node {
        let node = Node { id, dtype, dims: dims.to_vec(), changes: false };
        self.nodes.push(node.clone());
        node
    }

    /// An input of the graph.
    pub fn input(&mut self, dtype: DataType, dims: &[Dim]) -> Node {
        self.input_of(Input { dtype, dims: dims.to_vec(), below: None, position: false })
    }

    /// An input whose integers name elements, or a position.
    pub fn input_of(&mut self, input: Input) -> Node {
        let id = self.tensor(input.dtype, &input.dims, None);
        self.graph.inputs.push(id);
        let node = self.node(id, input.dtype, &input.dims);
        self.inputs.push(input);
        node
    }

    /// A constant. Its sizes are fixed.
    pub fn constant(&mut self, cursor: &mut Cursor<'_>, dtype: DataType, dims: &[u32]) -> Node {
        self.constant_below(cursor, dtype, dims, 8)
    }

    /// A constant whose integers are below a number.
    pub fn constant_below(&mut self, cursor: &mut Cursor<'_>, dtype: DataType, dims: &[u32], below: u32) -> Node {
        let count = dims.iter().fold(1u64, |count, &dim| count.saturating_mul(dim.into()));
        let content = Content { dtype, count, below, seed: cursor.byte() % 4 };
        let key = format!("{content:?}");
        let source = if cursor.flip() { ConstantSource::Named(key) } else { ConstantSource::Stored(0) };
        self.graph.constants.push(Constant { len: count.saturating_mul(dtype.size()), source });
        self.contents.push(content);
        let dims: Vec<Dim> = dims.iter().map(|&dim| Dim::Fixed(dim)).collect();
        let id = self.tensor(dtype, &dims, Some(ConstantId(self.contents.len() as u32 - 1)));
        self.node(id, dtype, &dims)
    }

    /// A constant that an operator changes: no other call takes it.
    pub fn state(&mut self, cursor: &mut Cursor<'_>, dtype: DataType, dims: &[u32]) -> ValueId {
        let id = self.constant(cursor, dtype, dims).id;
        self.nodes.pop();
        id
    }

    /// A call and the tensor it writes.
    pub fn out(&mut self, name: &str, args: &[ValueId], dtype: DataType, dims: &[Dim]) -> Node {
        let id = self.tensor(dtype, dims, None);
        self.call(name, &[args, &[id]].concat());
        self.node(id, dtype, dims)
    }

    /// A call and the tensors it writes.
    pub fn outs(&mut self, name: &str, args: &[ValueId], outs: &[(DataType, Vec<Dim>)]) -> Vec<Node> {
        let ids: Vec<ValueId> = outs.iter().map(|(dtype, dims)| self.tensor(*dtype, dims, None)).collect();
        let list = self.list(ids.clone());
        self.call(name, &[args, &[list]].concat());
        ids.iter().zip(outs).map(|(&id, (dtype, dims))| self.node(id, *dtype, dims)).collect()
    }

    /// A call.
    pub fn call(&mut self, name: &str, args: &[ValueId]) {
        self.graph.chain.push(Call { node_id: self.graph.chain.len() as u32, name: name.to_owned(), args: args.to_vec() });
    }

    /// The symbolic integer that a live dim is.
    pub fn live_size(&mut self, live: usize) -> ValueId {
        if let Some(id) = self.sizes[live] {
            return id;
        }
        let of = self.inputs.iter().position(|input| input.dims.contains(&Dim::Live(live)));
        let (tensor, axis) = match of {
            Some(index) => {
                let axis = self.inputs[index].dims.iter().position(|&dim| dim == Dim::Live(live)).unwrap_or(0);
                (self.graph.inputs[index], axis)
            }
            None => (self.input(DataType::Float32, &[Dim::Live(live)]).id, 0),
        };
        let axis = self.int(axis as i64);
        let size = self.value(Value::SymInt(0));
        self.call("sym_size.int", &[tensor, axis, size]);
        self.sizes[live] = Some(size);
        size
    }

    /// The symbolic integer that the position is.
    pub fn position(&mut self) -> ValueId {
        if let Some(id) = self.position {
            return id;
        }
        let dims = vec![Dim::Fixed(1)];
        let input = self.input_of(Input { dtype: DataType::Int32, dims, below: Some(CACHE_ROWS), position: true });
        let zero = self.int(0);
        let start = self.value(Value::SymInt(0));
        self.call("et_vk.select_as_symint.default", &[input.id, zero, zero, start]);
        self.position = Some(start);
        start
    }

    /// A size as an argument has it.
    pub fn size(&mut self, dim: Dim) -> ValueId {
        match dim {
            Dim::Fixed(size) => self.int(size),
            Dim::Live(live) => self.live_size(live),
        }
    }

    /// Sizes as an argument has them: integers where all are fixed, values otherwise.
    pub fn size_list(&mut self, dims: &[Dim]) -> ValueId {
        let fixed = |dim: &Dim| match *dim {
            Dim::Fixed(size) => Some(i64::from(size)),
            Dim::Live(_) => None,
        };
        match dims.iter().map(fixed).collect() {
            Some(sizes) => self.ints(sizes),
            None => {
                let sizes = dims.iter().map(|&dim| self.size(dim)).collect();
                self.list(sizes)
            }
        }
    }

    /// Sizes of a rank that is wanted.
    pub fn dims(&mut self, cursor: &mut Cursor<'_>, rank: usize) -> Vec<Dim> {
        let dim = |at: usize, cursor: &mut Cursor<'_>| match cursor.below(6) {
            0 | 1 if at + 1 < rank || rank == 1 => Dim::Live(cursor.below(2)),
            _ => Dim::Fixed(cursor.size(self.hostile)),
        };
        (0..rank).map(|at| dim(at, cursor)).collect()
    }

    /// A tensor of one of these types whose rank is within these, there already or new.
    pub fn any(&mut self, cursor: &mut Cursor<'_>, dtypes: &[DataType], ranks: std::ops::RangeInclusive<usize>) -> Node {
        let fits = |node: &&Node| !node.changes && dtypes.contains(&node.dtype) && ranks.contains(&node.dims.len());
        let known: Vec<usize> = self.nodes.iter().enumerate().filter(|(_, node)| fits(node)).map(|(at, _)| at).collect();
        if !known.is_empty() && !cursor.one_in(4) {
            return self.nodes[cursor.of(&known)].clone();
        }
        let dtype = cursor.of(dtypes);
        let rank = (*ranks.start() + cursor.below(ranks.end() - ranks.start() + 1)).min(if self.hostile { 9 } else { 4 });
        let dims = self.dims(cursor, rank.max(*ranks.start()));
        self.fresh(cursor, dtype, &dims)
    }

    /// A tensor of a type and sizes, there already or new.
    pub fn like(&mut self, cursor: &mut Cursor<'_>, dtype: DataType, dims: &[Dim]) -> Node {
        let fits = |node: &&Node| !node.changes && node.dtype == dtype && node.dims == dims;
        let known: Vec<usize> = self.nodes.iter().enumerate().filter(|(_, node)| fits(node)).map(|(at, _)| at).collect();
        if !known.is_empty() && !cursor.one_in(3) {
            return self.nodes[cursor.of(&known)].clone();
        }
        self.fresh(cursor, dtype, dims)
    }

    /// A new input, or a constant where sizes allow it.
    pub fn fresh(&mut self, cursor: &mut Cursor<'_>, dtype: DataType, dims: &[Dim]) -> Node {
        let fixed = dims.iter().all(|dim| matches!(dim, Dim::Fixed(_)));
        if fixed && cursor.flip() {
            let bound = Self::bound(dims);
            return self.constant(cursor, dtype, &bound);
        }
        self.input(dtype, dims)
    }

    /// Indices of these sizes that name one of `rows` elements.
    pub fn indices(&mut self, cursor: &mut Cursor<'_>, dims: &[Dim], rows: u32) -> Node {
        let fixed = dims.iter().all(|dim| matches!(dim, Dim::Fixed(_)));
        if fixed && cursor.one_in(3) {
            let bound = Self::bound(dims);
            return self.constant_below(cursor, DataType::Int32, &bound, rows);
        }
        self.input_of(Input { dtype: DataType::Int32, dims: dims.to_vec(), below: Some(rows), position: false })
    }
}
