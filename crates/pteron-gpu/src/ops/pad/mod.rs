//! Tensors with a border: of one number, mirrored, repeated or wrapped around; and tensors that are rolled along a dimension.

#[cfg(test)]
mod tests;

use crate::args::{Args, normalise};
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::{Scalar, TensorId};
use crate::ops::{OpDef, names};
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors, indices};
use crate::shape::{Dims, MAX_RANK, innermost_first};

static PAD: KernelDef = KernelDef::new("pad", include_str!("pad.wgsl"), Params::FIELDS);

params! {
    /// Of `pad.wgsl`.
    struct Params {
        dims: [u32; MAX_RANK], before: [i32; MAX_RANK], inner: [u32; MAX_RANK], strides: [u32; MAX_RANK],
        rank: u32, count: u32, fill: u32, pad: u32,
    }
}

/// The operators of the family: names, what a border contains, and the number of dimensions that are padded; 0 for any.
const TABLE: &[(&str, (Border, usize))] = &[
    ("aten.constant_pad_nd.default", (Border::Number, 0)),
    ("aten.reflection_pad1d.default", (Border::Mirrored, 1)),
    ("aten.reflection_pad2d.default", (Border::Mirrored, 2)),
    ("aten.reflection_pad3d.default", (Border::Mirrored, 3)),
    ("aten.replication_pad1d.default", (Border::Repeated, 1)),
    ("aten.replication_pad2d.default", (Border::Repeated, 2)),
    ("aten.replication_pad3d.default", (Border::Repeated, 3)),
    ("aten.roll.default", (Border::Wrapped, 0)),
];

/// The content of a border, as the kernel numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Border {
    Number = 0,
    Mirrored = 1,
    Repeated = 2,
    Wrapped = 3,
}

static NAMES: [&str; TABLE.len()] = names!(TABLE, 0);

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef { names: &NAMES, internal: &[], kernels: &[&PAD], decode };

#[derive(Debug)]
struct Pad {
    x: TensorId,
    border: Border,
    sizes: Sizes,
    value: f64,
    elem: Elem,
    out: TensorId,
}

#[derive(Debug)]
enum Sizes {
    /// Elements before and after each dim, the last dim first.
    Around(Vec<Scalar>),
    /// The shift of some dims; the others stay.
    Shifts(Vec<(usize, Scalar)>),
    /// The shift of the flattened tensor.
    FlatShift(Scalar),
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let &(_, (border, padded)) = args.row(TABLE);
    let x = args.tensor("self")?;
    let info = args.info(x);
    let sizes = if border == Border::Wrapped {
        decode_shifts(args, info.bound.len())?
    } else {
        let sizes = args.scalars(if border == Border::Number { "pad" } else { "padding" })?;
        let most = if padded == 0 { info.bound.len() } else { padded.min(info.bound.len()) };
        if sizes.len() % 2 != 0 || sizes.len() > 2 * most {
            let reason = format!("has {} numbers, allowed are two for each of {most} dimensions", sizes.len());
            return Err(OpError::new("pad", reason));
        }
        Sizes::Around(sizes)
    };
    let value = if border == Border::Number { args.float("value")? } else { 0.0 };
    Ok(Box::new(Pad { x, border, sizes, value, elem: info.elem, out: args.output_of("out", info.elem)? }))
}

fn decode_shifts(args: &mut Args<'_>, rank: usize) -> Result<Sizes, OpError> {
    let shifts = args.scalars("shifts")?;
    let dims = args.ints("dims")?;
    if let (&[shift], []) = (shifts.as_slice(), dims.as_slice()) {
        return Ok(Sizes::FlatShift(shift));
    }
    let axes: Option<Vec<usize>> = dims.iter().map(|&dim| normalise(dim, rank).filter(|&axis| axis < rank)).collect();
    match axes {
        Some(axes) if axes.len() == shifts.len() => Ok(Sizes::Shifts(axes.into_iter().zip(shifts).collect())),
        _ => Err(OpError::new("dims", format!("is {dims:?}, expected a dimension for each of {} shifts", shifts.len()))),
    }
}

/// The tensor as the kernel sees it, with the elements before each dim, and its padded dims; outermost first.
struct Layout {
    inner: Dims,
    before: Vec<i64>,
    padded: Dims,
}

impl Pad {
    fn layout(&self, cx: &PlanCx<'_>) -> Result<Layout, OpError> {
        let dims = cx.dims(self.x);
        let shift = |shift: Scalar, dim: u32| cx.scalar(shift).rem_euclid(i64::from(dim.max(1)));
        let pairs = match &self.sizes {
            Sizes::Around(pairs) => pairs,
            Sizes::FlatShift(by) => {
                let flat = Dims::of([dims.count_u32()]);
                return Ok(Layout { inner: flat, before: vec![shift(*by, flat[0])], padded: flat });
            }
            Sizes::Shifts(shifts) => {
                let mut before = vec![0; dims.len()];
                // A dimension may be named more than once.
                shifts.iter().for_each(|&(axis, by)| {
                    before[axis] = (before[axis] + shift(by, dims[axis])) % i64::from(dims[axis].max(1));
                });
                return Ok(Layout { inner: dims, before, padded: dims });
            }
        };
        let mut before = vec![0; dims.len()];
        let mut sizes: Vec<i64> = dims.iter().map(|&dim| dim.into()).collect();
        for (pair, axis) in pairs.chunks_exact(2).zip((0..dims.len()).rev()) {
            let (first, last) = (cx.scalar(pair[0]), cx.scalar(pair[1]));
            let (dim, widest) = (sizes[axis], first.max(last));
            if self.border == Border::Mirrored && widest >= dim.max(1) {
                return Err(OpError::new(
                    "padding",
                    format!("is {widest} for a dimension of {dim}, which it must be below"),
                ));
            }
            before[axis] = first;
            sizes[axis] = dim.saturating_add(first).saturating_add(last);
        }
        let fits = before.iter().all(|&before| i32::try_from(before).is_ok());
        match Dims::from_sizes(sizes.iter().copied()) {
            Some(padded) if self.border != Border::Number && dims.count() == 0 && padded.count() > 0 => {
                Err(OpError::new("self", format!("is {dims}, with no elements for a border of {padded}")))
            }
            Some(padded) if fits => Ok(Layout { inner: dims, before, padded }),
            _ => Err(OpError::new("pad", format!("makes {sizes:?} of {dims}, which no tensor can have"))),
        }
    }

    /// The output's dims: rolling leaves them.
    fn out_dims(&self, cx: &PlanCx<'_>, layout: &Layout) -> Dims {
        if self.border == Border::Wrapped { cx.dims(self.x) } else { layout.padded }
    }
}

impl Op for Pad {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let variant = Variant::new(&PAD).with("LANES", self.elem.lanes()).with("MODE", self.border as u32);
        Ok(Recipes::of([Recipe::new(variant, [self.x.into(), self.out.into()])]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let layout = self.layout(cx)?;
        let Layout { inner, before, padded } = &layout;
        let mut first = [0; MAX_RANK];
        first.iter_mut().zip(before.iter().rev()).for_each(|(to, &from)| *to = i32::try_from(from).unwrap_or(0));
        let params = Params {
            dims: innermost_first(padded, 1),
            before: first,
            inner: innermost_first(inner, 1),
            strides: innermost_first(&inner.strides()[..inner.len()], 0),
            rank: u32::try_from(padded.len()).unwrap_or(0),
            count: padded.count_u32(),
            fill: self.elem.bits(self.value),
            pad: 0,
        };
        let words = padded.count().div_ceil(self.elem.lanes().into());
        Ok(Plan::new(self.out, self.out_dims(cx, &layout), Dispatch::items(0, &params, words, 256)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let layout = self.layout(cx)?;
        let out = self.out_dims(cx, &layout);
        let inside = |index: u32, before: i64, dim: u32| {
            let (at, dim) = (i64::from(index) - before, i64::from(dim));
            let at = match self.border {
                Border::Number => Some(at).filter(|at| (0..dim).contains(at)),
                Border::Mirrored if at.abs() >= dim => Some(2 * (dim - 1) - at.abs()),
                Border::Mirrored => Some(at.abs()),
                Border::Repeated => Some(at.clamp(0, dim - 1)),
                Border::Wrapped => Some(at.rem_euclid(dim)),
            };
            at.and_then(|at| usize::try_from(at).ok())
        };
        let place = |index: Vec<u32>| {
            let axes = index.iter().zip(&layout.before).zip(layout.inner.iter());
            let mut axes = axes.map(|((&index, &before), &dim)| Some((dim as usize, inside(index, before, dim)?)));
            axes.try_fold(0usize, |at, axis| axis.map(|(dim, index)| at * dim + index))
        };
        let places: Vec<Option<usize>> = indices(&layout.padded).map(place).collect();
        let Some(x) = tensors.get(self.x) else { return Ok(()) };
        let bits = self.elem.bits(self.value);
        let data = match &x.data {
            HostData::F32(values) => {
                HostData::F32(places.iter().map(|at| at.map_or(f32::from_bits(bits), |at| values[at])).collect())
            }
            HostData::I32(values) => {
                HostData::I32(places.iter().map(|at| at.map_or(bits.cast_signed(), |at| values[at])).collect())
            }
            HostData::U8(values) => {
                HostData::U8(places.iter().map(|at| at.map_or(bits.to_le_bytes()[0], |at| values[at])).collect())
            }
        };
        tensors.set(self.out, out, data);
        Ok(())
    }
}
