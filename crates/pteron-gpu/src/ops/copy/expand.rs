//! Broadcast copies: `expand` and `repeat`.

use super::view::live_size;
use super::{CopyKind, Selection};
use crate::args::Args;
use crate::error::OpError;
use crate::graph::TensorInfo;
use crate::live::{Scalar, TensorId};
use crate::plan::PlanCx;
use crate::shape::{Dims, MAX_RANK};
use crate::strided_copy::StridedView;

/// Broadcasts dims of 1 to `sizes`, and adds new dims before the others. Sizes without symbols describe the tensor at its `bound` in
/// the file: a size equal to the dim's bound follows the live dim.
#[derive(Debug)]
struct Expand {
    sizes: Vec<Scalar>,
    bound: Dims,
}

impl Expand {
    fn dims(&self, cx: &PlanCx<'_>, dims: &Dims) -> Result<Dims, OpError> {
        let sizes = self.sizes.iter().map(|&size| live_size(cx, size)).collect::<Result<Vec<i64>, OpError>>()?;
        let symbolic = self.sizes.iter().any(|size| matches!(size, Scalar::Live(_)));
        let lead = sizes.len() - dims.len();
        let refuse = |reason: String| OpError::new("size", format!("is {sizes:?} for {dims}, {reason}"));
        let size = |(at, &size): (usize, &i64)| {
            let Some(axis) = at.checked_sub(lead) else {
                return if size < 0 { Err(refuse(format!("but {size} is no size for a new dimension"))) } else { Ok(size) };
            };
            let (dim, bound) = (i64::from(dims[axis]), i64::from(self.bound[axis]));
            let literal = if size == -1 || size == dim { Some(dim) } else { (dim == 1 && size >= 0).then_some(size) };
            let follows = (!symbolic && size == bound).then_some(dim);
            match (literal, follows) {
                (Some(literal), Some(dim)) if literal != dim => {
                    Err(refuse(format!("at most {}, where dimension {at} could mean {literal} or {dim}", self.bound)))
                }
                (Some(size), _) | (None, Some(size)) => Ok(size),
                (None, None) => Err(refuse(format!("but only a dimension of 1 can be expanded to {size}"))),
            }
        };
        let live = sizes.iter().enumerate().map(size).collect::<Result<Vec<i64>, OpError>>()?;
        Dims::from_sizes(live).ok_or_else(|| refuse("too many".into()))
    }
}

impl Selection for Expand {
    fn view(&self, cx: &PlanCx<'_>, dims: Dims) -> Result<StridedView, OpError> {
        let out = self.dims(cx, &dims)?;
        let lead = out.len() - dims.len();
        let strides = dims.strides();
        let stride = |axis: usize| if dims[axis] == 1 { 0 } else { i64::from(strides[axis]) };
        Ok(StridedView::new(out, (0..out.len()).map(|axis| axis.checked_sub(lead).map_or(0, stride))))
    }

    #[cfg(any(test, feature = "reference"))]
    fn source(&self, _: &PlanCx<'_>, dims: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError> {
        let own = &out[out.len() - dims.len()..];
        Ok(own.iter().zip(dims.iter()).map(|(&at, &dim)| if dim == 1 { 0 } else { at }).collect())
    }

    fn kind(&self) -> CopyKind<'_> {
        CopyKind::Expanded(&self.sizes)
    }

    fn is_identity(&self) -> bool {
        let lead = self.sizes.len() - self.bound.len();
        let (new, own) = self.sizes.split_at(lead);
        let keeps = |(&size, &bound): (&Scalar, &u32)| size == Scalar::Fixed(-1) || size == Scalar::Fixed(bound.into());
        new.iter().all(|&size| size == Scalar::Fixed(1)) && own.iter().zip(self.bound.iter()).all(keeps)
    }
}

pub(super) fn decode_expand(args: &mut Args<'_>, _: TensorId, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    let sizes = counts(args, "size", info)?;
    // Has no influence on the result.
    args.ignore("implicit")?;
    Ok(Box::new(Expand { sizes, bound: info.bound }))
}

/// Repeats the tensor along each dim, and along new dims before them.
#[derive(Debug)]
struct Repeat {
    repeats: Vec<Scalar>,
}

impl Selection for Repeat {
    fn view(&self, cx: &PlanCx<'_>, dims: Dims) -> Result<StridedView, OpError> {
        let repeats: Vec<i64> = self.repeats.iter().map(|&repeat| cx.scalar(repeat)).collect();
        let refuse = |what: &str| OpError::new("repeats", format!("is {repeats:?} for {dims}, {what}"));
        let lead = repeats.len() - dims.len();
        let strides = dims.strides();
        let own = |at: usize| at.checked_sub(lead).map_or((1, 0), |axis| (dims[axis], i64::from(strides[axis])));
        let sizes = repeats.iter().enumerate().map(|(at, &repeat)| repeat.saturating_mul(own(at).0.into()));
        let out = Dims::from_sizes(sizes).ok_or_else(|| refuse("which overflows the dims"))?;
        // A repeat of a dim without elements may be any number.
        let times = |&repeat: &i64| u32::try_from(repeat).unwrap_or(0);
        let axes = repeats.iter().map(times).enumerate().flat_map(|(at, repeat)| [(repeat, 0), own(at)]);
        Ok(StridedView::with_axes(out, axes))
    }

    #[cfg(any(test, feature = "reference"))]
    fn source(&self, _: &PlanCx<'_>, dims: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError> {
        let own = &out[out.len() - dims.len()..];
        Ok(own.iter().zip(dims.iter()).map(|(&at, &dim)| at % dim).collect())
    }

    fn is_identity(&self) -> bool {
        self.repeats.iter().all(|&repeat| repeat == Scalar::Fixed(1))
    }
}

pub(super) fn decode_repeat(args: &mut Args<'_>, _: TensorId, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    Ok(Box::new(Repeat { repeats: counts(args, "repeats", info)? }))
}

/// Decodes one number per dimension, and per new dimension before them.
fn counts(args: &mut Args<'_>, name: &'static str, info: TensorInfo) -> Result<Vec<Scalar>, OpError> {
    let (counts, rank) = (args.scalars(name)?, info.bound.len());
    if (rank..=MAX_RANK).contains(&counts.len()) {
        return Ok(counts);
    }
    let reason = format!("has {} numbers for {}, expected {rank} to {MAX_RANK}", counts.len(), info.bound);
    Err(OpError::new(name, reason))
}
