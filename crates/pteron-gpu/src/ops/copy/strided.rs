//! The copy kernels: any tensor read with strides, written contiguously, in the widest items its layout allows.

use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::{Scalar, TensorId};
use crate::params;
use crate::plan::{Bind, Dispatch, Plan, PlanCx, Recipe, Recipes};
use crate::shape::{Dims, MAX_RANK};

pub(crate) static ITEMS: KernelDef =
    KernelDef::new("copy", include_str!("copy.wgsl"), Params::FIELDS).with_types(&[("T", &["vec4<u32>", "u32"])]);
pub(crate) static BYTES: KernelDef = KernelDef::new("copy_bytes", include_str!("copy_bytes.wgsl"), Params::FIELDS);

params! {
    /// Of `copy.wgsl` and `copy_bytes.wgsl`.
    struct Params { dims: [u32; MAX_RANK], strides: [u32; MAX_RANK], rank: u32, count: u32, step_base: u32, pad: u32 }
}

/// Which elements of a source an output has: for each index of `dims` the one at `offset` + Σ index · stride.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    pub(crate) dims: Dims,
    pub(crate) strides: [u32; MAX_RANK],
    offset: u32,
    /// What `offset` is a multiple of while shapes stay, 0 standing for all numbers.
    unit: u32,
}

impl Window {
    /// Every element in order.
    pub(crate) fn all(dims: Dims) -> Self {
        Self { dims, strides: dims.strides(), offset: 0, unit: 0 }
    }

    /// The same from an index of a dimension on. Where the index is symbolic it may be any other in the next step, so that
    /// nothing but the dimension's stride is certain of the offset.
    pub(crate) fn starting_at(mut self, index: u32, stride: u32, symbol: Option<Scalar>) -> Self {
        // An empty window may start past the end of the tensor, and nothing is read.
        self.offset = index.saturating_mul(stride);
        self.unit = if matches!(symbol, Some(Scalar::Live(_))) { stride } else { self.offset };
        self
    }

    /// Dims and strides, innermost first, with those that run on into each other joined.
    fn axes(&self) -> Vec<(u32, u32)> {
        let mut axes: Vec<(u32, u32)> = Vec::new();
        for (&dim, &stride) in self.dims.iter().zip(&self.strides).rev() {
            match axes.last_mut() {
                _ if dim == 1 => {}
                Some((inner, inner_stride)) if inner.checked_mul(*inner_stride) == Some(stride) => *inner *= dim,
                _ => axes.push((dim, stride)),
            }
        }
        axes
    }

    /// The same axes counted in items of `lanes` elements, if every item lies together and starts at a whole one.
    fn in_items(&self, lanes: u32) -> Option<Vec<(u32, u32)>> {
        let mut axes = self.axes();
        if lanes > 1 && !self.unit.is_multiple_of(lanes) {
            return None;
        }
        let Some((run, outer)) = axes.split_first_mut().filter(|_| lanes > 1) else { return Some(axes) };
        // The last item of a single run may be cut short: what follows is padding. In between it would not be.
        if run.1 != 1 || (run.0 % lanes != 0 && !outer.is_empty()) {
            return None;
        }
        run.0 = run.0.div_ceil(lanes);
        for (_, stride) in outer {
            if *stride % lanes != 0 {
                return None;
            }
            *stride /= lanes;
        }
        Some(axes)
    }
}

/// A way to copy, best first.
struct Way {
    kernel: &'static KernelDef,
    /// The type of an item, for the kernel that leaves it open.
    item: Option<&'static str>,
    /// Elements in an item, and items a thread copies.
    lanes: u32,
    per_thread: u32,
}

const fn way(item: &'static str, lanes: u32) -> Way {
    Way { kernel: &ITEMS, item: Some(item), lanes, per_thread: 1 }
}

const OF_WORDS: &[Way] = &[way("vec4<u32>", 4), way("u32", 1)];
const OF_BYTES: &[Way] = &[way("vec4<u32>", 16), way("u32", 4), Way { kernel: &BYTES, item: None, lanes: 1, per_thread: 4 }];

fn ways(elem: Elem) -> &'static [Way] {
    match elem {
        Elem::F32 | Elem::I32 => OF_WORDS,
        Elem::U8 | Elem::I8 | Elem::Bool => OF_BYTES,
    }
}

/// Every way to copy elements of this type.
pub(crate) fn recipes(elem: Elem, from: TensorId, out: TensorId) -> Recipes {
    let recipe = |way: &Way| {
        let variant = Variant::new(way.kernel);
        let variant = way.item.map_or(variant.clone(), |item| variant.with_type("T", item));
        Recipe::new(variant, [from.into(), Bind::Step, out.into()])
    };
    Recipes { step_words: 1, ..Recipes::of(ways(elem).iter().map(recipe)) }
}

/// Copies a window with the first way that its layout allows.
///
/// # Errors
/// More workgroups than a grid can have.
pub(crate) fn plan(cx: &PlanCx<'_>, elem: Elem, out: TensorId, window: &Window) -> Result<Plan, OpError> {
    let empty = Plan { step_words: vec![0], ..Plan::new(out, window.dims, None) };
    if window.dims.count() == 0 {
        return Ok(empty);
    }
    let fitting = ways(elem).iter().enumerate().find_map(|(recipe, way)| Some((recipe, way, window.in_items(way.lanes)?)));
    // One element at a time always fits.
    let Some((recipe, way, axes)) = fitting else { return Ok(empty) };
    let mut params = Params { rank: u32::try_from(axes.len()).unwrap_or(0), step_base: cx.step_base(), ..Params::default() };
    params.count = axes.iter().fold(1, |count, (dim, _)| count * dim);
    for (axis, &(dim, stride)) in axes.iter().enumerate() {
        (params.dims[axis], params.strides[axis]) = (dim, stride);
    }
    let step = Dispatch::items(recipe, &params, params.count.into(), u64::from(way.per_thread) * 256)?;
    Ok(Plan { step_words: vec![window.offset / way.lanes], ..Plan::new(out, window.dims, step) })
}
