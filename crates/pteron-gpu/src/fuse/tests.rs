//! Graph builders for the fusions' tests, and the effect of all fusions on exported models.

use super::Fusions;
use super::editor::Editor;
use super::same_dims::SameDims;
use crate::engine::{LoadOptions, LoadedGraph};
use crate::graph::{DecodedGraph, Node};
use crate::ir::{DataType, Value, ValueId};
use crate::live::TensorId;
use crate::ops::fused_linear::NAME;
use crate::reference::HostTensor;
use crate::testing::{GraphBuilder, compare_outputs, f32s, gpu, noise, noise_bytes, run};

/// Names of operators in files.
pub(super) const ADD: &str = "aten.add.Tensor";
pub(super) const LINEAR: &str = "et_vk.linear_q4gsw.default";
pub(super) const FLOAT_LINEAR: &str = "aten.linear.default";
pub(super) const LINEAR_8BIT: &str = "et_vk.linear_dq8ca_q4gsw.default";
pub(super) const RANGES: &str = "torchao.choose_qparams_affine.default";
pub(super) const NORM: &str = "et_vk.rms_norm.default";
pub(super) const VIEW: &str = "aten.view_copy.default";

/// Builds a decoder's parts on rows of k numbers, with another number of rows per call.
pub(super) struct LayerBuilder {
    pub(super) builder: GraphBuilder,
    pub(super) x: ValueId,
    /// The number of rows, for views.
    rows: ValueId,
    k: u32,
    /// For the next linears: the values per scale, padding bytes after each row, and whether weights are inputs.
    pub(super) group: u32,
    pub(super) padding: u32,
    pub(super) from_outside: bool,
    /// Whether rows are quantised to 8 bits.
    pub(super) quantised: bool,
    seed: u64,
}

impl LayerBuilder {
    pub(super) const ROWS: u32 = 20;

    pub(super) fn new(k: u32) -> Self {
        let [x, rows] = [ValueId(0); 2];
        let (builder, [from_outside, quantised]) = (GraphBuilder::new(), [false; 2]);
        let mut layer = Self { builder, x, rows, k, group: 32, padding: 0, from_outside, quantised, seed: 1 };
        (layer.x, layer.rows) = layer.input();
        layer
    }

    /// An input with any number of rows, and that number.
    pub(super) fn input(&mut self) -> (ValueId, ValueId) {
        let input = self.builder.input(DataType::Float32, &[1, Self::ROWS, self.k]);
        let (one, rows) = (self.builder.int(1), self.builder.value(Value::SymInt));
        self.builder.call("sym_size.int", &[input, one, rows]);
        (self.view_of(input, rows, self.k), rows)
    }

    fn noise(&mut self, count: u32) -> Vec<f32> {
        self.seed += 1;
        noise(self.seed, count as usize)
    }

    fn rows_of(&mut self, width: u32) -> ValueId {
        self.builder.tensor(DataType::Float32, &[1, Self::ROWS, width])
    }

    fn width(&self, value: ValueId) -> u32 {
        self.builder.graph.value(value).and_then(Value::as_tensor).and_then(|tensor| tensor.dims.last()).copied().unwrap()
    }

    pub(super) fn linear(&mut self, x: ValueId, n: u32) -> ValueId {
        let ranges = self.quantised.then(|| self.ranges(x));
        self.linear_with(x, n, ranges)
    }

    /// A linear of rows that are quantised with these scales and zero points.
    pub(super) fn linear_of_ranges(&mut self, x: ValueId, n: u32, ranges: [ValueId; 2]) -> ValueId {
        self.linear_with(x, n, Some(ranges))
    }

    /// Scales and zero points of rows.
    pub(super) fn ranges(&mut self, x: ValueId) -> [ValueId; 2] {
        self.ranges_of(x, self.k, [-128, 127])
    }

    /// Scales and zero points of blocks of this length, for this range.
    pub(super) fn ranges_of(&mut self, x: ValueId, block: u32, [low, high]: [i64; 2]) -> [ValueId; 2] {
        let dims = [1, Self::ROWS, self.k / block];
        let dims = if block == self.k { &dims[..2] } else { &dims[..] };
        let outs = [DataType::Float32, DataType::Int8].map(|dtype| self.builder.tensor(dtype, dims));
        let mapping = self.builder.value(Value::String("ASYMMETRIC".into()));
        let blocks = self.builder.value(Value::IntList(vec![1, 1, block.into()]));
        let [low, high] = [low, high].map(|value| self.builder.int(value));
        let (none, eps) = (self.builder.value(Value::Null), self.builder.float(1e-5));
        let (keep, out) = (self.builder.value(Value::Bool(false)), self.builder.value(Value::ValueList(outs.to_vec())));
        self.builder.call(RANGES, &[x, mapping, blocks, none, low, high, eps, none, none, keep, out]);
        outs
    }

    fn linear_with(&mut self, x: ValueId, n: u32, ranges: Option<[ValueId; 2]>) -> ValueId {
        let stride = self.k / 2 + self.padding;
        self.seed += 1;
        let weight = if self.from_outside {
            self.builder.input(DataType::UInt8, &[n, stride])
        } else {
            self.builder.constant(DataType::UInt8, &[n, stride], noise_bytes(self.seed, (n * stride) as usize))
        };
        let groups = self.k / self.group;
        let scales: Vec<f32> = self.noise(groups * n).iter().map(|scale| scale * 0.05).collect();
        let scales = self.builder.floats(&[groups, n], &scales);
        let bias = self.noise(n);
        let bias = self.builder.floats(&[n], &bias);
        let (group, out) = (self.builder.int(self.group.into()), self.rows_of(n));
        match ranges {
            None => self.builder.call(LINEAR, &[x, weight, scales, group, bias, out]),
            Some([scale, zero]) => {
                // Kernels check the sums of weights and do not read them.
                let sums = self.builder.constant(DataType::Int32, &[groups, n], vec![0; (groups * n * 4) as usize]);
                self.builder.call(LINEAR_8BIT, &[x, scale, zero, weight, sums, scales, group, bias, out]);
            }
        }
        out
    }

    /// A linear with float weights and a bias, of grouped or flat rows.
    pub(super) fn float_linear(&mut self, x: ValueId, n: u32) -> ValueId {
        let k = self.width(x);
        let weights: Vec<f32> = self.noise(n * k).iter().map(|weight| weight * 0.2).collect();
        let weight = self.builder.floats(&[n, k], &weights);
        let bias = self.noise(n);
        let bias = self.builder.floats(&[n], &bias);
        let Some(Value::Tensor(like)) = self.builder.graph.value(x).cloned() else { panic!("a tensor") };
        let dims = [&like.dims[..like.dims.len() - 1], &[n]].concat();
        let out = self.builder.tensor(DataType::Float32, &dims);
        self.builder.call(FLOAT_LINEAR, &[x, weight, bias, out]);
        out
    }

    /// A float linear as exporters write it: of flattened rows, which are grouped again.
    pub(super) fn flat_linear(&mut self, x: ValueId, n: u32) -> ValueId {
        let flat = self.flat(x, self.width(x));
        let out = self.float_linear(flat, n);
        self.view(out, n)
    }

    /// A view of rows without groups.
    pub(super) fn flat(&mut self, value: ValueId, width: u32) -> ValueId {
        let out = self.builder.tensor(DataType::Float32, &[Self::ROWS, width]);
        let width = self.builder.int(width.into());
        let sizes = self.builder.value(Value::ValueList(vec![self.rows, width]));
        self.builder.call(VIEW, &[value, sizes, out]);
        out
    }

    /// A tensor plus itself.
    pub(super) fn flat_sum(&mut self, x: ValueId) -> ValueId {
        self.sum(x, x)
    }

    /// A view that keeps the dims, with symbolic sizes.
    pub(super) fn view(&mut self, value: ValueId, width: u32) -> ValueId {
        self.view_of(value, self.rows, width)
    }

    fn view_of(&mut self, value: ValueId, rows: ValueId, width: u32) -> ValueId {
        let (one, width, out) = (self.builder.int(1), self.builder.int(width.into()), self.rows_of(width));
        let sizes = self.builder.value(Value::ValueList(vec![one, rows, width]));
        self.builder.call("aten.view_copy.default", &[value, sizes, out]);
        out
    }

    pub(super) fn norm(&mut self, x: ValueId) -> ValueId {
        let weight = self.noise(self.k);
        let weight = self.builder.floats(&[self.k], &weight);
        let (eps, out) = (self.builder.float(1e-5), self.rows_of(self.k));
        self.builder.call("et_vk.rms_norm.default", &[x, weight, eps, out]);
        out
    }

    pub(super) fn unary(&mut self, name: &str, x: ValueId) -> ValueId {
        let out = self.rows_of(self.width(x));
        self.builder.call(name, &[x, out]);
        out
    }

    pub(super) fn product(&mut self, a: ValueId, b: ValueId) -> ValueId {
        let out = self.rows_of(self.width(a).max(self.width(b)));
        self.builder.call("aten.mul.Tensor", &[a, b, out]);
        out
    }

    pub(super) fn sum(&mut self, a: ValueId, b: ValueId) -> ValueId {
        let Some(Value::Tensor(like)) = self.builder.graph.value(a).cloned() else { panic!("a tensor") };
        let (one, out) = (self.builder.int(1), self.builder.tensor(DataType::Float32, &like.dims));
        self.builder.call("aten.add.Tensor", &[a, b, one, out]);
        out
    }

    /// Calls with few and many rows, in no order.
    pub(super) fn calls(&self) -> Vec<Vec<HostTensor>> {
        let call = |rows: u32| vec![f32s(&[1, rows, self.k], noise(rows.into(), (rows * self.k) as usize))];
        [Self::ROWS, 1, 9, 3, 8, 0, 1].map(call).to_vec()
    }
}

/// The operators of a fused graph, without those at its inputs.
pub(super) fn fused_names(builder: &GraphBuilder, fusions: &Fusions) -> Vec<&'static str> {
    let graph = DecodedGraph::decode_with(builder.graph.clone(), fusions).unwrap();
    let name = |node: &&Node| *node.def.names.iter().find(|name| **name == node.name).unwrap();
    let at_input = |node: &&Node| node.flow.reads.iter().all(|read| graph.inputs.contains(read));
    let begins = |node: &&Node| at_input(node) && [VIEW, "sym_size.int"].contains(&node.name);
    graph.nodes.iter().filter(|node| !begins(node)).map(|node| name(&node)).collect()
}

/// Compares the outputs of a graph fused and unfused.
pub(super) fn agree(builder: &GraphBuilder, fusions: &Fusions, calls: &[Vec<HostTensor>]) {
    let load = |fusions| builder.load_fused(&gpu(), fusions, &LoadOptions::default()).unwrap();
    let [plain, fused]: [LoadedGraph; 2] = [&Fusions::NONE, fusions].map(load);
    let names = |graph: &LoadedGraph| graph.graph().nodes.iter().map(|node| node.name).collect::<Vec<_>>();
    assert_ne!(names(&fused), names(&plain), "nothing was fused");
    let [mut plain_state, mut fused_state] = [&plain, &fused].map(|graph| graph.new_state().unwrap());
    for (index, inputs) in calls.iter().enumerate() {
        let want = run(&plain, &mut plain_state, inputs).unwrap();
        let got = run(&fused, &mut fused_state, inputs).unwrap();
        compare_outputs(&format!("call {index}"), &got, &want, 1e-5);
    }
}

#[test]
fn nothing_is_fused_where_nothing_is_asked_for() {
    let mut layer = LayerBuilder::new(64);
    let normed = layer.norm(layer.x);
    let product = layer.linear(normed, 64);
    let sum = layer.sum(layer.x, product);
    layer.builder.output(sum);
    let names = fused_names(&layer.builder, &Fusions::NONE);
    assert_eq!(names, [NORM, LINEAR, ADD]);
    assert_eq!(fused_names(&layer.builder, &Fusions::default()), [NAME]);
}

#[test]
fn errors_name_calls_as_they_are_before_fusions() {
    let mut layer = LayerBuilder::new(64);
    for n in [8, 12] {
        let out = layer.linear(layer.x, n);
        layer.builder.output(out);
    }
    let normed = layer.norm(layer.x);
    layer.builder.output(normed);
    // The norm is call 4 of the file, after two linears that are merged.
    let fused = DecodedGraph::decode_with(layer.builder.graph.clone(), &Fusions::ALL).unwrap();
    assert_eq!(fused.nodes.iter().map(|node| node.call).collect::<Vec<_>>(), [0, 1, 2, 4]);
    let calls = layer.builder.graph.calls.len();
    layer.builder.call("aten.neg.default", &[normed]);
    let error = DecodedGraph::decode_with(layer.builder.graph, &Fusions::ALL).unwrap_err().to_string();
    assert!(error.contains(&format!("(call {calls})")), "{error}");
}

#[test]
fn sizes_that_may_differ_live_are_not_the_same() {
    let mut layer = LayerBuilder::new(64);
    let same = layer.unary("aten.sigmoid.default", layer.x);
    let viewed = layer.view(same, 64);
    let product = layer.linear(viewed, 8);
    let (other, _) = layer.input();
    let mixed = layer.sum(layer.x, other);
    layer.builder.output(product);
    layer.builder.output(mixed);
    let dims = SameDims::new(&layer.builder.decode().unwrap());
    let same_dims = |a: ValueId, b: ValueId| dims.same(TensorId(a.0), TensorId(b.0));
    assert!(same_dims(layer.x, same) && same_dims(layer.x, viewed));
    assert!(!same_dims(layer.x, product) && !same_dims(layer.x, other) && !same_dims(layer.x, mixed));
}

#[test]
fn a_fusion_that_leaves_an_invalid_graph_is_an_error() {
    /// Removes a call whose output the next one reads.
    fn broken(editor: &mut Editor<'_>) {
        let second = editor.source.calls[1].clone();
        editor.replace_with(&[0, 1], 1, second);
    }
    let mut builder = GraphBuilder::new();
    let [x, y, z] = [(); 3].map(|()| builder.tensor(DataType::Float32, &[4]));
    builder.graph.inputs.push(x);
    builder.call("aten.neg.default", &[x, y]);
    builder.call("aten.abs.default", &[y, z]);
    builder.output(z);
    let error = super::apply(builder.decode().unwrap(), "broken", broken, u64::MAX).unwrap_err();
    assert!(matches!(error, crate::Error::InvalidFusion { fusion: "broken", .. }), "{error}");
    assert!(error.to_string().contains("which nothing has computed before; load without fusions"), "{error}");
}
