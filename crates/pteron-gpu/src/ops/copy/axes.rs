//! Axes: how an output that is written in order walks the tensors its elements come from.

use crate::shape::MAX_RANK;

/// An axis of an output: its length, and how far a step along it goes in each of two tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) dim: u32,
    pub(crate) steps: [i64; 2],
}

/// Axes, outermost first, as kernels walk them: innermost first, without those of length 1, and those that run on into each
/// other in both tensors joined.
pub(crate) fn join(axes: &[Axis]) -> Vec<Axis> {
    let mut joined: Vec<Axis> = Vec::with_capacity(axes.len());
    for &axis in axes.iter().rev() {
        match joined.last_mut() {
            _ if axis.dim == 1 => {}
            Some(inner) if inner.steps.map(|step| step * i64::from(inner.dim)) == axis.steps => inner.dim *= axis.dim,
            _ => joined.push(axis),
        }
    }
    joined
}

/// Joined axes counted in units of `lanes` elements, if the elements of each unit lie together in the first tensor and it starts
/// at a whole one. `start` is what everything that is added to the walk is a multiple of, 0 standing for all numbers.
pub(crate) fn in_units(axes: &[Axis], lanes: u32, start: i64) -> Option<Vec<Axis>> {
    let mut axes = axes.to_vec();
    let wide = i64::from(lanes);
    if start % wide != 0 {
        return None;
    }
    let Some((run, outer)) = axes.split_first_mut().filter(|_| lanes > 1) else { return Some(axes) };
    // The last unit of a single run may be cut short: what follows is padding. In between it would not be.
    if run.steps != [1, 0] || (run.dim % lanes != 0 && !outer.is_empty()) {
        return None;
    }
    run.dim = run.dim.div_ceil(lanes);
    for axis in outer {
        if axis.steps[0] % wide != 0 {
            return None;
        }
        axis.steps[0] /= wide;
    }
    axes.retain(|axis| axis.dim != 1);
    Some(axes)
}

/// Units that axes count.
pub(crate) fn count(axes: &[Axis]) -> u32 {
    axes.iter().fold(1, |count, axis| count * axis.dim)
}

/// A number of the host as shaders add it: what is below zero wraps around.
pub(crate) fn wrapped(step: i64) -> u32 {
    u32::try_from(step.rem_euclid(1 << 32)).unwrap_or(0)
}

/// Axes as `include/walk.wgsl` reads them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    pub(crate) dims: [u32; MAX_RANK],
    pub(crate) steps: [u32; 2 * MAX_RANK],
    pub(crate) rank: u32,
}

impl Walk {
    /// `None` if there are more axes than a kernel walks.
    pub(crate) fn new(axes: &[Axis]) -> Option<Self> {
        let mut walk = Self { rank: u32::try_from(axes.len()).ok()?, ..Self::default() };
        walk.dims.get_mut(..axes.len())?.copy_from_slice(&axes.iter().map(|axis| axis.dim).collect::<Vec<u32>>());
        // A single element has no axis; shaders look at the first dim nevertheless.
        walk.dims[0] = walk.dims[0].max(1);
        let steps = axes.iter().flat_map(|axis| axis.steps).map(wrapped);
        walk.steps.iter_mut().zip(steps).for_each(|(to, step)| *to = step);
        Some(walk)
    }
}
