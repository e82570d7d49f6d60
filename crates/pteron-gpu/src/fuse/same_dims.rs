//! Tensors that have equal dims at every live shape.
//!
//! Equal bounds are not enough: tensors with equal bounds may have different live dims, and a sum of them broadcasts.

use std::collections::HashMap;

use super::operators::{self, Binary};
use crate::graph::{DecodedGraph, Node, Role, TensorInfo};
use crate::live::{Scalar, ScalarId, TensorId};
use crate::ops::convolution::fused::FusedConvolution;
use crate::ops::copy::{self, Cat, CopyKind, Split, view};
use crate::ops::embedding::half_table::HalfEmbedding;
use crate::ops::embedding_q4gsw::EmbeddingQ4;
use crate::ops::embedding_quantised::QuantisedEmbedding;
use crate::ops::fused_linear::FusedLinear;
use crate::ops::linear_dq8ca_q4gsw::LinearQ8Q4;
use crate::ops::reduce::Reduction;
use crate::ops::rms_norm::RmsNorm;
use crate::ops::rotary;
use crate::ops::sdpa::{GeneralSdpa, Sdpa};
use crate::ops::symint::{Source, SymInt};
use crate::shape::{Dims, MAX_RANK};
use crate::strided_copy::gather::{Gather, GatherMode};

/// A size; equal sizes are the same number in every call. A dimension with bound 1 counts as 1: it is 1 or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Size {
    Fixed(u32),
    /// A dimension of a tensor of which nothing else is known.
    Of(TensorId, usize),
    /// A symbol that is not a tensor's size.
    Symbol(ScalarId),
    /// The number of windows over another size, by index.
    Windows(usize),
}

/// Windows over a size: the size, the padding less the extent of a window, and the stride; whether the convolution is transposed, and
/// what is added to its output then.
type Windows = (Size, i64, u32, Option<u32>);

pub(super) struct SameDims {
    tensors: Vec<Vec<Size>>,
    symbols: HashMap<ScalarId, Size>,
    windows: HashMap<Windows, usize>,
}

impl SameDims {
    pub(super) fn new(graph: &DecodedGraph) -> Self {
        let own = |(id, info): (u32, &Option<TensorInfo>)| {
            let tensor = TensorId(id);
            let fixed = matches!(graph.role(tensor), Role::Constant(_) | Role::State(_));
            let size = |(axis, &bound): (usize, &u32)| {
                if fixed || bound == 1 { Size::Fixed(bound) } else { Size::Of(tensor, axis) }
            };
            info.map_or_else(Vec::new, |info| info.bound.iter().enumerate().map(size).collect())
        };
        let mut dims =
            Self { tensors: (0..).zip(&graph.tensors).map(own).collect(), symbols: HashMap::new(), windows: HashMap::new() };
        for node in &graph.nodes {
            dims.follow(graph, node);
        }
        dims
    }

    /// Whether two tensors have the same dims at every live shape.
    pub(super) fn same(&self, a: TensorId, b: TensorId) -> bool {
        match (self.tensors.get(a.index()), self.tensors.get(b.index())) {
            (Some(a), Some(b)) => a == b,
            _ => false,
        }
    }

    /// The size of the last dimension, if it is the same number in every call.
    pub(super) fn row_length(&self, tensor: TensorId) -> Option<u32> {
        match self.tensors.get(tensor.index())?.last()? {
            Size::Fixed(length) => Some(*length),
            _ => None,
        }
    }

    /// Whether two tensors have rows of the same length in every call, however those are grouped.
    pub(super) fn same_rows(&self, a: TensorId, b: TensorId) -> bool {
        self.same(a, b) || (self.row_length(a).is_some() && self.row_length(a) == self.row_length(b))
    }

    /// Whether all sizes of a tensor are the same numbers in every call.
    pub(super) fn is_fixed(&self, tensor: TensorId) -> bool {
        let sizes = self.tensors.get(tensor.index());
        sizes.is_some_and(|sizes| sizes.iter().all(|size| matches!(size, Size::Fixed(_))))
    }

    /// The size of a dimension, if it is the same number in every call.
    pub(super) fn fixed(&self, tensor: TensorId, axis: usize) -> Option<u32> {
        match self.tensors.get(tensor.index())?.get(axis)? {
            Size::Fixed(size) => Some(*size),
            _ => None,
        }
    }

    /// Whether two dimensions have the same size in every call.
    pub(super) fn same_size(&self, a: (TensorId, usize), b: (TensorId, usize)) -> bool {
        let size = |(tensor, axis): (TensorId, usize)| self.tensors.get(tensor.index()).and_then(|sizes| sizes.get(axis));
        size(a).is_some() && size(a) == size(b)
    }

    /// Whether a symbol is the size of a dimension of a tensor.
    pub(super) fn is_size(&self, symbol: ScalarId, tensor: TensorId, axis: usize) -> bool {
        let size = self.tensors.get(tensor.index()).and_then(|sizes| sizes.get(axis));
        size.is_some() && self.symbols.get(&symbol) == size
    }

    fn of(&self, tensor: TensorId) -> Option<Vec<Size>> {
        self.tensors.get(tensor.index()).cloned()
    }

    /// Derives the sizes of a call's output.
    fn follow(&mut self, graph: &DecodedGraph, node: &Node) {
        if let Some(SymInt { source: Source::Size { x, axis }, out }) = node.op.downcast() {
            if let Some(&size) = self.tensors.get(x.index()).and_then(|dims| dims.get(*axis)) {
                self.symbols.insert(*out, size);
            }
        } else if let Some((view, CopyKind::View(sizes))) = operators::copy(node) {
            let sizes = self.viewed(graph, view.from, sizes, view.out);
            self.set(graph, view.out, sizes);
        } else if let Some((copy, CopyKind::Expanded(sizes))) = operators::copy(node) {
            let sizes = self.expanded(graph, copy.from, sizes);
            self.set(graph, copy.out, sizes);
        } else if let Some((copy, kind)) = operators::copy(node) {
            let sizes = self.of(copy.from).and_then(|sizes| copied(sizes, kind));
            self.set(graph, copy.out, sizes);
        } else if let Some(cat) = node.op.downcast() {
            let sizes = self.joined(cat);
            self.set(graph, cat.out, sizes);
        } else if let Some(split) = node.op.downcast::<Split>() {
            let lengths = split.fixed_lengths(self.fixed(split.from, split.axis)).unwrap_or_default();
            for (&out, length) in split.outs.iter().zip(lengths) {
                let section = self.of(split.from).and_then(|whole| resized(whole, split.axis, length));
                self.set(graph, out, section);
            }
        } else if let Some((x, reduced, out)) = node.op.downcast().and_then(Reduction::kept_dims) {
            let kept = |(size, &reduced): (Size, &bool)| if reduced { Size::Fixed(1) } else { size };
            let sizes = self.of(x).map(|sizes| sizes.into_iter().zip(reduced).map(kept).collect());
            self.set(graph, out, sizes);
        } else if let Some((q, out)) = node.op.downcast().map(Sdpa::queries_and_output) {
            self.set(graph, out, self.of(q));
        } else if let Some((q, _, out)) = node.op.downcast().and_then(GeneralSdpa::queries_keys_output) {
            self.set(graph, out, self.of(q));
        } else if let Some(rotated) = rotary::inputs_and_outputs(node.op.as_ref()) {
            rotated.into_iter().for_each(|(x, out)| self.set(graph, out, self.of(x)));
        } else if let Some(convolution) = FusedConvolution::of(node) {
            self.follow_convolution(graph, &convolution);
        } else if let Some((x, out)) =
            operators::unary(node).or_else(|| node.op.downcast().map(|norm: &RmsNorm| (norm.x, norm.out)))
        {
            self.set(graph, out, self.of(x));
        } else if let Some(Binary { inputs: [a, b], out }) = operators::binary(node) {
            let sizes = self.broadcast(a, b);
            self.set(graph, out, sizes);
        } else if let Some((table, indices, out)) = lookup(node) {
            if matches!(graph.role(table), Role::Constant(_)) {
                let width = graph.info(out).bound.last();
                let sizes = self.of(indices).map(|indices| [indices, vec![Size::Fixed(width)]].concat());
                self.set(graph, out, sizes);
            }
        } else if let Some(linear) = FusedLinear::of(node) {
            self.follow_linear(graph, &linear);
        } else if let Some(LinearQ8Q4 { frame, weights, .. }) = node.op.downcast()
            && matches!(graph.role(weights.weight), Role::Constant(_))
        {
            let columns = graph.info(frame.out).bound.last();
            let sizes = self.of(frame.x).and_then(|sizes| {
                let last = sizes.len().checked_sub(1)?;
                resized(sizes, last, columns)
            });
            self.set(graph, frame.out, sizes);
        }
    }

    /// The sizes of an elementwise result of two tensors, where they are equal or 1.
    fn broadcast(&self, a: TensorId, b: TensorId) -> Option<Vec<Size>> {
        let (a, b) = (self.of(a)?, self.of(b)?);
        let rank = a.len().max(b.len());
        let size = |axis: usize| {
            let of = |sizes: &[Size]| (axis + sizes.len()).checked_sub(rank).map_or(Size::Fixed(1), |axis| sizes[axis]);
            match (of(&a), of(&b)) {
                (Size::Fixed(1), other) | (other, Size::Fixed(1)) => Some(other),
                (a, b) => (a == b).then_some(a),
            }
        };
        (0..rank).map(size).collect()
    }

    /// The sizes of joined tensors of one rank, where all have the same number along the axis in every call.
    fn joined(&self, cat: &Cat) -> Option<Vec<Size>> {
        let all = cat.tensors.iter().map(|&tensor| self.of(tensor)).collect::<Option<Vec<_>>>()?;
        let mut first = all.first()?.clone();
        if cat.stacked {
            let count = u32::try_from(all.len()).ok()?;
            first.insert(cat.axis.min(first.len()), Size::Fixed(count));
            return Some(first);
        }
        let total = all.iter().try_fold(0u32, |total, sizes| match sizes.get(cat.axis)? {
            Size::Fixed(size) if sizes.len() == first.len() => total.checked_add(*size),
            _ => None,
        });
        resized(first, cat.axis, total?)
    }

    /// The output of a convolution has the images of its input, the number of windows along each of its dims, and the weight's channels.
    fn follow_convolution(&mut self, graph: &DecodedGraph, convolution: &FusedConvolution) {
        let Some(mut sizes) = self.of(convolution.x) else { return };
        let geometry = &convolution.geometry;
        let weight = geometry.logical_weight(convolution.layout, graph.info(convolution.weight).bound);
        let Ok(weight) = weight else { return };
        let last = geometry.spatial + 1;
        if sizes.len() != last + 1 || weight.len() != last + 1 {
            return;
        }
        for axis in 0..geometry.spatial {
            let across = 2 - geometry.spatial + axis;
            let extent = i64::from(geometry.dilation[across]) * (i64::from(weight[2 + axis]) - 1) + 1;
            let offset = i64::from(geometry.padding[across]) + i64::from(geometry.after[across]) - extent;
            let transposed = geometry.transposed.then_some(geometry.output_padding[across]);
            let windows = (sizes[1 + axis], offset, geometry.stride[across], transposed);
            // One window per element leaves a size as it is.
            if offset != -1 || windows.2 != 1 || transposed.is_some_and(|more| more > 0) {
                let next = self.windows.len();
                sizes[1 + axis] = Size::Windows(*self.windows.entry(windows).or_insert(next));
            }
        }
        sizes[last] = Size::Fixed(graph.info(convolution.out).bound.last());
        self.set(graph, convolution.out, Some(sizes));
    }

    /// The outputs of linears have the dims of their input except for the last, or those of an addend.
    fn follow_linear(&mut self, graph: &DecodedGraph, linear: &FusedLinear) {
        if let (Some(addend), [out]) = (linear.addend, linear.outputs.as_slice()) {
            return self.set(graph, *out, self.of(addend));
        }
        for (&out, &weight) in linear.outputs.iter().zip(&linear.weights) {
            if !matches!(graph.role(weight), Role::Constant(_)) {
                continue;
            }
            let mut sizes = self.of(linear.x);
            if let Some(last) = sizes.as_mut().and_then(|sizes| sizes.last_mut()) {
                *last = Size::Fixed(graph.info(weight).bound.first().copied().unwrap_or(0));
            }
            self.set(graph, out, sizes);
        }
    }

    /// The sizes of a view. Symbols among them are exact; numbers alone describe the tensor at its bound, and a view with the
    /// tensor's own bound follows the tensor.
    fn viewed(&self, graph: &DecodedGraph, x: TensorId, sizes: &[Scalar], out: TensorId) -> Option<Vec<Size>> {
        if sizes.len() > MAX_RANK {
            return None;
        }
        let from = self.of(x)?;
        let (from_bound, bound) = (graph.info(x).bound, graph.info(out).bound);
        let symbolic = sizes.iter().any(|size| matches!(size, Scalar::Live(_)));
        if symbolic || sizes.contains(&Scalar::Fixed(-1)) {
            let size = |(axis, size): (usize, &Scalar)| match *size {
                Scalar::Fixed(-1) => Some(self.open_size(&from, sizes).unwrap_or(Size::Of(out, axis))),
                Scalar::Fixed(size) => Some(Size::Fixed(u32::try_from(size).ok()?)),
                Scalar::Live(symbol) => Some(self.symbol(symbol)),
            };
            // Without symbols, numbers describe the tensor at its bound; an open size that follows from the others is exact.
            let exact = symbolic || self.open_size(&from, sizes).is_some();
            return if exact { sizes.iter().enumerate().map(size).collect() } else { None };
        }
        if from_bound == bound { Some(from) } else { followed(&from, &from_bound, &bound, out) }
    }

    /// The sizes of a tensor of the same rank with dims of 1 broadcast.
    fn expanded(&self, graph: &DecodedGraph, x: TensorId, sizes: &[Scalar]) -> Option<Vec<Size>> {
        let (from, bound) = (self.of(x)?, graph.info(x).bound);
        let size = |axis: usize| match (from[axis], sizes[axis]) {
            (own, Scalar::Fixed(-1)) => Some(own),
            (_, Scalar::Live(symbol)) => Some(self.symbol(symbol)),
            (Size::Fixed(_), Scalar::Fixed(size)) => u32::try_from(size).ok().map(Size::Fixed),
            // A number that is the bound follows the dim.
            (own, Scalar::Fixed(size)) => (size == i64::from(bound[axis])).then_some(own),
        };
        (from.len() == sizes.len()).then(|| (0..from.len()).map(size).collect())?
    }

    fn symbol(&self, symbol: ScalarId) -> Size {
        self.symbols.get(&symbol).copied().unwrap_or(Size::Symbol(symbol))
    }

    /// The size that a view leaves open, if it follows from the others: what remains of the tensor's own sizes.
    fn open_size(&self, from: &[Size], sizes: &[Scalar]) -> Option<Size> {
        let (mut product, mut rest) = (1u64, Vec::new());
        for size in from {
            match *size {
                Size::Fixed(size) => product = product.checked_mul(size.into())?,
                size => rest.push(size),
            }
        }
        let mut known = 1u64;
        for &size in sizes {
            match size {
                Scalar::Fixed(-1) => {}
                Scalar::Fixed(size) => known = known.checked_mul(u64::try_from(size).ok()?)?,
                Scalar::Live(symbol) => match self.symbol(symbol) {
                    Size::Fixed(size) => known = known.checked_mul(size.into())?,
                    size => {
                        let position = rest.iter().position(|own| *own == size)?;
                        rest.swap_remove(position);
                    }
                },
            }
        }
        let quotient = product.checked_div(known).filter(|quotient| quotient * known == product)?;
        match *rest.as_slice() {
            [] => u32::try_from(quotient).ok().map(Size::Fixed),
            [size] if quotient == 1 => Some(size),
            _ => None,
        }
    }

    fn set(&mut self, graph: &DecodedGraph, out: TensorId, sizes: Option<Vec<Size>>) {
        let Some(own) = self.tensors.get_mut(out.index()) else { return };
        if let Some(mut sizes) = sizes.filter(|sizes| sizes.len() == own.len()) {
            for (size, &bound) in sizes.iter_mut().zip(graph.info(out).bound.iter()) {
                if bound == 1 {
                    *size = Size::Fixed(1);
                }
            }
            *own = sizes;
        }
    }
}

/// The sizes of a copy.
fn copied(mut sizes: Vec<Size>, kind: CopyKind<'_>) -> Option<Vec<Size>> {
    match kind {
        CopyKind::Same => Some(sizes),
        CopyKind::Permute(order) => order.iter().map(|&axis| sizes.get(axis).copied()).collect(),
        CopyKind::Unsqueezed(axis) => {
            sizes.insert(axis.min(sizes.len()), Size::Fixed(1));
            Some(sizes)
        }
        CopyKind::Squeezed(axes) => {
            let kept = sizes.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
            Some(kept.map(|(_, size)| *size).collect())
        }
        CopyKind::Select { axis, .. } if axis < sizes.len() => {
            sizes.remove(axis);
            Some(sizes)
        }
        CopyKind::Slice { axis, start, end, step } => {
            let Size::Fixed(dim) = *sizes.get(axis)? else { return None };
            let (_, length) = copy::fixed_slice(start, end, step, dim)?;
            resized(sizes, axis, length)
        }
        CopyKind::Select { .. } | CopyKind::View(_) | CopyKind::Expanded(_) | CopyKind::Other => None,
    }
}

fn resized(mut sizes: Vec<Size>, axis: usize, size: u32) -> Option<Vec<Size>> {
    *sizes.get_mut(axis)? = Size::Fixed(size);
    Some(sizes)
}

/// The sizes of a view whose numbers are the bounds: runs of dims with the same number of elements on both sides change together.
fn followed(from: &[Size], from_bound: &Dims, bound: &Dims, out: TensorId) -> Option<Vec<Size>> {
    if from_bound.count() != bound.count() || bound.count() == 0 {
        return None;
    }
    let wide = |dims: &Dims| (0..dims.len()).filter(|&axis| dims[axis] != 1).collect::<Vec<_>>();
    let (froms, tos) = (wide(from_bound), wide(bound));
    let (mut froms, mut tos) = (froms.as_slice(), tos.as_slice());
    let mut sizes: Vec<Size> = bound.iter().map(|&size| Size::Fixed(size)).collect();
    while !froms.is_empty() {
        let (ours, theirs) = view::run(from_bound, froms, bound, tos);
        let (own, their) = (&froms[..ours], &tos[..theirs]);
        let fixed = own.iter().all(|&axis| matches!(from[axis], Size::Fixed(_)));
        match (own, their) {
            (&[axis], &[to]) => sizes[to] = from[axis],
            _ if fixed => {}
            _ => their.iter().for_each(|&axis| sizes[axis] = Size::Of(out, axis)),
        }
        (froms, tos) = (&froms[ours..], &tos[theirs..]);
    }
    Some(sizes)
}

/// The table, the indices and the output of a gather of rows: the output has the dims of the indices, and a row's length.
fn lookup(node: &Node) -> Option<(TensorId, TensorId, TensorId)> {
    if let Some(EmbeddingQ4 { weight, indices, out, .. }) = node.op.downcast() {
        return Some((*weight, *indices, *out));
    }
    if let Some(QuantisedEmbedding { weight, indices, out, .. }) = node.op.downcast() {
        return Some((*weight, *indices, *out));
    }
    if let Some(HalfEmbedding { weight, indices, out, .. }) = node.op.downcast() {
        return Some((*weight, *indices, *out));
    }
    let gather: &Gather = node.op.downcast()?;
    (gather.axis == 0 && gather.mode == GatherMode::Slices).then_some((gather.from, gather.index, gather.out))
}
