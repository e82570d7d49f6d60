//! `aten.split_with_sizes_copy`: the parts of a tensor along a dimension, seven a dispatch.

use super::parts::{PARTS, Params, Parts, ways};
use super::strided::{Kernel, Way};
use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::{Scalar, TensorId};
use crate::plan::{Bind, BoundsCx, Op, Plan, PlanCx, Recipe, Recipes};
use crate::reference::{HostTensors, broadcast_offset, indices};
use crate::shape::Dims;

pub(super) static ITEMS: KernelDef = KernelDef::new("split", include_str!("split.wgsl"), Params::FIELDS);
pub(super) static LANES: KernelDef = KernelDef::new("split_lanes", include_str!("split_lanes.wgsl"), Params::FIELDS)
    .with_variants(|| ways(Elem::U8).filter(|way| way.kernel == Kernel::Lanes).map(variant).collect());

fn variant(way: &Way) -> Variant {
    match way.kernel {
        Kernel::Items => Variant::new(&ITEMS),
        _ => Variant::new(&LANES).with("PER_WORD", way.per_word),
    }
}

#[derive(Debug)]
struct Split {
    from: TensorId,
    sizes: Vec<Scalar>,
    axis: usize,
    elem: Elem,
    outs: Vec<TensorId>,
}

pub(super) fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let from = args.tensor("self")?;
    let sizes = args.scalars("split_sizes")?;
    let info = args.info(from);
    let axis = super::axis(args, info)?;
    let outs = args.outputs("out", sizes.len())?;
    for &out in &outs {
        let found = args.info(out).elem;
        if found != info.elem {
            return Err(OpError::new("out", format!("has elements {found:?}, but the answer's are {:?}", info.elem)));
        }
    }
    Ok(Box::new(Split { from, sizes, axis, elem: info.elem, outs }))
}

impl Split {
    /// How long each part is.
    fn lengths(&self, cx: &PlanCx<'_>) -> Result<Vec<u32>, OpError> {
        let dim = cx.dims(self.from)[self.axis];
        let sizes: Vec<i64> = self.sizes.iter().map(|&size| cx.scalar(size)).collect();
        let lengths: Option<Vec<u32>> = sizes.iter().map(|&size| u32::try_from(size).ok()).collect();
        match lengths {
            Some(lengths) if lengths.iter().copied().map(u64::from).sum::<u64>() == u64::from(dim) => Ok(lengths),
            _ => {
                let reason = format!("is {sizes:?}, expected sizes that add up to the {dim} of dimension {}", self.axis);
                Err(OpError::new("split_sizes", reason))
            }
        }
    }

    /// The parts as slices: the index each starts at, and its dims.
    fn slices(&self, cx: &PlanCx<'_>) -> Result<Vec<(u32, Dims)>, OpError> {
        let dims = cx.dims(self.from);
        let mut start = 0;
        let slice = |length: u32| {
            let slice = (start, dims.with(self.axis, length));
            start += length;
            slice
        };
        Ok(self.lengths(cx)?.into_iter().map(slice).collect())
    }
}

impl Op for Split {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        // What the last dispatch has no part for still takes a buffer of its own.
        let idle = self.outs.len().next_multiple_of(PARTS) - self.outs.len();
        let dispatches = self.outs.chunks(PARTS).flat_map(|outs| {
            let parts = outs.iter().map(|&out| out.into()).chain((0..idle).map(Bind::Scratch)).take(PARTS);
            let binds = [self.from.into()].into_iter().chain(parts).collect::<Vec<Bind>>();
            ways(self.elem).map(move |way| Recipe::new(variant(way), binds.clone()))
        });
        Ok(Recipes { scratch: vec![16; idle], ..Recipes::of(dispatches) })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (dims, slices) = (cx.dims(self.from), self.slices(cx)?);
        let outputs = self.outs.iter().copied().zip(slices.iter().map(|&(_, dims)| dims)).collect();
        let mut plan = Plan { outputs, ..Plan::default() };
        if dims.count() == 0 {
            return Ok(plan);
        }
        let parts = Parts::new(&dims, self.axis, slices.iter().map(|(_, dims)| dims[self.axis]));
        for dispatch in 0..self.outs.len().div_ceil(PARTS) {
            // One element at a time always fits.
            let Some((recipe, way)) = parts.way(self.elem, dispatch) else { continue };
            plan.steps.extend(parts.split(dispatch, recipe, way)?);
        }
        Ok(plan)
    }

    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let Some(from) = tensors.get(self.from).cloned() else { return Ok(()) };
        for (&out, (start, dims)) in self.outs.iter().zip(self.slices(cx)?) {
            let place = |mut index: Vec<u32>| {
                index[self.axis] += start;
                broadcast_offset(&from.dims, &index)
            };
            let places: Vec<usize> = indices(&dims).map(place).collect();
            tensors.set(out, dims, from.data.at(&places));
        }
        Ok(())
    }
}
