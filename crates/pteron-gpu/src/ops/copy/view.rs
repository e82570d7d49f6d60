//! Identity copies: clones, reshapes, and dims of 1 added or removed.

use super::{CopyKind, Selection};
use crate::args::{Args, normalise};
use crate::error::OpError;
use crate::graph::TensorInfo;
use crate::live::{Scalar, TensorId};
use crate::plan::PlanCx;
use crate::shape::{Dims, MAX_RANK};
use crate::strided_copy::StridedView;

/// All elements in order, with other dims.
#[derive(Debug)]
enum Reshape {
    /// With the same dims.
    Same,
    /// With other dims. `bound` is the file's bound of `self`, which sizes without symbols describe.
    View { sizes: Vec<Scalar>, bound: Dims },
    /// With these dims at every live shape; one may be −1, the rest.
    Exact { sizes: Vec<Scalar> },
    /// With an additional dimension of 1.
    Unsqueezed { axis: usize },
    /// Without these dimensions of 1. The file fixes the rank of the output, so dimensions that are 1 only at a live shape
    /// stay.
    Squeezed { axes: Vec<usize> },
}

impl Selection for Reshape {
    fn view(&self, cx: &PlanCx<'_>, dims: Dims) -> Result<StridedView, OpError> {
        let dims = match self {
            Self::Same => dims,
            Self::View { sizes, bound } => {
                let symbolic = sizes.iter().any(|size| matches!(size, Scalar::Live(_)));
                let sizes = sizes.iter().map(|&size| live_size(cx, size)).collect::<Result<Vec<i64>, OpError>>()?;
                live_dims(&sizes, symbolic, bound, &dims)?
            }
            Self::Exact { sizes } => {
                let sizes = sizes.iter().map(|&size| live_size(cx, size)).collect::<Result<Vec<i64>, OpError>>()?;
                literal(&sizes, &dims)?
            }
            Self::Unsqueezed { axis } => {
                let (before, after) = dims.split_at(*axis);
                let sizes = before.iter().chain([&1]).chain(after).copied().map(i64::from);
                Dims::from_sizes(sizes).ok_or_else(|| too_deep(&dims))?
            }
            Self::Squeezed { axes } => {
                if let Some(axis) = axes.iter().find(|&&axis| dims[axis] != 1) {
                    return Err(OpError::new("self", format!("is {dims}, but dimension {axis} is left out as one of 1")));
                }
                axes.iter().rev().fold(dims, |dims, &axis| dims.without(axis))
            }
        };
        Ok(StridedView::all(dims))
    }

    #[cfg(any(test, feature = "reference"))]
    fn source(&self, _: &PlanCx<'_>, _: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError> {
        Ok(out.to_vec())
    }

    fn is_identity(&self) -> bool {
        true
    }

    fn kind(&self) -> CopyKind<'_> {
        match self {
            Self::Same => CopyKind::Same,
            Self::View { sizes, .. } | Self::Exact { sizes } => CopyKind::View(sizes),
            Self::Unsqueezed { axis } => CopyKind::Unsqueezed(*axis),
            Self::Squeezed { axes } => CopyKind::Squeezed(axes),
        }
    }
}

/// Every element in order, of a tensor that must have these dims in every call: the size of a state is fixed.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) bound: Dims,
}

impl Selection for Whole {
    fn view(&self, _: &PlanCx<'_>, dims: Dims) -> Result<StridedView, OpError> {
        if dims != self.bound {
            return Err(OpError::new("self", format!("has {dims}, but the buffer it is stored in has {}", self.bound)));
        }
        Ok(StridedView::all(dims))
    }

    #[cfg(any(test, feature = "reference"))]
    fn source(&self, _: &PlanCx<'_>, _: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError> {
        Ok(out.to_vec())
    }

    fn is_identity(&self) -> bool {
        true
    }
}

pub(super) fn decode_same(_: &mut Args<'_>, _: TensorId, _: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    Ok(Box::new(Reshape::Same))
}

pub(super) fn decode_clone(args: &mut Args<'_>, x: TensorId, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    args.none("memory_format")?;
    decode_same(args, x, info)
}

pub(super) fn decode_clone_dim_order(
    args: &mut Args<'_>,
    x: TensorId,
    info: TensorInfo,
) -> Result<Box<dyn Selection>, OpError> {
    args.ignore("non_blocking")?;
    args.contiguous_order("dim_order")?;
    decode_same(args, x, info)
}

pub(super) fn decode_view(args: &mut Args<'_>, _: TensorId, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    Ok(Box::new(Reshape::View { sizes: args.scalars("size")?, bound: info.bound }))
}

pub(super) fn decode_reshape(args: &mut Args<'_>, _: TensorId, _: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    Ok(Box::new(Reshape::Exact { sizes: args.scalars("size")? }))
}

pub(super) fn decode_unsqueeze(args: &mut Args<'_>, _: TensorId, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    let rank = info.bound.len();
    if rank == MAX_RANK {
        return Err(too_deep(&info.bound));
    }
    let dim = args.int("dim")?;
    match normalise(dim, rank + 1) {
        Some(axis) => Ok(Box::new(Reshape::Unsqueezed { axis })),
        None => Err(OpError::new("dim", format!("is {dim}, but there are {} places for a dimension", rank + 1))),
    }
}

fn too_deep(dims: &Dims) -> OpError {
    OpError::new("self", format!("is {dims}, and more than {MAX_RANK} dimensions are not supported"))
}

pub(super) fn decode_squeeze(args: &mut Args<'_>, _: TensorId, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    let mut axes = super::distinct_axes(args, "dim", info.bound.len())?;
    axes.retain(|&axis| info.bound.get(axis) == Some(&1));
    axes.sort_unstable();
    Ok(Box::new(Reshape::Squeezed { axes }))
}

pub(super) fn decode_squeeze_dim(args: &mut Args<'_>, _: TensorId, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    let axis = args.axis("dim", info.bound.len())?;
    Ok(Box::new(Reshape::Squeezed { axes: (info.bound.get(axis) == Some(&1)).then_some(axis).into_iter().collect() }))
}

pub(super) fn decode_squeeze_all(_: &mut Args<'_>, _: TensorId, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    let axes = (0..info.bound.len()).filter(|&axis| info.bound[axis] == 1).collect();
    Ok(Box::new(Reshape::Squeezed { axes }))
}

/// The live value of a size. Only a literal of the file can be −1, which leaves the size open.
pub(super) fn live_size(cx: &PlanCx<'_>, size: Scalar) -> Result<i64, OpError> {
    let value = cx.scalar(size);
    match size {
        Scalar::Live(_) if value < 0 => Err(OpError::new("size", format!("has a symbolic size of {value}, below 0"))),
        _ => Ok(value),
    }
}

/// The dims of a view of a tensor whose dims are `live`.
///
/// Symbolic sizes are exact. Sizes that are all literals describe the tensor at its `bound`; below that the view's dims
/// follow from the changed dims of the tensor, if there is only one solution.
///
/// # Errors
/// Sizes that do not hold the tensor's elements, or whose live values are ambiguous.
fn live_dims(sizes: &[i64], symbolic: bool, bound: &Dims, live: &Dims) -> Result<Dims, OpError> {
    let literal = literal(sizes, live);
    if symbolic || live == bound {
        return literal;
    }
    let moved = follow(bound, &self::literal(sizes, bound)?, live);
    let unclear = |why: String| {
        Err(OpError::new("size", format!("is {sizes:?} for a tensor of at most {bound}, and for {live} {why}")))
    };
    match (literal, moved) {
        (Ok(literal), Some(moved)) if literal != moved => unclear(format!("could mean {literal} or {moved}")),
        // A size of −1 resolves the ambiguity.
        (Ok(dims), _) | (Err(_), Some(dims)) => Ok(dims),
        (Err(_), None) => unclear("it does not say which size follows; an export with symbolic sizes would".into()),
    }
}

/// The literal sizes, with −1 replaced by the remaining size.
fn literal(sizes: &[i64], live: &Dims) -> Result<Dims, OpError> {
    let refuse = || OpError::new("size", format!("is {sizes:?}, which cannot hold the {} elements of {live}", live.count()));
    let open = sizes.iter().filter(|&&size| size == -1).count();
    let known = sizes.iter().filter(|&&size| size != -1);
    let known = known.map(|&size| u64::try_from(size).ok()).try_fold(1u64, |product, size| product.checked_mul(size?));
    let (Some(known), true) = (known, open <= 1) else { return Err(refuse()) };
    let rest = if open == 0 { Some(1) } else { live.count().checked_div(known) };
    let rest = rest.and_then(|rest| i64::try_from(rest).ok()).ok_or_else(refuse)?;
    let dims = Dims::from_sizes(sizes.iter().map(|&size| if size == -1 { rest } else { size })).ok_or_else(refuse)?;
    if dims.count() == live.count() { Ok(dims) } else { Err(refuse()) }
}

/// The dims that `to` of a view become when the tensor's dims change from `from` to `live`; `None` if that is ambiguous.
///
/// Dims are grouped into the smallest runs with the same number of elements on both sides, so that a change in a run of one
/// side is a change in the same run of the other.
fn follow(from: &Dims, to: &Dims, live: &Dims) -> Option<Dims> {
    if from == to {
        return Some(*live);
    }
    let empty = from.count() == 0 || from.iter().zip(live.iter()).any(|(&from, &live)| from == 1 && live == 0);
    if empty || from.count() != to.count() {
        return None;
    }
    let mut result = *to;
    let wide = |dims: &Dims| (0..dims.len()).filter(|&axis| dims[axis] != 1).collect::<Vec<_>>();
    let (froms, tos) = (wide(from), wide(to));
    let (mut froms, mut tos) = (froms.as_slice(), tos.as_slice());
    while !froms.is_empty() {
        let (ours, theirs) = run(from, froms, to, tos);
        let (from_run, to_run) = (&froms[..ours], &tos[..theirs]);
        let (axis, dim) = follow_run(from, from_run, to, to_run, live)?;
        result = result.with(axis, dim);
        (froms, tos) = (&froms[ours..], &tos[theirs..]);
    }
    Some(result)
}

/// The number of axes of each side in the next run.
pub(crate) fn run(from: &Dims, froms: &[usize], to: &Dims, tos: &[usize]) -> (usize, usize) {
    let product = |dims: &Dims, axes: &[usize]| axes.iter().map(|&axis| u64::from(dims[axis])).product::<u64>();
    let (mut ours, mut theirs) = (1, 1);
    // The sides hold the same number of elements, so the products meet at the end if not before.
    while ours < froms.len() || theirs < tos.len() {
        match product(from, &froms[..ours]).cmp(&product(to, &tos[..theirs])) {
            std::cmp::Ordering::Equal => break,
            std::cmp::Ordering::Less => ours += 1,
            std::cmp::Ordering::Greater => theirs += 1,
        }
    }
    (ours, theirs)
}

/// The axis of a run that changes, and its new size.
fn follow_run(from: &Dims, froms: &[usize], to: &Dims, tos: &[usize], live: &Dims) -> Option<(usize, u32)> {
    let changed = froms.iter().filter(|&&axis| from[axis] != live[axis]).count();
    if changed > 1 && tos.len() > 1 {
        return None;
    }
    let before: u64 = froms.iter().map(|&axis| u64::from(from[axis])).product();
    let after: u64 = froms.iter().map(|&axis| u64::from(live[axis])).product();
    let follows = |&axis: &usize| {
        let scaled = u64::from(to[axis]) * after;
        scaled.is_multiple_of(before).then(|| u32::try_from(scaled / before).ok().map(|dim| (axis, dim)))?
    };
    if changed == 0 {
        return tos.first().map(|&axis| (axis, to[axis]));
    }
    let mut candidates = tos.iter().filter_map(follows);
    let candidate = candidates.next();
    if candidates.next().is_some() { None } else { candidate }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(sizes: &[i64], bound: &[u32], live: &[u32]) -> Result<Vec<u32>, String> {
        let (bound, live) = (Dims::new(bound).unwrap(), Dims::new(live).unwrap());
        live_dims(sizes, false, &bound, &live).map(|dims| dims.to_vec()).map_err(|error| error.reason)
    }

    #[test]
    fn numbers_at_the_bound_are_literal() {
        assert_eq!(view(&[6, 4], &[2, 3, 4], &[2, 3, 4]), Ok(vec![6, 4]));
        assert_eq!(view(&[-1], &[2, 3, 4], &[2, 3, 4]), Ok(vec![24]));
        assert_eq!(view(&[1, 2, -1, 4], &[2, 3, 4], &[2, 3, 4]), Ok(vec![1, 2, 3, 4]));
        assert_eq!(view(&[], &[1], &[1]), Ok(vec![]));
        assert!(view(&[5, 4], &[2, 3, 4], &[2, 3, 4]).unwrap_err().contains("cannot hold the 24 elements of [2, 3, 4]"));
        assert!(view(&[-1, -1], &[4], &[4]).is_err());
        assert!(view(&[-2, -2], &[4], &[4]).is_err());
        assert!(view(&[-1, 0], &[4], &[4]).is_err());
        assert!(view(&[i64::MAX, i64::MAX], &[4], &[4]).is_err());
    }

    #[test]
    fn numbers_below_the_bound_follow_the_dim_that_changed() {
        for s in [0, 1, 5, 126] {
            assert_eq!(view(&[1, 127, 8, 32], &[1, 127, 256], &[1, s, 256]), Ok(vec![1, s, 8, 32]));
            assert_eq!(view(&[1, 127, 256], &[1, 127, 8, 32], &[1, s, 8, 32]), Ok(vec![1, s, 256]));
            assert_eq!(view(&[127, 256], &[1, 127, 256], &[1, s, 256]), Ok(vec![s, 256]));
            assert_eq!(view(&[-1, 256], &[1, 127, 256], &[1, s, 256]), Ok(vec![s, 256]));
            assert_eq!(view(&[127 * 256], &[1, 127, 256], &[1, s, 256]), Ok(vec![s * 256]));
            assert_eq!(view(&[127, 1, 256], &[127, 256], &[s, 256]), Ok(vec![s, 1, 256]));
        }
        // Two dims change, each in a separate run.
        assert_eq!(view(&[4, 1, 9, 2], &[4, 18], &[3, 16]), Ok(vec![3, 1, 8, 2]));
        // Several changed dims that are flattened into one have one solution.
        assert_eq!(view(&[24, 5], &[4, 6, 5], &[3, 2, 5]), Ok(vec![6, 5]));
        // Unflattening has one solution if only one size can change.
        assert_eq!(view(&[127, 4], &[508], &[20]), Ok(vec![5, 4]));
    }

    #[test]
    fn ambiguous_sizes_are_rejected() {
        let message = view(&[128, 4], &[512], &[256]).unwrap_err();
        assert!(message.contains("[128, 4]") && message.contains("[512]") && message.contains("[256]"), "{message}");
        assert!(view(&[6, 4], &[4, 6], &[2, 3]).is_err());
        assert!(view(&[7, 4], &[28], &[9]).is_err());
        assert!(view(&[127, 2], &[254], &[0]).is_err());
        // −1 selects the size that changes, unless the tensor's own dims determine it otherwise.
        assert_eq!(view(&[4, -1], &[8, 6], &[2, 6]), Ok(vec![4, 3]));
        let message = view(&[128, -1], &[128, 256], &[64, 256]).unwrap_err();
        assert!(message.contains("could mean [128, 128] or [64, 256]"), "{message}");
        assert!(view(&[128, -1], &[128, 256], &[5, 256]).unwrap_err().contains("could mean [128, 10] or [5, 256]"));
    }

    #[test]
    fn symbolic_sizes_are_exact() {
        let (bound, live) = (Dims::new(&[1, 127, 256]).unwrap(), Dims::new(&[1, 5, 256]).unwrap());
        assert_eq!(live_dims(&[5, 256], true, &bound, &live).unwrap().to_vec(), [5, 256]);
        assert_eq!(live_dims(&[5, -1, 32], true, &bound, &live).unwrap().to_vec(), [5, 8, 32]);
        assert!(live_dims(&[127, 256], true, &bound, &live).is_err());
    }
}
