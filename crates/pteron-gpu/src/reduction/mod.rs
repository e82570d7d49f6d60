//! Shared code of operators that reduce rows: reductions, softmax, norms. They see a tensor as `[outer, length, inner]` and
//! reduce along `length`; a row is the `length` elements at one outer and one inner index. The kernels include
//! `reduction.wgsl`.

pub(crate) mod normalise;
pub(crate) mod reducer;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::error::OpError;
use crate::kernel::reach::{DispatchView, Reached, count};
use crate::kernel::{Include, KernelDef, Variant};
use crate::plan::Dispatch;
use crate::shape::Dims;
use crate::{includes, params};
use reducer::{REDUCERS, Reducer, Source};

/// WGSL for kernels that reduce rows.
pub(crate) const INCLUDES: &[Include] = includes!["reducers", "reduction"];

/// Reduces rows, or segments of rows, and stores the results.
pub(crate) static REDUCE: KernelDef = KernelDef::new("reduce", include_str!("reduce.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .with_types(TYPES)
    .with_variants(variants);

/// Packs results of four segments into a word of bytes.
pub(crate) static PACK_BYTES: KernelDef =
    KernelDef::new("pack_bytes", include_str!("pack_bytes.wgsl"), PackParams::FIELDS).proven(pack_reach);

params! {
    /// Of `pack_bytes.wgsl`.
    struct PackParams { count: u32, pad: [u32; 3] }
}

fn pack_reach(call: &DispatchView<'_>) -> Option<Reached> {
    let results = count(call.params::<PackParams>()?.count);
    Some(Reached::new().array(results, 4).array(results.div_ceil(4), 4))
}

/// Dispatches the packing of `results` words into bytes.
///
/// # Errors
/// More results than kernels index.
pub(crate) fn pack_bytes(recipe: usize, results: &Dims) -> Result<Option<Dispatch>, OpError> {
    Dispatch::items(recipe, &PackParams { count: results.count_u32(), pad: [0; 3] }, results.count().div_ceil(4), 256)
}

/// The types that reduction kernels leave open: the accumulator, a word of the source, a load, an element of the tensor, an output, and a load of the tensor
/// that is normalised.
pub(crate) const TYPES: &[(&str, &[&str])] = &[
    ("A", &["f32", "i32", "u32", "vec2<u32>", "vec2<f32>", "vec3<f32>"]),
    ("B", &["f32", "i32", "u32", "vec4<f32>", "vec4<i32>", "vec4<u32>", "vec2<u32>", "vec2<f32>", "vec3<f32>"]),
    ("S", &["f32", "i32", "u32", "vec4<f32>", "vec4<i32>", "vec4<u32>", "vec2<u32>", "vec2<f32>", "vec3<f32>"]),
    ("E", &["f32", "i32", "u32"]),
    ("O", &["f32", "i32", "u32", "vec2<u32>", "vec2<f32>", "vec3<f32>"]),
    ("T", &["f32", "vec4<f32>"]),
];

params! {
    /// Parameters of `reduction.wgsl`.
    pub(crate) struct Params {
        segments: u32, length: u32, inner: u32, splits: u32, chunk: u32, threads_per_segment: u32, thread_stride: u32, extra: f32,
    }
}

/// Threads of a workgroup.
const THREADS: u32 = 256;

/// Adjacent rows that are loaded at once where rows are strided: 128 bytes.
const COALESCED_ROWS: u32 = 32;

/// Loads that a thread should have at least; shorter rows are shared by fewer threads.
const MIN_LOADS: u32 = 8;

/// Workgroups that occupy a large GPU. With fewer, more threads share a row, and long rows are split.
const FULL_GRID: u32 = 2048;

/// The most segments that splitting produces: it stops at a full grid, and a workgroup has at most `COALESCED_ROWS` strided rows.
const MAX_PARTIALS: u64 = 2 * FULL_GRID as u64 * COALESCED_ROWS as u64;

fn variants() -> Vec<Variant> {
    let sources = |reducer: &Reducer| {
        // Bits of floats are not converted.
        let converts = reducer.elements[0] != "u32" && reducer.result.is_some();
        Source::ALL.into_iter().filter(move |source| converts || !source.converts())
    };
    let each = |reducer: &'static Reducer| {
        sources(reducer).flat_map(move |source| [false, true].map(move |last| reduce(reducer, source, last))).flatten()
    };
    REDUCERS.iter().flat_map(|reducer| each(reducer)).collect()
}

/// The variant of the reduce kernel; the `last` pass stores the final result. `None` if the reducer has none.
pub(crate) fn reduce(reducer: &'static Reducer, source: Source, last: bool) -> Option<Variant> {
    let (ty, result) = if last { reducer.result? } else { (reducer.accumulator, "a") };
    let variant = reducer.applied(Variant::new(&REDUCE), source);
    Some(variant.with_type("O", ty).with_function("fn finalize(a: A) -> O", result))
}

/// A tensor as rows along its reduced dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowShape {
    pub(crate) outer: u32,
    pub(crate) length: u32,
    pub(crate) inner: u32,
}

impl RowShape {
    /// The rows along consecutive dimensions.
    pub(crate) fn along(dims: &Dims, axes: Range<usize>) -> Self {
        let product = |dims: &[u32]| Dims::new(dims).map_or(0, |dims| dims.count_u32());
        let axes = axes.start.min(dims.len())..axes.end.min(dims.len());
        let (outer, inner) = (product(&dims[..axes.start]), product(&dims[axes.end..]));
        Self { outer, length: product(&dims[axes]), inner }
    }

    /// The number of rows.
    pub(crate) fn count(&self) -> u64 {
        u64::from(self.outer) * u64::from(self.inner)
    }

    /// The number of elements in all rows.
    pub(crate) fn elements(&self) -> u64 {
        self.count() * u64::from(self.length)
    }
}

/// How one dispatch splits rows into segments and shares them among threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReducePass {
    /// The rows, counted in loads.
    shape: RowShape,
    /// Whether a load is a vector of four elements.
    pub(crate) vec4: bool,
    /// Segments per row, and the loads in each.
    splits: u32,
    chunk: u32,
    /// Threads that share a segment.
    threads_per_segment: u32,
}

impl ReducePass {
    /// A pass over the elements of a tensor, loaded as vectors where rows are contiguous multiples of four.
    pub(crate) fn over_elements(shape: RowShape) -> Self {
        let vec4 = shape.inner == 1 && shape.length.is_multiple_of(4);
        Self::share(RowShape { length: if vec4 { shape.length / 4 } else { shape.length }, ..shape }, vec4)
    }

    /// A pass over elements that are converted one by one.
    pub(crate) fn over_converted(shape: RowShape) -> Self {
        Self::share(shape, false)
    }

    /// A pass over partial results of an earlier one.
    pub(crate) fn over_partials(shape: RowShape) -> Self {
        Self::share(shape, false)
    }

    fn share(shape: RowShape, vec4: bool) -> Self {
        let RowShape { length, inner, .. } = shape;
        let most = max_threads_per_segment(shape.elements(), inner);
        // Saturated: only whether a full grid is reached matters.
        let groups = |threads_per_segment: u32| {
            let groups = shape.count().div_ceil((THREADS / threads_per_segment).into());
            u32::try_from(groups).map_or(FULL_GRID, |groups| groups.clamp(1, FULL_GRID))
        };
        let mut threads_per_segment = length.div_ceil(MIN_LOADS).next_power_of_two().min(most);
        while threads_per_segment < most && length > 4 * threads_per_segment && groups(threads_per_segment) < FULL_GRID {
            threads_per_segment *= 2;
        }
        let groups = groups(threads_per_segment);
        let splits = if groups < FULL_GRID && length >= 4 * MIN_LOADS * threads_per_segment {
            let fill = FULL_GRID.div_ceil(groups);
            (length / (MIN_LOADS * threads_per_segment)).min(fill)
        } else {
            1
        };
        let chunk = length.div_ceil(splits).max(1);
        Self { shape, vec4, splits: length.div_ceil(chunk).max(1), chunk, threads_per_segment }
    }

    /// Whether rows are split into segments, whose partial results another pass reduces.
    pub(crate) fn is_split(&self) -> bool {
        self.splits > 1
    }

    /// The number of results: one per segment.
    pub(crate) fn segments(&self) -> u64 {
        self.shape.count() * u64::from(self.splits)
    }

    /// The rows of partial results after a split pass.
    pub(crate) fn partials_shape(&self) -> RowShape {
        RowShape { length: self.splits, ..self.shape }
    }

    /// # Errors
    /// More segments or workgroups than kernels index.
    pub(crate) fn dispatch(&self, recipe: usize, extra: f32) -> Result<Option<Dispatch>, OpError> {
        let segments_per_group = THREADS / self.threads_per_segment;
        let Ok(segments) = u32::try_from(self.segments()) else {
            return Err(OpError::new("self", format!("needs {} results, more than kernels index", self.segments())));
        };
        let params = Params {
            segments,
            length: self.shape.length,
            inner: self.shape.inner,
            splits: self.splits,
            chunk: self.chunk,
            threads_per_segment: self.threads_per_segment,
            thread_stride: if self.shape.inner == 1 { 1 } else { segments_per_group },
            extra,
        };
        Dispatch::items(recipe, &params, self.segments(), segments_per_group.into())
    }
}

/// The most segments that splitting can produce at any live shape, for tensors of at most `elements` elements in rows of at most
/// `longest`, with an `inner` of at most this.
pub(crate) fn max_partials(elements: u64, longest: u64, inner: u32) -> u64 {
    // A row is split only where the most threads share it, and each then has at least `MIN_LOADS`.
    let loads = u64::from(MIN_LOADS * max_threads_per_segment(elements, inner));
    if longest < 4 * loads { 0 } else { (elements / loads).min(MAX_PARTIALS) }
}

/// The most threads that may share a row: fewer where adjacent strided rows are loaded at once, unless there is so little to
/// load that parallelism matters more.
fn max_threads_per_segment(elements: u64, inner: u32) -> u32 {
    THREADS / if elements <= MAX_PARTIALS { 1 } else { inner.clamp(1, COALESCED_ROWS).next_power_of_two() }
}
