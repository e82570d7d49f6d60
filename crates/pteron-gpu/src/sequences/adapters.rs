//! Low-rank adapters: updates after linears that rows of a call choose.
//!
//! Linears are found by what surrounds them: queries, keys and values are computed before an attention call, its result goes into the
//! output projection, and the SwiGLU after it has two factors and one reader. Merged linears stay merged, and the norm before them stays
//! part of them: the update normalises the rows it reads. SwiGLU that is fused with its linears is divided, because the updates are added to
//! its factors.

use std::collections::HashMap;
use std::ops::Range;

use pteron_format::adapter::{Projection, Projections};

use super::{SequenceInputs, input};
use crate::error::Result;
use crate::graph::{DecodedGraph, Node, Role};
use crate::ir::{Constant, ConstantId, ConstantSource, DataType, Graph, Tensor, Value, ValueId};
use crate::live::TensorId;
use crate::ops::fused_linear::FusedLinear;
use crate::ops::lora::tiles::max_tiles;
use crate::ops::lora::{LoraCall, TILE_WORDS};
use crate::ops::sdpa::paged::PagedSdpa;

/// Room for low-rank adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdapterOptions {
    /// The most adapters that are loaded at a time.
    pub slots: u32,
    /// The largest rank of an adapter. Rounded up to a multiple of four.
    pub max_rank: u32,
    /// The linears that adapters may update.
    pub projections: Projections,
}

impl AdapterOptions {
    /// The input of tiles for calls of up to this many rows.
    pub(super) fn tiles(&self, rows: u32) -> Tensor {
        Tensor::new(DataType::Int32, &[max_tiles(rows, self.slots), TILE_WORDS])
    }

    fn rank(&self) -> u32 {
        self.max_rank.max(1).next_multiple_of(4)
    }
}

/// Labels of a linear: its layer and projection as one number.
pub(super) fn label(layer: usize, projection: Projection) -> i64 {
    i64::try_from(layer).unwrap_or(i64::MAX / 8) * 8 + projection as i64
}

/// The layer and the projection of a label.
pub(super) fn labelled(label: i64) -> Option<(u32, Projection)> {
    let projection = Projection::ALL.into_iter().find(|&projection| projection as i64 == label % 8)?;
    Some((u32::try_from(label / 8).ok()?, projection))
}

/// The longest chain of views and norms between a linear and attention.
const MAX_CHAIN: usize = 16;

/// Inserts updates after the linears that adapters may update.
pub(super) fn insert(graph: DecodedGraph, options: &AdapterOptions, inputs: &SequenceInputs) -> Result<DecodedGraph> {
    let Some(tiles) = inputs.adapters.map(|index| input(&graph, index)) else { return Ok(graph) };
    let labels = Linears::new(&graph).labels();
    let mut source = graph.source.clone();
    let mut calls = Vec::with_capacity(source.calls.len());
    for (index, node) in graph.nodes.iter().enumerate() {
        let own = source.calls[index].clone();
        let wanted = |label: &Option<i64>| label.and_then(labelled).filter(|&(_, own)| options.projections.contains(own));
        let linear = labels.get(&index).filter(|labels| labels.iter().any(|label| wanted(label).is_some()));
        let Some((labels, linear)) = linear.zip(FusedLinear::of(node)).filter(|(_, linear)| can_update(&graph, linear))
        else {
            calls.push(own);
            continue;
        };
        let mut site = Site { graph: &graph, source: &mut source, options, tiles, linear };
        let [linear, update] = if site.linear.swiglu {
            site.divided(labels)
        } else {
            site.updated(own, &labels.iter().map(|label| label.filter(|_| wanted(label).is_some())).collect::<Vec<_>>())
        };
        calls.extend([linear.at(node.call), update.at(node.call)]);
    }
    source.calls = calls;
    DecodedGraph::assemble(source, graph.size())
}

/// Whether the kernels of updates take a linear.
fn can_update(graph: &DecodedGraph, linear: &FusedLinear) -> bool {
    let k = graph.info(linear.x).bound.last();
    let addend_of_two = linear.swiglu && linear.addend.is_some();
    let is_output = linear.outputs.iter().any(|out| graph.outputs.contains(out));
    k > 0 && k.is_multiple_of(4) && !addend_of_two && !linear.last_row && !is_output
}

/// A linear that is to be updated.
struct Site<'a> {
    graph: &'a DecodedGraph,
    source: &'a mut Graph,
    options: &'a AdapterOptions,
    tiles: ValueId,
    linear: FusedLinear,
}

impl Site<'_> {
    /// SwiGLU as the linears of its factors, and the update that computes it.
    fn divided(&mut self, labels: &[Option<i64>]) -> [crate::ir::Call; 2] {
        let [out] = [self.linear.outputs[0]];
        let products = [self.tensor_like(out), self.tensor_like(out)];
        let outputs = products.map(|product| TensorId(product.0)).to_vec();
        let linear = FusedLinear { swiglu: false, outputs, ..self.linear.clone() }.call(self.source);
        let labels = labels.iter().map(|label| label.unwrap_or(-1)).collect();
        [linear, self.update(products.to_vec(), vec![ValueId(out.0)], labels, true)]
    }

    /// The linear with the labelled outputs renamed, and the update that changes them.
    fn updated(&mut self, mut call: crate::ir::Call, labels: &[Option<i64>]) -> [crate::ir::Call; 2] {
        let (mut products, mut outputs, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for (out, label) in self.linear.outputs.clone().into_iter().zip(labels) {
            let Some(label) = label else { continue };
            let product = self.tensor_like(out);
            call.args =
                call.args.iter().map(|&arg| super::renamed(self.source, arg, &[(ValueId(out.0), product)])).collect();
            products.push(product);
            outputs.push(ValueId(out.0));
            kept.push(*label);
        }
        [call, self.update(products, outputs, kept, false)]
    }

    fn update(&mut self, products: Vec<ValueId>, outputs: Vec<ValueId>, labels: Vec<i64>, swiglu: bool) -> crate::ir::Call {
        let FusedLinear { x, norm, .. } = self.linear;
        let AdapterOptions { slots, .. } = *self.options;
        let (k, rank) = (self.graph.info(x).bound.last(), self.options.rank());
        let count = u32::try_from(products.len()).unwrap_or(u32::MAX);
        let columns =
            |id: &ValueId| self.source.value(*id).and_then(Value::as_tensor).and_then(|tensor| tensor.dims.last().copied());
        let width = products.iter().filter_map(columns).fold(0u32, u32::saturating_add);
        let matrices = [
            zeros(self.source, DataType::Int32, &[slots, count, rank, k / 2]),
            zeros(self.source, DataType::Int32, &[slots, width, rank / 2]),
            zeros(self.source, DataType::Float32, &[slots, count]),
        ];
        LoraCall { x, norm, products, matrices, tiles: self.tiles, swiglu, labels, outputs }.call(self.source)
    }

    fn tensor_like(&mut self, tensor: TensorId) -> ValueId {
        let dims = self.graph.info(tensor).bound;
        self.source.add(Value::Tensor(Tensor::new(DataType::Float32, &dims)))
    }
}

/// A constant of zeros, which the host may write later. It shares its buffer with no other.
pub(super) fn zeros(graph: &mut Graph, dtype: DataType, dims: &[u32]) -> ValueId {
    let mut tensor = Tensor::new(dtype, dims);
    let len = tensor.byte_len().unwrap_or(u64::MAX);
    let id = ConstantId(u32::try_from(graph.constants.len()).unwrap_or(u32::MAX));
    graph.constants.push(Constant { len, source: ConstantSource::Zeros });
    tensor.constant = Some(id);
    graph.add(Value::Tensor(tensor))
}

/// The data flow of a graph, in which linears are found.
struct Linears<'a> {
    graph: &'a DecodedGraph,
    writers: HashMap<TensorId, usize>,
    readers: HashMap<TensorId, Vec<usize>>,
    /// For each linear the label of each of its weights.
    found: HashMap<usize, Vec<Option<i64>>>,
}

impl<'a> Linears<'a> {
    fn new(graph: &'a DecodedGraph) -> Self {
        let (mut writers, mut readers) = (HashMap::new(), HashMap::<_, Vec<_>>::new());
        for (index, node) in graph.nodes.iter().enumerate() {
            writers.extend(node.flow.writes.iter().map(|&tensor| (tensor, index)));
            node.flow.reads.iter().for_each(|&tensor| readers.entry(tensor).or_default().push(index));
        }
        Self { graph, writers, readers, found: HashMap::new() }
    }

    fn labels(mut self) -> HashMap<usize, Vec<Option<i64>>> {
        let attention = |(index, node): (usize, &Node)| Some((index, node.op.downcast::<PagedSdpa>()?.operands()));
        let layers: Vec<(usize, [TensorId; 4])> = self.graph.nodes.iter().enumerate().filter_map(attention).collect();
        for (layer, &(index, [q, k, v, out])) in layers.iter().enumerate() {
            for (tensor, projection) in [(q, Projection::Query), (k, Projection::Key), (v, Projection::Value)] {
                if let Some((linear, position)) = self.before(tensor) {
                    self.label(linear, position, label(layer, projection));
                }
            }
            if let Some(linear) = self.after(out) {
                self.label(linear, 0, label(layer, Projection::AttentionOutput));
            }
            let end = layers.get(layer + 1).map_or(self.graph.nodes.len(), |&(next, _)| next);
            self.label_swiglu(layer, index..end);
        }
        self.found
    }

    /// Labels the SwiGLU among these calls, and the linear after it.
    fn label_swiglu(&mut self, layer: usize, calls: Range<usize>) {
        let nodes = &self.graph.nodes;
        let swiglu =
            calls.into_iter().find_map(|index| Some((index, FusedLinear::of(&nodes[index]).filter(|own| own.swiglu)?)));
        let Some((index, swiglu)) = swiglu else { return };
        self.label(index, 0, label(layer, Projection::Gate));
        self.label(index, 1, label(layer, Projection::Up));
        if let Some(down) = self.after(swiglu.outputs[0]) {
            self.label(down, 0, label(layer, Projection::Down));
        }
    }

    fn label(&mut self, linear: usize, position: usize, label: i64) {
        let count = FusedLinear::of(&self.graph.nodes[linear]).map_or(0, |own| own.weights.len());
        let labels = self.found.entry(linear).or_insert_with(|| vec![None; count]);
        if let Some(own @ None) = labels.get_mut(position) {
            *own = Some(label);
        }
    }

    /// The linear that computes a tensor, and the position of its output. Between them are views and norms.
    fn before(&self, mut tensor: TensorId) -> Option<(usize, usize)> {
        for _ in 0..MAX_CHAIN {
            let index = *self.writers.get(&tensor)?;
            let node = &self.graph.nodes[index];
            if let Some(linear) = FusedLinear::of(node) {
                return Some((index, linear.outputs.iter().position(|&out| out == tensor).filter(|_| !linear.swiglu)?));
            }
            let mut read = node.flow.reads.iter().filter(|&&read| !matches!(self.graph.role(read), Role::Constant(_)));
            tensor = *read.next().filter(|_| node.flow.writes.len() == 1)?;
            if read.next().is_some() {
                return None;
            }
        }
        None
    }

    /// The linear of one output that alone reads a tensor, possibly after views.
    fn after(&self, mut tensor: TensorId) -> Option<usize> {
        for _ in 0..MAX_CHAIN {
            let &[index] = self.readers.get(&tensor)?.as_slice() else { return None };
            let node = &self.graph.nodes[index];
            if let Some(linear) = FusedLinear::of(node) {
                return (linear.x == tensor && linear.outputs.len() == 1 && !linear.swiglu).then_some(index);
            }
            let &[view] = node.flow.writes.as_slice() else { return None };
            tensor = view;
        }
        None
    }
}
