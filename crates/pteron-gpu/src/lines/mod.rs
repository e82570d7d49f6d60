//! What operators share that fold lines of numbers: reductions, softmax, norms. A tensor is `[outer, length, inner]` to them,
//! and its lines go along `length`. The kernels' other half is `include/lines.wgsl`.

pub(crate) mod fold;
pub(crate) mod rewrite;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::params;
use crate::plan::Dispatch;
use crate::shape::Dims;
use fold::{FOLDS, Fold, Source};

/// Folds lines, or parts of lines, and keeps what they give.
pub(crate) static REDUCE: KernelDef =
    KernelDef::new("reduce", include_str!("reduce.wgsl"), Params::FIELDS).with_types(TYPES).with_variants(variants);

/// The types that kernels over lines leave open: a folded value, an item that is read, a number of the tensor, an item of the
/// output.
pub(crate) const TYPES: &[(&str, &[&str])] = &[
    ("A", &["f32", "i32", "u32", "vec2<u32>", "vec2<f32>", "vec3<f32>"]),
    ("S", &["f32", "i32", "u32", "vec4<f32>", "vec4<i32>", "vec4<u32>", "vec2<u32>", "vec2<f32>", "vec3<f32>"]),
    ("E", &["f32", "i32", "u32"]),
    ("O", &["f32", "i32", "u32", "vec2<u32>", "vec2<f32>", "vec3<f32>"]),
    ("T", &["f32", "vec4<f32>"]),
];

params! {
    /// Of `include/lines.wgsl`.
    pub(crate) struct Params {
        parts: u32, length: u32, inner: u32, splits: u32, chunk: u32, slices: u32, slice_stride: u32, extra: f32,
    }
}

/// Threads of a workgroup.
const THREADS: u32 = 256;

/// Neighbouring lines that are read together where lines are not rows: 128 bytes.
const NEIGHBOURS: u32 = 32;

/// Items a thread should have at least; with fewer, fewer threads share a line.
const ITEMS: u32 = 8;

/// Workgroups that fill a large GPU. With fewer more threads share a line, and long lines are split.
const FULL_GRID: u64 = 2048;

/// More parts than this no pass makes by splitting: it stops at a full grid, of which a workgroup has at most so many lines.
const MAX_PARTS: u64 = 2 * FULL_GRID * NEIGHBOURS as u64;

fn variants() -> Vec<Variant> {
    let each = |fold: &'static Fold| Source::ALL.map(|source| [false, true].map(|last| reduce(fold, source, last)));
    FOLDS.iter().flat_map(|fold| each(fold).into_iter().flatten().flatten()).collect()
}

/// The kernel that folds; `last` if it gives the answer. `None` for what gives no answer.
pub(crate) fn reduce(fold: &'static Fold, source: Source, last: bool) -> Option<Variant> {
    let (ty, answer) = if last { fold.answer? } else { (fold.value, "a") };
    let variant = fold.applied(Variant::new(&REDUCE), source);
    Some(variant.with_type("O", ty).with_function("fn answer(a: A) -> O", answer))
}

/// A tensor as its lines lie in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) outer: u32,
    pub(crate) length: u32,
    pub(crate) inner: u32,
}

impl Lines {
    /// The lines along some dimensions that follow each other.
    pub(crate) fn along(dims: &Dims, axes: Range<usize>) -> Self {
        let product = |dims: &[u32]| Dims::new(dims).map_or(0, |dims| dims.count_u32());
        let axes = axes.start.min(dims.len())..axes.end.min(dims.len());
        let (outer, inner) = (product(&dims[..axes.start]), product(&dims[axes.end..]));
        Self { outer, length: product(&dims[axes]), inner }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        u64::from(self.outer) * u64::from(self.inner)
    }

    /// How many numbers they have together.
    pub(crate) fn numbers(&self) -> u64 {
        self.count() * u64::from(self.length)
    }
}

/// How one dispatch shares lines among threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    /// The lines, in items.
    lines: Lines,
    /// Whether an item is four numbers.
    pub(crate) wide: bool,
    /// Parts that each line is split into, and the items in each.
    splits: u32,
    chunk: u32,
    /// Threads that share a part.
    slices: u32,
}

impl Pass {
    /// A pass over lines of a tensor of numbers, read four at a time where lines are rows of fours.
    pub(crate) fn over_numbers(lines: Lines) -> Self {
        let wide = lines.inner == 1 && lines.length.is_multiple_of(4);
        Self::share(Lines { length: if wide { lines.length / 4 } else { lines.length }, ..lines }, wide)
    }

    /// A pass over lines of what was folded before.
    pub(crate) fn over_folded(lines: Lines) -> Self {
        Self::share(lines, false)
    }

    fn share(lines: Lines, wide: bool) -> Self {
        let Lines { length, inner, .. } = lines;
        let most = most_slices(lines.numbers(), inner);
        let groups = |slices: u32| lines.count().div_ceil((THREADS / slices).into()).max(1);
        let mut slices = length.div_ceil(ITEMS).next_power_of_two().min(most);
        while slices < most && length > 4 * slices && groups(slices) < FULL_GRID {
            slices *= 2;
        }
        let groups = groups(slices);
        let splits = if groups < FULL_GRID && length >= 4 * ITEMS * slices {
            let fill = u32::try_from(FULL_GRID.div_ceil(groups)).unwrap_or(u32::MAX);
            fill.min(length / (ITEMS * slices))
        } else {
            1
        };
        let chunk = length.div_ceil(splits).max(1);
        Self { lines, wide, splits: length.div_ceil(chunk).max(1), chunk, slices }
    }

    /// Whether lines are folded in parts, which another pass must fold.
    pub(crate) fn is_split(&self) -> bool {
        self.splits > 1
    }

    /// The values that the pass gives, each of a line or of a part.
    pub(crate) fn parts(&self) -> u64 {
        self.lines.count() * u64::from(self.splits)
    }

    /// What is left to fold after a split pass.
    pub(crate) fn rest(&self) -> Lines {
        Lines { length: self.splits, ..self.lines }
    }

    pub(crate) fn dispatch(&self, recipe: usize, extra: f32) -> Result<Option<Dispatch>, OpError> {
        let lanes = THREADS / self.slices;
        let params = Params {
            parts: u32::try_from(self.parts()).unwrap_or(u32::MAX),
            length: self.lines.length,
            inner: self.lines.inner,
            splits: self.splits,
            chunk: self.chunk,
            slices: self.slices,
            slice_stride: if self.lines.inner == 1 { 1 } else { lanes },
            extra,
        };
        Dispatch::items(recipe, &params, self.parts(), lanes.into())
    }
}

/// The most parts that splitting lines can give, whatever the shape: for tensors of at most so many numbers, in lines of at
/// most `longest`, with an `inner` of at most this.
pub(crate) fn worst_parts(numbers: u64, longest: u64, inner: u32) -> u64 {
    // Only where as many threads share a part as may is a line split, and then each has `ITEMS` at least.
    let items = u64::from(ITEMS * most_slices(numbers, inner));
    if longest < 4 * items { 0 } else { (numbers / items).min(MAX_PARTS) }
}

/// How many threads may share a line. Fewer where neighbouring lines are to be read together; but where there is little to
/// read, threads count more.
fn most_slices(numbers: u64, inner: u32) -> u32 {
    THREADS / if numbers <= MAX_PARTS { 1 } else { inner.clamp(1, NEIGHBOURS).next_power_of_two() }
}
