//! Operators that move elements without computing. Each row of `TABLE` is an operator.
//!
//! Most load one tensor through a strided view and store another in order (`crate::strided_copy`); they describe the view as a `Selection`. An
//! identity view shares memory with its source. The offset of a slice may change from step to step, so it is a word of the step
//! block, and parameters depend on shapes alone. `cat` and `split` concatenate and divide tensors.

mod cat;
mod expand;
mod permute;
mod rearrange;
mod sections;
mod slice;
mod split;
mod strided;
pub(crate) mod view;

#[cfg(test)]
mod tests;

use std::fmt::Debug;

use crate::args::{Args, normalise};
use crate::error::OpError;
use crate::graph::{Elem, TensorInfo};
use crate::includes;
use crate::ir::{Call, Graph, Value, ValueId};
use crate::kernel::Include;
use crate::live::{Scalar, TensorId};
use crate::ops::{OpDef, names};
use crate::plan::{BoundsCx, Op, Plan, PlanCx, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostTensors, broadcast_offset, indices};
use crate::row_axes::RowAxes;
use crate::shape::Dims;
use crate::strided_copy::{self, StridedView};

pub(crate) use cat::{Cat, cat_call};
pub(crate) use split::Split;

/// WGSL that `cat` and `split` share.
const INCLUDES: &[Include] = includes!["cat_inputs", "sections", "split_outputs"];

/// The operators of the family: names and decoders.
const TABLE: &[(&str, Decode)] = &[
    (VIEW, |args| select(args, view::decode_view)),
    ("aten.clone.default", |args| select(args, view::decode_clone)),
    (ALIAS, |args| select(args, view::decode_same)),
    ("dim_order_ops._clone_dim_order.default", |args| select(args, view::decode_clone_dim_order)),
    ("et_vk.prepack.default", |args| select(args, view::decode_same)),
    ("aten.detach_copy.default", |args| select(args, view::decode_same)),
    ("aten.lift_fresh_copy.default", |args| select(args, view::decode_same)),
    ("aten._conj_physical.default", |args| select(args, view::decode_same)),
    ("et_copy._h2d_copy.default", |args| select(args, view::decode_same)),
    ("et_copy._d2h_copy.default", |args| select(args, view::decode_same)),
    (UNSQUEEZE, |args| select(args, view::decode_unsqueeze)),
    ("aten.squeeze_copy.dim", |args| select(args, view::decode_squeeze_dim)),
    ("aten.squeeze_copy.default", |args| select(args, view::decode_squeeze_all)),
    (SQUEEZE, |args| select(args, view::decode_squeeze)),
    (SELECT, |args| select(args, slice::decode_select)),
    ("aten.slice_copy.Tensor", |args| select(args, slice::decode_slice)),
    ("aten.narrow_copy.default", |args| select(args, strided::decode_narrow)),
    ("aten.diagonal_copy.default", |args| select(args, strided::decode_diagonal)),
    ("aten.as_strided_copy.default", |args| select(args, strided::decode_as_strided)),
    ("aten.transpose_copy.int", |args| select(args, permute::decode_transpose)),
    (PERMUTE, |args| select(args, permute::decode_permute)),
    ("aten.select.int", |args| select(args, slice::decode_select)),
    ("aten.slice.Tensor", |args| select(args, slice::decode_slice)),
    ("aten.unfold_copy.default", |args| select(args, rearrange::decode_unfold)),
    ("aten.pixel_shuffle.default", |args| select(args, rearrange::decode_pixel_shuffle)),
    ("aten.pixel_unshuffle.default", |args| select(args, rearrange::decode_pixel_unshuffle)),
    ("aten.repeat_interleave.self_int", |args| select(args, rearrange::decode_repeat_interleave)),
    ("aten.permute.default", |args| select(args, permute::decode_permute)),
    ("aten.t_copy.default", |args| select(args, permute::decode_t)),
    ("aten.flip.default", |args| select(args, permute::decode_flip)),
    ("aten.expand_copy.default", |args| select(args, expand::decode_expand)),
    ("aten.repeat.default", |args| select(args, expand::decode_repeat)),
    (cat::NAME, cat::decode),
    ("aten.stack.default", cat::decode_stack),
    ("aten.split_copy.Tensor", split::decode_equal),
    ("aten.unbind_copy.int", split::decode_single),
    ("aten.split_with_sizes_copy.default", split::decode),
    (STORE, store),
    (RESHAPE, |args| select(args, view::decode_reshape)),
];

const ALIAS: &str = "aten.alias_copy.default";
const VIEW: &str = "aten.view_copy.default";
const PERMUTE: &str = "aten.permute_copy.default";
pub(crate) const SELECT: &str = "aten.select_copy.int";
pub(crate) const UNSQUEEZE: &str = "aten.unsqueeze_copy.default";
const SQUEEZE: &str = "aten.squeeze_copy.dims";
/// Ends a call by storing new content in a state buffer. Only a rewrite writes it.
pub(crate) const STORE: &str = "pteron.store";

/// A view whose sizes hold at every live shape, one of which may be −1. Front ends call it; no file does.
pub(crate) const RESHAPE: &str = "pteron.reshape";

type Decode = fn(&mut Args<'_>) -> Result<Box<dyn Op>, OpError>;

static NAMES: [&str; TABLE.len()] = names!(TABLE, 0);

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef {
    names: &NAMES,
    internal: &[STORE, RESHAPE],
    kernels: &[
        &strided_copy::VEC4,
        &strided_copy::ELEMENTS,
        &strided_copy::TRANSPOSE,
        &strided_copy::TRANSPOSE_VEC4,
        &strided_copy::TRANSPOSE_BYTES,
        &cat::VEC4,
        &cat::ELEMENTS,
        &split::VEC4,
        &split::ELEMENTS,
    ],
    decode,
};

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let (_, decode) = args.row(TABLE);
    decode(args)
}

/// The elements of `self` that the output has, decoded from the arguments between them.
trait Selection: Debug + Send + Sync {
    /// The output's dims and its view of `self`, which has these dims.
    fn view(&self, cx: &PlanCx<'_>, dims: Dims) -> Result<StridedView, OpError>;

    /// The index in `self` of an element of the output, for the reference.
    #[cfg(any(test, feature = "reference"))]
    fn source(&self, cx: &PlanCx<'_>, dims: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError>;

    /// The kind of selection, as far as fusions distinguish them.
    fn kind(&self) -> CopyKind<'_> {
        CopyKind::Other
    }

    /// Whether the output has every element in order at every live shape, so that it can alias `self`.
    fn is_identity(&self) -> bool {
        false
    }
}

/// A copy of one tensor, or of some of its elements.
#[derive(Debug)]
pub(crate) struct CopyOp {
    selection: Box<dyn Selection>,
    elem: Elem,
    pub(crate) from: TensorId,
    pub(crate) out: TensorId,
}

impl CopyOp {
    /// The kind of copy, as far as fusions distinguish them.
    pub(crate) fn kind(&self) -> CopyKind<'_> {
        self.selection.kind()
    }
}

/// The kinds of copies that fusions distinguish.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CopyKind<'a> {
    /// All elements, with the same dims.
    Same,
    /// All elements, with these dims.
    View(&'a [Scalar]),
    /// One index of a dimension, which is removed.
    Select { axis: usize, index: Scalar },
    /// A range of a dimension.
    Slice { axis: usize, start: Option<Scalar>, end: Option<Scalar>, step: u64 },
    /// The dimensions in another order.
    Permute(&'a [usize]),
    /// All elements, with an additional dimension of 1.
    Unsqueezed(usize),
    /// All elements, without these dimensions of 1, in order.
    Squeezed(&'a [usize]),
    /// Dims of 1 broadcast to these sizes.
    Expanded(&'a [Scalar]),
    /// Any other.
    Other,
}

/// A call that copies a tensor as it is, which may share its memory.
pub(crate) fn alias_call(from: TensorId, out: TensorId) -> Call {
    Call::new(&DEF, ALIAS, vec![ValueId(from.0), ValueId(out.0)])
}

/// The start and the length of a slice of a dimension, if it is the same in every call.
pub(crate) fn fixed_slice(start: Option<Scalar>, end: Option<Scalar>, step: u64, dim: u32) -> Option<(u32, u32)> {
    let fixed = |bound: Option<Scalar>, open: i64| match bound {
        None => Some(open),
        Some(Scalar::Fixed(at)) => Some(at),
        Some(Scalar::Live(_)) => None,
    };
    Some(crate::strided_copy::strides::slice(fixed(start, 0)?, fixed(end, i64::MAX)?, step, dim))
}

/// A call that permutes dimensions.
pub(crate) fn permute_call(graph: &mut Graph, from: TensorId, order: &[usize], out: TensorId) -> Call {
    let order = order.iter().map(|&axis| i64::try_from(axis).unwrap_or(i64::MAX)).collect();
    let dims = graph.add(Value::IntList(order));
    Call::new(&DEF, PERMUTE, vec![ValueId(from.0), dims, ValueId(out.0)])
}

/// A call that removes dimensions of 1.
pub(crate) fn squeeze_call(graph: &mut Graph, from: TensorId, axes: &[usize], out: TensorId) -> Call {
    let axes = axes.iter().map(|&axis| i64::try_from(axis).unwrap_or(i64::MAX)).collect();
    let dims = graph.add(Value::IntList(axes));
    Call::new(&DEF, SQUEEZE, vec![ValueId(from.0), dims, ValueId(out.0)])
}

/// A call that adds a dimension of 1.
pub(crate) fn unsqueeze_call(graph: &mut Graph, from: ValueId, axis: usize, out: ValueId) -> Call {
    let dim = graph.add(Value::Int(i64::try_from(axis).unwrap_or(i64::MAX)));
    Call::new(&DEF, UNSQUEEZE, vec![from, dim, out])
}

/// A call that gives all elements these dims at their bounds.
pub(crate) fn view_call(graph: &mut Graph, from: TensorId, dims: &[u32], out: TensorId) -> Call {
    let sizes = graph.add(Value::IntList(dims.iter().copied().map(i64::from).collect()));
    Call::new(&DEF, VIEW, vec![ValueId(from.0), sizes, ValueId(out.0)])
}

type DecodeSelection = fn(&mut Args<'_>, TensorId, TensorInfo) -> Result<Box<dyn Selection>, OpError>;

fn select(args: &mut Args<'_>, decode: DecodeSelection) -> Result<Box<dyn Op>, OpError> {
    let from = args.tensor("self")?;
    let info = args.info(from);
    let selection = decode(args, from, info)?;
    Ok(Box::new(CopyOp { selection, elem: info.elem, from, out: args.output_of("out", info.elem)? }))
}

/// Decodes a copy of a whole tensor into a state buffer of the same element type and dims.
fn store(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let from = args.tensor("self")?;
    let out = args.mutated("out")?;
    let (info, buffer) = (args.info(from), args.info(out));
    if info.elem != buffer.elem || info.bound != buffer.bound {
        let TensorInfo { elem, bound } = buffer;
        let reason = format!("has {} of {:?}, but it is stored as {bound} of {elem:?}", info.bound, info.elem);
        return Err(OpError::new("self", reason));
    }
    let selection = Box::new(view::Whole { bound: buffer.bound });
    Ok(Box::new(CopyOp { selection, elem: info.elem, from, out }))
}

fn axis(args: &mut Args<'_>, info: TensorInfo) -> Result<usize, OpError> {
    if info.bound.is_empty() {
        return Err(OpError::new("self", "is a scalar, which has no dimension"));
    }
    args.axis("dim", info.bound.len())
}

/// Decodes dimensions of a tensor, each at most once.
fn distinct_axes(args: &mut Args<'_>, name: &'static str, rank: usize) -> Result<Vec<usize>, OpError> {
    let dims = args.ints(name)?;
    let mut axes = Vec::with_capacity(dims.len());
    for &dim in &dims {
        match normalise(dim, rank) {
            Some(axis) if !axes.contains(&axis) => axes.push(axis),
            Some(_) => return Err(OpError::new(name, format!("is {dims:?}, which names a dimension twice"))),
            None => return Err(OpError::new(name, format!("is {dims:?}, but the tensor has {rank} dimensions"))),
        }
    }
    Ok(axes)
}

impl Op for CopyOp {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        let axis = rows.axis(self.from)?;
        match self.kind() {
            CopyKind::Same => Some(axis),
            CopyKind::View(_) => rows.viewed(self.from, self.out),
            CopyKind::Select { axis: removed, .. } => (removed != axis).then(|| axis - usize::from(removed < axis)),
            CopyKind::Slice { axis: sliced, .. } => (sliced != axis).then_some(axis),
            CopyKind::Permute(order) => order.iter().position(|&from| from == axis),
            CopyKind::Unsqueezed(added) => Some(axis + usize::from(added <= axis)),
            CopyKind::Squeezed(removed) => {
                (!removed.contains(&axis)).then(|| axis - removed.iter().filter(|&&other| other < axis).count())
            }
            CopyKind::Expanded(sizes) => Some(axis + sizes.len() - rows.bound(self.from).len()),
            CopyKind::Other => None,
        }
    }

    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        Ok(strided_copy::recipes(self.elem, self.from, self.out))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        strided_copy::plan(cx, self.elem, self.out, &self.selection.view(cx, cx.dims(self.from))?)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let out = self.selection.view(cx, cx.dims(self.from))?.dims;
        let Some(from) = tensors.get(self.from) else { return Ok(()) };
        let data = if self.selection.is_identity() {
            from.data.clone()
        } else {
            let offset = |index: Vec<u32>| Ok(broadcast_offset(&from.dims, &self.selection.source(cx, &from.dims, &index)?));
            from.data.gather(&indices(&out).map(offset).collect::<Result<Vec<usize>, OpError>>()?)
        };
        tensors.set(self.out, out, data);
        Ok(())
    }

    fn alias(&self) -> Option<TensorId> {
        self.selection.is_identity().then_some(self.from)
    }
}
