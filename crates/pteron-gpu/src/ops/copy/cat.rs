//! `aten.cat`: tensors one after the other along a dimension, seven a dispatch.

use super::parts::{PARTS, Params, Parts, ways};
use super::strided::{Kernel, Way, check_count};
use crate::args::{Args, normalise};
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::plan::{BoundsCx, Op, Plan, PlanCx, Recipe, Recipes};
use crate::reference::{HostData, HostTensors, broadcast_offset, indices};
use crate::shape::Dims;

pub(super) static ITEMS: KernelDef =
    KernelDef::new("cat", include_str!("cat.wgsl"), Params::FIELDS).with_types(&[("T", &["vec4<u32>"])]);
pub(super) static LANES: KernelDef = KernelDef::new("cat_lanes", include_str!("cat_lanes.wgsl"), Params::FIELDS)
    .with_types(&[("T", &["u32"])])
    .with_variants(|| ways(Elem::U8).filter(|way| way.kernel == Kernel::Lanes).map(variant).collect());

fn variant(way: &Way) -> Variant {
    match way.kernel {
        Kernel::Items => Variant::new(&ITEMS).with_type("T", "vec4<u32>"),
        _ => Variant::new(&LANES).with_type("T", "u32").with("PER_WORD", way.per_word),
    }
}

#[derive(Debug)]
struct Cat {
    tensors: Vec<TensorId>,
    rank: usize,
    axis: usize,
    elem: Elem,
    out: TensorId,
}

pub(super) fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let tensors = args.tensors("tensors")?;
    let Some(&first) = tensors.first() else { return Err(OpError::new("tensors", "is empty, at least one is needed")) };
    let elem = args.info(first).elem;
    for (index, &tensor) in tensors.iter().enumerate() {
        let info = args.info(tensor);
        if info.elem != elem {
            let reason = format!("has elements {:?} at {index}, but those of the first are {elem:?}", info.elem);
            return Err(OpError::new("tensors", reason));
        }
        if info.bound.is_empty() {
            return Err(OpError::new("tensors", format!("has a single number at {index}, which has no dimension")));
        }
    }
    // Tensors of one dimension stand among others only while they are empty.
    let rank = tensors.iter().map(|&tensor| args.info(tensor).bound.len()).max().unwrap_or(1);
    let dim = args.int("dim")?;
    let axis = normalise(dim, rank)
        .ok_or_else(|| OpError::new("dim", format!("is {dim}, but the tensors have {rank} dimensions")))?;
    Ok(Box::new(Cat { tensors, rank, axis, elem, out: args.output_of("out", elem)? }))
}

impl Cat {
    /// The output's dims, and how long each tensor is along the dimension. An empty tensor of one dimension is passed over.
    fn dims(&self, cx: &PlanCx<'_>) -> Result<(Dims, Vec<u32>), OpError> {
        let mut out: Option<Dims> = None;
        let mut lengths = Vec::with_capacity(self.tensors.len());
        for (index, &tensor) in self.tensors.iter().enumerate() {
            let dims = cx.dims(tensor);
            if *dims == [0] {
                lengths.push(0);
                continue;
            }
            let fits = |first: Dims| dims.len() == self.rank && dims.with(self.axis, 0) == first.with(self.axis, 0);
            if dims.len() != self.rank || !out.is_none_or(fits) {
                let expected = out.map_or_else(|| format!("{} dimensions", self.rank), |dims| dims.to_string());
                let reason = format!("has {dims} at {index}, expected {expected} apart from dimension {}", self.axis);
                return Err(OpError::new("tensors", reason));
            }
            lengths.push(dims[self.axis]);
            out = out.or(Some(dims));
        }
        // Where all of them are passed over, so is what they are together.
        let Some(first) = out else { return Ok((cx.dims(self.tensors[0]), lengths)) };
        let total: u64 = lengths.iter().copied().map(u64::from).sum();
        check_count(self.elem, first.with(self.axis, 1).count().saturating_mul(total))?;
        Ok((first.with(self.axis, u32::try_from(total).unwrap_or(u32::MAX)), lengths))
    }
}

impl Op for Cat {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let dispatches = self.tensors.chunks(PARTS).flat_map(|tensors| {
            // What a dispatch has no part for is bound to the first, and not read.
            let parts = tensors.iter().chain(std::iter::repeat(&tensors[0])).take(PARTS);
            let binds = parts.chain([&self.out]).map(|&tensor| tensor.into()).collect::<Vec<_>>();
            ways(self.elem).map(move |way| Recipe::new(variant(way), binds.clone()))
        });
        Ok(Recipes::of(dispatches))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (dims, lengths) = self.dims(cx)?;
        let mut plan = Plan::new(self.out, dims, None);
        if dims.count() == 0 {
            return Ok(plan);
        }
        let parts = Parts::new(&dims, self.axis, lengths);
        for dispatch in 0..self.tensors.len().div_ceil(PARTS) {
            // One element at a time always fits.
            let Some((recipe, way)) = parts.way(self.elem, dispatch) else { continue };
            plan.steps.extend(parts.join(dispatch, recipe, way)?);
        }
        Ok(plan)
    }

    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (dims, lengths) = self.dims(cx)?;
        let sources: Vec<_> = self.tensors.iter().filter_map(|&tensor| tensors.get(tensor)).collect();
        let place = |mut index: Vec<u32>| {
            let (mut part, mut before) = (0, 0);
            while index[self.axis] >= lengths[part] {
                index[self.axis] -= lengths[part];
                before += sources[part].data.len();
                part += 1;
            }
            before + broadcast_offset(&sources[part].dims, &index)
        };
        let places: Vec<usize> = indices(&dims).map(place).collect();
        let data = HostData::concat(sources.iter().map(|source| &source.data)).at(&places);
        tensors.set(self.out, dims, data);
        Ok(())
    }
}
