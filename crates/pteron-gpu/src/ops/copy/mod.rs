//! Copies: views, clones, constants, slices and selects. A row of `TABLE` is an operator.
//!
//! All read one tensor with strides and write another contiguously, which `strided` does for them; what keeps every
//! element in place only shares memory. Where a slice starts may move from step to step, so it is a word of the step
//! block, and parameters depend on shapes alone.

pub(crate) mod strided;
#[cfg(test)]
mod tests;
mod view;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::{Elem, TensorInfo};
use crate::live::{Scalar, TensorId};
use crate::ops::OpDef;
use crate::plan::{BoundsCx, Op, Plan, PlanCx, Recipes};
use crate::reference::{HostData, HostTensors, indices};
use crate::rewrite::STORE;
use crate::shape::Dims;
use strided::Window;

/// The family: names, and how what stands between `self` and `out` is read.
const TABLE: &[(&str, Decode)] = &[
    ("aten.view_copy.default", decode_view),
    ("aten.clone.default", |args, _| args.none("memory_format").map(|()| What::Same)),
    ("dim_order_ops._clone_dim_order.default", decode_clone_dim_order),
    ("et_vk.prepack.default", |_, _| Ok(What::Same)),
    ("aten.select_copy.int", decode_select),
    ("aten.slice_copy.Tensor", decode_slice),
    (STORE, |_, _| Ok(What::Same)),
];

type Decode = fn(&mut Args<'_>, TensorInfo) -> Result<What, OpError>;

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef {
    names: &[
        "aten.view_copy.default",
        "aten.clone.default",
        "dim_order_ops._clone_dim_order.default",
        "et_vk.prepack.default",
        "aten.select_copy.int",
        "aten.slice_copy.Tensor",
        STORE,
    ],
    kernels: &[&strided::ITEMS, &strided::BYTES],
    decode,
};

#[derive(Debug)]
struct CopyOp {
    what: What,
    elem: Elem,
    from: TensorId,
    out: TensorId,
}

/// Which elements of `self` the output has.
#[derive(Debug)]
enum What {
    /// All, with the same dims.
    Same,
    /// All, with other dims. `bound` is the file's bound of `self`, which sizes without symbols describe.
    View { sizes: Vec<Scalar>, bound: Dims },
    /// Those at one index of a dimension.
    Select { axis: usize, index: Scalar },
    /// Those at every `step`th index of a range of a dimension.
    Slice { axis: usize, start: Option<Scalar>, end: Option<Scalar>, step: u64 },
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let name = args.operator();
    let Some((_, decode)) = TABLE.iter().find(|(row, _)| *row == name) else {
        return Err(OpError::new("self", "is of no known family"));
    };
    let from = args.tensor("self")?;
    let info = args.info(from);
    let what = decode(args, info)?;
    let out = if name == STORE { args.mutated("out")? } else { args.output_of("out", info.elem)? };
    Ok(Box::new(CopyOp { what, elem: info.elem, from, out }))
}

fn decode_view(args: &mut Args<'_>, info: TensorInfo) -> Result<What, OpError> {
    Ok(What::View { sizes: args.scalars("size")?, bound: info.bound })
}

fn decode_clone_dim_order(args: &mut Args<'_>, info: TensorInfo) -> Result<What, OpError> {
    args.ignore("non_blocking")?;
    match args.optional_ints("dim_order")? {
        Some(order) if !order.iter().copied().eq((0i64..).take(info.bound.len())) => {
            Err(OpError::new("dim_order", format!("is {order:?}, only the contiguous order is supported")))
        }
        _ => Ok(What::Same),
    }
}

fn decode_select(args: &mut Args<'_>, info: TensorInfo) -> Result<What, OpError> {
    let axis = axis(args, info)?;
    Ok(What::Select { axis, index: args.scalar("index")? })
}

fn decode_slice(args: &mut Args<'_>, info: TensorInfo) -> Result<What, OpError> {
    let axis = axis(args, info)?;
    let (start, end) = (args.optional_scalar("start")?, args.optional_scalar("end")?);
    let step = args.int("step")?;
    match u64::try_from(step) {
        Ok(step) if step > 0 => Ok(What::Slice { axis, start, end, step }),
        _ => Err(OpError::new("step", format!("is {step}, it must be at least 1"))),
    }
}

fn axis(args: &mut Args<'_>, info: TensorInfo) -> Result<usize, OpError> {
    if info.bound.is_empty() {
        return Err(OpError::new("self", "is a single number, which has no dimension to take elements of"));
    }
    args.axis("dim", info.bound.len())
}

/// A size of a view as it is now. Only a number of the file can be −1, and leave the size open.
fn live_size(cx: &PlanCx<'_>, size: Scalar) -> Result<i64, OpError> {
    let value = cx.scalar(size);
    match size {
        Scalar::Live(_) if value < 0 => Err(OpError::new("size", format!("has a symbolic size of {value}, below 0"))),
        _ => Ok(value),
    }
}

/// The element a dimension is selected at. Counted from the end if negative.
fn select(index: i64, dim: u32) -> Result<u32, OpError> {
    let at = if index < 0 { index.saturating_add(dim.into()) } else { index };
    match u32::try_from(at) {
        Ok(at) if at < dim => Ok(at),
        _ if dim == 0 => Err(OpError::new("index", format!("is {index}, but the dimension has zero elements"))),
        _ => Err(OpError::new("index", format!("is {index}, but the dimension has {dim} elements"))),
    }
}

/// Where a slice starts and how many elements it has, clamped as PyTorch clamps.
fn slice(start: i64, end: i64, step: u64, dim: u32) -> (u32, u32) {
    let clamp = |at: i64| {
        let at = if at < 0 { at.saturating_add(dim.into()) } else { at };
        u32::try_from(at.max(0)).unwrap_or(u32::MAX).min(dim)
    };
    let start = clamp(start);
    let covered = u64::from(clamp(end).saturating_sub(start));
    (start, u32::try_from(covered.div_ceil(step)).unwrap_or(u32::MAX))
}

impl CopyOp {
    /// Where a slice starts now and how many elements it has.
    fn range(cx: &PlanCx<'_>, start: Option<Scalar>, end: Option<Scalar>, step: u64, dim: u32) -> (u32, u32) {
        let start = start.map_or(0, |start| cx.scalar(start));
        let end = end.map_or(i64::MAX, |end| cx.scalar(end));
        slice(start, end, step, dim)
    }

    fn window(&self, cx: &PlanCx<'_>) -> Result<Window, OpError> {
        let dims = cx.dims(self.from);
        let strides = dims.strides();
        match &self.what {
            What::Same => Ok(Window::all(dims)),
            What::View { sizes, bound } => {
                let symbolic = sizes.iter().any(|size| matches!(size, Scalar::Live(_)));
                let sizes = sizes.iter().map(|&size| live_size(cx, size)).collect::<Result<Vec<i64>, OpError>>()?;
                view::live_dims(&sizes, symbolic, bound, &dims).map(Window::all)
            }
            What::Select { axis, index } => {
                let at = select(cx.scalar(*index), dims[*axis])?;
                let mut rest = Window::all(dims.without(*axis));
                let kept = (0..dims.len()).filter(|other| other != axis);
                kept.zip(&mut rest.strides).for_each(|(from, to)| *to = strides[from]);
                Ok(rest.starting_at(at, strides[*axis], Some(*index)))
            }
            What::Slice { axis, start, end, step } => {
                let (at, len) = Self::range(cx, *start, *end, *step, dims[*axis]);
                let mut part = Window::all(dims.with(*axis, len));
                part.strides = strides;
                // Where a step is wider than the dimension there is one element at most, and no stride is taken.
                part.strides[*axis] = u32::try_from(u64::from(strides[*axis]).saturating_mul(*step)).unwrap_or(0);
                Ok(part.starting_at(at, strides[*axis], *start))
            }
        }
    }

    /// The index in `self` of an element of the output, for the reference.
    fn source_index(&self, cx: &PlanCx<'_>, out: &[u32]) -> Result<Vec<usize>, OpError> {
        let dims = cx.dims(self.from);
        let mut index: Vec<usize> = out.iter().map(|&at| at as usize).collect();
        match &self.what {
            What::Same | What::View { .. } => {}
            What::Select { axis, index: at } => index.insert(*axis, select(cx.scalar(*at), dims[*axis])? as usize),
            What::Slice { axis, start, end, step } => {
                let (at, _) = Self::range(cx, *start, *end, *step, dims[*axis]);
                index[*axis] = at as usize + index[*axis] * usize::try_from(*step).unwrap_or(usize::MAX);
            }
        }
        Ok(index)
    }
}

impl Op for CopyOp {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        Ok(strided::recipes(self.elem, self.from, self.out))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        strided::plan(cx, self.elem, self.out, &self.window(cx)?)
    }

    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let out = self.window(cx)?.dims;
        let Some(from) = tensors.get(self.from) else { return Ok(()) };
        let data = match &self.what {
            What::Same | What::View { .. } => from.data.clone(),
            What::Select { .. } | What::Slice { .. } => {
                let flat = |index: Vec<usize>| index.iter().zip(from.dims.iter()).fold(0, |at, (i, &d)| at * d as usize + i);
                let places = indices(&out)
                    .map(|index| self.source_index(cx, &index).map(flat))
                    .collect::<Result<Vec<usize>, OpError>>()?;
                match &from.data {
                    HostData::F32(values) => HostData::F32(places.iter().map(|&at| values[at]).collect()),
                    HostData::I32(values) => HostData::I32(places.iter().map(|&at| values[at]).collect()),
                    HostData::U8(values) => HostData::U8(places.iter().map(|&at| values[at]).collect()),
                }
            }
        };
        tensors.set(self.out, out, data);
        Ok(())
    }

    fn alias(&self) -> Option<TensorId> {
        let zero = |start: &Option<Scalar>| matches!(start, None | Some(Scalar::Fixed(0)));
        let open = |end: &Option<Scalar>| matches!(end, None | Some(Scalar::Fixed(i64::MAX)));
        match &self.what {
            What::Same | What::View { .. } => Some(self.from),
            What::Slice { start, end, step: 1, .. } if zero(start) && open(end) => Some(self.from),
            What::Select { .. } | What::Slice { .. } => None,
        }
    }
}
