//! `aten.cat` and `aten.stack`: concatenate tensors along a dimension, or along a new one, seven per dispatch.

use super::INCLUDES;
use super::sections::{Params, SECTIONS, Sections, strategies};
use crate::args::{Args, normalise};
use crate::error::OpError;
use crate::fuse::Relayout;
use crate::graph::Elem;
use crate::ir::{Call, Graph, Value, ValueId};
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::plan::{BoundsCx, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors, broadcast_offset, indices};
use crate::row_axes::RowAxes;
use crate::shape::Dims;
use crate::strided_copy::{self, Kernel, Strategy, check_count};

pub(super) static VEC4: KernelDef = KernelDef::new("cat_vec4", include_str!("cat_vec4.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES, strided_copy::INCLUDES])
    .with_types(&[("T", &["vec4<u32>"])]);
pub(super) static ELEMENTS: KernelDef = KernelDef::new("cat_elements", include_str!("cat_elements.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES, strided_copy::INCLUDES])
    .with_types(&[("T", &["u32"])])
    .with_variants(|| strategies(Elem::U8).filter(|strategy| strategy.kernel == Kernel::Elements).map(variant).collect());

pub(super) const NAME: &str = "aten.cat.default";

fn variant(strategy: &Strategy) -> Variant {
    match strategy.kernel {
        Kernel::Vec4 => Variant::new(&VEC4).with_type("T", "vec4<u32>"),
        _ => Variant::new(&ELEMENTS).with_type("T", "u32").with("PER_WORD", strategy.per_word),
    }
}

#[derive(Debug)]
pub(crate) struct Cat {
    pub(crate) tensors: Vec<TensorId>,
    rank: usize,
    pub(crate) axis: usize,
    /// Whether the dimension is new: each tensor is one index of it.
    pub(crate) stacked: bool,
    elem: Elem,
    pub(crate) out: TensorId,
}

/// A call that concatenates tensors along a dimension.
pub(crate) fn cat_call(graph: &mut Graph, tensors: &[ValueId], axis: u32, out: ValueId) -> Call {
    let list = graph.add(Value::ValueList(tensors.to_vec()));
    let dim = graph.add(Value::Int(axis.into()));
    Call::new(&super::DEF, NAME, vec![list, dim, out])
}

pub(super) fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    decode_tensors(args, false)
}

pub(super) fn decode_stack(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    decode_tensors(args, true)
}

fn decode_tensors(args: &mut Args<'_>, stacked: bool) -> Result<Box<dyn Op>, OpError> {
    let tensors = args.tensors("tensors")?;
    let Some(&first) = tensors.first() else { return Err(OpError::new("tensors", "is empty, at least one is needed")) };
    let elem = args.info(first).elem;
    for (index, &tensor) in tensors.iter().enumerate() {
        let info = args.info(tensor);
        if info.elem != elem {
            let reason = format!("has elements {:?} at {index}, but those of the first are {elem:?}", info.elem);
            return Err(OpError::new("tensors", reason));
        }
        if info.bound.is_empty() && !stacked {
            return Err(OpError::new("tensors", format!("has a single number at {index}, which has no dimension")));
        }
    }
    // One-dimensional tensors may be among others only while they are empty.
    let rank = tensors.iter().map(|&tensor| args.info(tensor).bound.len()).max().unwrap_or(1) + usize::from(stacked);
    let dim = args.int("dim")?;
    let axis = normalise(dim, rank)
        .ok_or_else(|| OpError::new("dim", format!("is {dim}, but the tensors have {rank} dimensions")))?;
    Ok(Box::new(Cat { tensors, rank, axis, stacked, elem, out: args.output_of("out", elem)? }))
}

impl Cat {
    /// The dims of a tensor, with the new dimension if it is stacked.
    fn section_dims(&self, cx: &PlanCx<'_>, tensor: TensorId) -> Result<Dims, OpError> {
        let dims = cx.dims(tensor);
        if !self.stacked {
            return Ok(dims);
        }
        let (before, after) = dims.split_at(self.axis.min(dims.len()));
        Dims::from_sizes(before.iter().chain([&1]).chain(after).copied().map(i64::from))
            .ok_or_else(|| OpError::new("tensors", format!("has {dims}, which leaves no place for a dimension")))
    }

    /// The output's dims, and each tensor's length along the dimension. Empty one-dimensional tensors are skipped.
    fn dims(&self, cx: &PlanCx<'_>) -> Result<(Dims, Vec<u32>), OpError> {
        let mut out: Option<Dims> = None;
        let mut lengths = Vec::with_capacity(self.tensors.len());
        for (index, &tensor) in self.tensors.iter().enumerate() {
            let dims = self.section_dims(cx, tensor)?;
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
        // If all are skipped the output is empty too.
        let Some(first) = out else { return Ok((self.section_dims(cx, self.tensors[0])?, lengths)) };
        let total: u64 = lengths.iter().copied().map(u64::from).sum();
        check_count(self.elem, first.with(self.axis, 1).count().saturating_mul(total))?;
        match u32::try_from(total) {
            Ok(total) => Ok((first.with(self.axis, total), lengths)),
            // Only beside a dimension of 0 is the count small enough.
            Err(_) => Err(OpError::new("tensors", format!("have {total} elements along `dim`, more than dims count"))),
        }
    }
}

impl Op for Cat {
    fn channels_last(&self, layout: &mut Relayout<'_>) -> Option<Call> {
        if self.stacked {
            return None;
        }
        let movable = self.tensors.iter().chain([&self.out]).all(|&tensor| layout.can_move(tensor));
        let alike = self.tensors.iter().all(|&tensor| layout.info(tensor).bound.len() == self.rank);
        if !movable || !alike || !self.tensors.iter().any(|&tensor| layout.moved(tensor).is_some()) {
            return None;
        }
        let moved = self.tensors.iter().map(|&tensor| ValueId(layout.moved_or_copied(tensor).0)).collect();
        let axis = i64::try_from(Relayout::axis(self.rank, self.axis)).ok()?;
        let (tensors, axis) = (layout.source.add(Value::ValueList(moved)), layout.source.add(Value::Int(axis)));
        let out = layout.output(self.out);
        Some(Call { args: vec![tensors, axis, ValueId(out.0)], ..layout.call.clone() })
    }

    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        let axis = rows.axis(*self.tensors.first()?)?;
        let meets = self.tensors.iter().all(|&tensor| rows.axis(tensor) == Some(axis));
        let added = usize::from(self.stacked && self.axis <= axis);
        (meets && (self.stacked || axis != self.axis)).then_some(axis + added)
    }

    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let dispatches = self.tensors.chunks(SECTIONS).flat_map(|tensors| {
            // Unused bindings of a dispatch take its first tensor, and are not read.
            let inputs = tensors.iter().chain(std::iter::repeat(&tensors[0])).take(SECTIONS);
            let binds = inputs.chain([&self.out]).map(|&tensor| tensor.into()).collect::<Vec<_>>();
            strategies(self.elem).map(move |strategy| Recipe::new(variant(strategy), binds.clone()))
        });
        Ok(Recipes::of(dispatches))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (dims, lengths) = self.dims(cx)?;
        let mut plan = Plan::new(self.out, dims, None);
        if dims.count() == 0 {
            return Ok(plan);
        }
        let sections = Sections::new(&dims, self.axis, lengths);
        for dispatch in 0..self.tensors.len().div_ceil(SECTIONS) {
            // The last strategy covers every layout.
            let Some((recipe, strategy)) = sections.strategy(self.elem, dispatch) else { continue };
            plan.steps.extend(sections.join(dispatch, recipe, strategy)?);
        }
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (dims, lengths) = self.dims(cx)?;
        let mut sources: Vec<_> = self.tensors.iter().filter_map(|&tensor| tensors.get(tensor).cloned()).collect();
        for (source, &tensor) in sources.iter_mut().zip(&self.tensors) {
            source.dims = self.section_dims(cx, tensor)?;
        }
        let offset = |mut index: Vec<u32>| {
            let (mut section, mut before) = (0, 0);
            while index[self.axis] >= lengths[section] {
                index[self.axis] -= lengths[section];
                before += sources[section].data.len();
                section += 1;
            }
            before + broadcast_offset(&sources[section].dims, &index)
        };
        let offsets: Vec<usize> = indices(&dims).map(offset).collect();
        let data = HostData::concat(sources.iter().map(|source| &source.data)).gather(&offsets);
        tensors.set(self.out, dims, data);
        Ok(())
    }
}
