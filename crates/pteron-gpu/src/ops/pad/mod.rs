//! `aten.constant_pad_nd`: pads a tensor with one number, or crops its edges.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::{Scalar, TensorId};
use crate::ops::OpDef;
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

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &["aten.constant_pad_nd.default"], internal: &[], kernels: &[&PAD], decode };

#[derive(Debug)]
struct Pad {
    x: TensorId,
    /// Before and after each dim, the last dim first.
    sizes: Vec<Scalar>,
    value: f64,
    elem: Elem,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor("self")?;
    let info = args.info(x);
    let sizes = args.scalars("pad")?;
    if sizes.len() % 2 != 0 || sizes.len() > 2 * info.bound.len() {
        let reason = format!("has {} numbers, allowed are two for each of {} dimensions", sizes.len(), info.bound.len());
        return Err(OpError::new("pad", reason));
    }
    let value = args.float("value")?;
    Ok(Box::new(Pad { x, sizes, value, elem: info.elem, out: args.output_of("out", info.elem)? }))
}

impl Pad {
    /// The padding before each dim, outermost first, and the padded dims.
    fn layout(&self, cx: &PlanCx<'_>) -> Result<(Vec<i64>, Dims), OpError> {
        let dims = cx.dims(self.x);
        let mut before = vec![0; dims.len()];
        let mut sizes: Vec<i64> = dims.iter().map(|&dim| dim.into()).collect();
        for (pair, axis) in self.sizes.chunks_exact(2).zip((0..dims.len()).rev()) {
            let (first, last) = (cx.scalar(pair[0]), cx.scalar(pair[1]));
            before[axis] = first;
            sizes[axis] = sizes[axis].saturating_add(first).saturating_add(last);
        }
        let fits = before.iter().all(|&before| i32::try_from(before).is_ok());
        match Dims::from_sizes(sizes.iter().copied()) {
            Some(out) if fits => Ok((before, out)),
            _ => Err(OpError::new("pad", format!("makes {sizes:?} of {dims}, which no tensor can have"))),
        }
    }
}

impl Op for Pad {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let variant = Variant::new(&PAD).with("LANES", self.elem.lanes());
        Ok(Recipes::of([Recipe::new(variant, [self.x.into(), self.out.into()])]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (before, out) = self.layout(cx)?;
        let dims = cx.dims(self.x);
        let mut first = [0; MAX_RANK];
        first.iter_mut().zip(before.iter().rev()).for_each(|(to, &from)| *to = i32::try_from(from).unwrap_or(0));
        let params = Params {
            dims: innermost_first(&out, 1),
            before: first,
            inner: innermost_first(&dims, 1),
            strides: innermost_first(&dims.strides()[..dims.len()], 0),
            rank: u32::try_from(out.len()).unwrap_or(0),
            count: out.count_u32(),
            fill: self.elem.bits(self.value),
            pad: 0,
        };
        let words = out.count().div_ceil(self.elem.lanes().into());
        Ok(Plan::new(self.out, out, Dispatch::items(0, &params, words, 256)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (before, out) = self.layout(cx)?;
        let dims = cx.dims(self.x);
        let place = |index: Vec<u32>| {
            index.iter().zip(&before).zip(dims.iter()).try_fold(0usize, |at, ((&index, &before), &dim)| {
                let inner = u32::try_from(i64::from(index) - before).ok().filter(|&inner| inner < dim)?;
                Some(at * dim as usize + inner as usize)
            })
        };
        let places: Vec<Option<usize>> = indices(&out).map(place).collect();
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
