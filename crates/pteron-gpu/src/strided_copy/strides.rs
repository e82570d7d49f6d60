//! Axes of a strided copy: the loop nest over an output that is written in order, with the strides of its sources.

use crate::error::OpError;
use crate::shape::MAX_RANK;

/// An axis of an output: its length, and its stride in each of two source tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) dim: u32,
    pub(crate) strides: [i64; 2],
}

/// Collapses axes, given outermost first: drops those of length 1 and merges those that are contiguous in both tensors. Returns them
/// innermost first, as kernels take them.
pub(crate) fn collapse(axes: &[Axis]) -> Vec<Axis> {
    let mut collapsed: Vec<Axis> = Vec::with_capacity(axes.len());
    for &axis in axes.iter().rev() {
        match collapsed.last_mut() {
            _ if axis.dim == 1 => {}
            Some(inner) if inner.strides.map(|stride| stride * i64::from(inner.dim)) == axis.strides => {
                inner.dim *= axis.dim;
            }
            _ => collapsed.push(axis),
        }
    }
    collapsed
}

/// Collapsed axes counted in vectors of `lanes` elements, if each vector is contiguous and aligned in the first tensor. `start` is a
/// known divisor of every offset that is added to the strided index; 0 means an offset of 0.
pub(crate) fn vectorise(axes: &[Axis], lanes: u32, start: i64) -> Option<Vec<Axis>> {
    let mut axes = axes.to_vec();
    let width = i64::from(lanes);
    if start % width != 0 {
        return None;
    }
    let Some((run, outer)) = axes.split_first_mut().filter(|_| lanes > 1) else { return Some(axes) };
    // The last vector of a single run may reach into the padding; there is none between runs.
    if run.strides != [1, 0] || (run.dim % lanes != 0 && !outer.is_empty()) {
        return None;
    }
    run.dim = run.dim.div_ceil(lanes);
    for axis in outer {
        if axis.strides[0] % width != 0 {
            return None;
        }
        axis.strides[0] /= width;
    }
    axes.retain(|axis| axis.dim != 1);
    Some(axes)
}

/// The number of indices of a loop nest.
pub(crate) fn count(axes: &[Axis]) -> u32 {
    axes.iter().fold(1, |count, axis| count * axis.dim)
}

/// A stride as shaders add it: negative ones wrap around.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "strides are added modulo 2^32")]
pub(crate) fn wrapping(stride: i64) -> u32 {
    stride as u32
}

/// Axes as `strided_index.wgsl` takes them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StridedDims {
    pub(crate) dims: [u32; MAX_RANK],
    pub(crate) strides: [u32; 2 * MAX_RANK],
    pub(crate) rank: u32,
}

impl StridedDims {
    /// `None` if there are more axes than kernels support.
    pub(crate) fn new(axes: &[Axis]) -> Option<Self> {
        let mut strided = Self { rank: u32::try_from(axes.len()).ok()?, ..Self::default() };
        strided.dims.get_mut(..axes.len())?.copy_from_slice(&axes.iter().map(|axis| axis.dim).collect::<Vec<u32>>());
        // A single element has no axis, but shaders divide by the first dim.
        strided.dims[0] = strided.dims[0].max(1);
        let strides = axes.iter().flat_map(|axis| axis.strides).map(wrapping);
        strided.strides.iter_mut().zip(strides).for_each(|(to, stride)| *to = stride);
        Some(strided)
    }
}

/// Resolves an index of a dimension, counted from the end if negative.
pub(crate) fn select(index: i64, dim: u32) -> Result<u32, OpError> {
    let at = if index < 0 { index.saturating_add(dim.into()) } else { index };
    match u32::try_from(at) {
        Ok(at) if at < dim => Ok(at),
        _ if dim == 0 => Err(OpError::new("index", format!("is {index}, but the dimension has zero elements"))),
        _ => Err(OpError::new("index", format!("is {index}, but the dimension has {dim} elements"))),
    }
}

/// The start and the length of a slice, clamped as PyTorch does.
pub(crate) fn slice(start: i64, end: i64, step: u64, dim: u32) -> (u32, u32) {
    let clamp = |at: i64| {
        let at = if at < 0 { at.saturating_add(dim.into()) } else { at };
        u32::try_from(at.max(0)).unwrap_or(u32::MAX).min(dim)
    };
    let start = clamp(start);
    let covered = u64::from(clamp(end).saturating_sub(start));
    (start, u32::try_from(covered.div_ceil(step)).unwrap_or(u32::MAX))
}
