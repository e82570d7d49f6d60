//! Splits a tensor along a dimension, seven sections per dispatch: by sizes, by one size, or into single indices.

use super::INCLUDES;
use super::sections::{Params, SECTIONS, Sections, strategies};
use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::{Scalar, TensorId};
use crate::plan::{Bind, BoundsCx, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostTensors, broadcast_offset, indices};
use crate::row_axes::RowAxes;
use crate::shape::Dims;
use crate::strided_copy::{self, Kernel, Strategy};

pub(super) static VEC4: KernelDef = KernelDef::new("split_vec4", include_str!("split_vec4.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES, strided_copy::INCLUDES]);
pub(super) static ELEMENTS: KernelDef =
    KernelDef::new("split_elements", include_str!("split_elements.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES, strided_copy::INCLUDES])
        .with_variants(|| {
            strategies(Elem::U8).filter(|strategy| strategy.kernel == Kernel::Elements).map(variant).collect()
        });

fn variant(strategy: &Strategy) -> Variant {
    match strategy.kernel {
        Kernel::Vec4 => Variant::new(&VEC4),
        _ => Variant::new(&ELEMENTS).with("PER_WORD", strategy.per_word),
    }
}

/// The sizes of the sections.
#[derive(Debug)]
enum Sizes {
    /// Each, in order.
    Listed(Vec<Scalar>),
    /// One for all sections but the last, which has the rest.
    Equal(Scalar),
    /// One index each; sections have no dimension for it.
    Single,
}

#[derive(Debug)]
pub(crate) struct Split {
    pub(crate) from: TensorId,
    sizes: Sizes,
    pub(crate) axis: usize,
    elem: Elem,
    pub(crate) outs: Vec<TensorId>,
}

pub(super) fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let from = args.tensor("self")?;
    let sizes = args.scalars("split_sizes")?;
    let count = Some(sizes.len());
    finish(args, from, Sizes::Listed(sizes), count)
}

pub(super) fn decode_equal(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let from = args.tensor("self")?;
    let size = args.scalar("split_size")?;
    finish(args, from, Sizes::Equal(size), None)
}

pub(super) fn decode_single(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let from = args.tensor("self")?;
    finish(args, from, Sizes::Single, None)
}

fn finish(args: &mut Args<'_>, from: TensorId, sizes: Sizes, count: Option<usize>) -> Result<Box<dyn Op>, OpError> {
    let info = args.info(from);
    let axis = super::axis(args, info)?;
    let outs = args.output_list("out")?;
    if let Some(count) = count.filter(|&count| count != outs.len()) {
        return Err(OpError::new("out", format!("has {} tensors, expected {count}", outs.len())));
    }
    for &out in &outs {
        let found = args.info(out).elem;
        if found != info.elem {
            return Err(OpError::new("out", format!("has elements {found:?}, but the result's are {:?}", info.elem)));
        }
    }
    Ok(Box::new(Split { from, sizes, axis, elem: info.elem, outs }))
}

impl Split {
    /// The lengths of the sections of a dimension, if they are the same in every call and sections keep the dimension.
    pub(crate) fn fixed_lengths(&self, dim: Option<u32>) -> Option<Vec<u32>> {
        let fixed = |size: Scalar| match size {
            Scalar::Fixed(size) => u32::try_from(size).ok(),
            Scalar::Live(_) => None,
        };
        match &self.sizes {
            Sizes::Listed(sizes) => sizes.iter().map(|&size| fixed(size)).collect(),
            Sizes::Equal(size) => {
                let (size, dim) = (fixed(*size)?, dim?);
                let length = |index: u32| Some(dim.checked_sub(index.checked_mul(size)?)?.min(size));
                (0..).take(self.outs.len()).map(length).collect()
            }
            Sizes::Single => None,
        }
    }

    /// The length of each section.
    fn lengths(&self, cx: &PlanCx<'_>) -> Result<Vec<u32>, OpError> {
        let (dim, count) = (cx.dims(self.from)[self.axis], self.outs.len());
        let (name, sizes): (_, Vec<i64>) = match &self.sizes {
            Sizes::Listed(sizes) => ("split_sizes", sizes.iter().map(|&size| cx.scalar(size)).collect()),
            Sizes::Equal(size) => {
                let size = cx.scalar(*size);
                let mut left = i64::from(dim);
                let next = || {
                    let section = size.min(left).max(0);
                    left -= section;
                    section
                };
                ("split_size", std::iter::repeat_with(next).take(count).collect())
            }
            Sizes::Single => ("self", vec![1; count]),
        };
        let lengths: Option<Vec<u32>> = sizes.iter().map(|&size| u32::try_from(size).ok()).collect();
        match lengths {
            Some(lengths) if lengths.iter().copied().map(u64::from).sum::<u64>() == u64::from(dim) => Ok(lengths),
            _ => {
                let reason = format!("is {sizes:?}, expected sizes that add up to the {dim} of dimension {}", self.axis);
                Err(OpError::new(name, reason))
            }
        }
    }

    /// The dims of an output of a section's dims.
    fn out_dims(&self, section: &Dims) -> Dims {
        if matches!(self.sizes, Sizes::Single) { section.without(self.axis) } else { *section }
    }

    /// The start index and the dims of each section.
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
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        let keeps = !matches!(self.sizes, Sizes::Single);
        rows.axis(self.from).filter(|&axis| keeps && axis != self.axis)
    }

    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        // Unused output bindings of the last dispatch take scratch buffers.
        let idle = self.outs.len().next_multiple_of(SECTIONS) - self.outs.len();
        let dispatches = self.outs.chunks(SECTIONS).flat_map(|outs| {
            let outputs = outs.iter().map(|&out| out.into()).chain((0..idle).map(Bind::Scratch)).take(SECTIONS);
            let binds = [self.from.into()].into_iter().chain(outputs).collect::<Vec<Bind>>();
            strategies(self.elem).map(move |strategy| Recipe::new(variant(strategy), binds.clone()))
        });
        Ok(Recipes { scratch: vec![16; idle], ..Recipes::of(dispatches) })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (dims, slices) = (cx.dims(self.from), self.slices(cx)?);
        let outputs = self.outs.iter().copied().zip(slices.iter().map(|(_, dims)| self.out_dims(dims))).collect();
        let mut plan = Plan { outputs, ..Plan::default() };
        if dims.count() == 0 {
            return Ok(plan);
        }
        let sections = Sections::new(&dims, self.axis, slices.iter().map(|(_, dims)| dims[self.axis]));
        for dispatch in 0..self.outs.len().div_ceil(SECTIONS) {
            // The last strategy covers every layout.
            let Some((recipe, strategy)) = sections.strategy(self.elem, dispatch) else { continue };
            plan.steps.extend(sections.split(dispatch, recipe, strategy)?);
        }
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let Some(from) = tensors.get(self.from).cloned() else { return Ok(()) };
        for (&out, (start, dims)) in self.outs.iter().zip(self.slices(cx)?) {
            let offset = |mut index: Vec<u32>| {
                index[self.axis] += start;
                broadcast_offset(&from.dims, &index)
            };
            let offsets: Vec<usize> = indices(&dims).map(offset).collect();
            tensors.set(out, self.out_dims(&dims), from.data.gather(&offsets));
        }
        Ok(())
    }
}
