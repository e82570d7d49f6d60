//! Operators that rewrite lines by what they fold to, as softmax and norms do. Lines that a workgroup takes whole need one
//! dispatch, of a kernel that folds and writes. Split lines need another before it, which folds their parts.

use super::fold::{Fold, Source};
use super::{Lines, Pass, reduce, worst_parts};
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::plan::{Bind, Dispatch, Recipe, Recipes};

/// The recipes in order: whole lines, then parts and what follows them. Each with single numbers and with four at a time.
const WHOLE: usize = 0;
const PARTS: usize = 2;
const AFTER_PARTS: usize = 4;

/// The kernel that folds and writes, for each source and item: what a kernel's definition lists.
pub(crate) fn variants(kernel: &'static KernelDef, fold: &'static Fold) -> [Variant; 4] {
    let [number, four] = fold.numbers;
    [(Source::Numbers, number), (Source::Fours, four), (Source::Folded, number), (Source::Folded, four)]
        .map(|(source, item)| fold.applied(Variant::new(kernel), source).with_type("T", item))
}

/// Every way to rewrite the lines of `x`, which are `bound` at most. `finish` completes the variants of the kernel that
/// writes; `binds` is what it binds after what it folds.
pub(crate) fn recipes(
    kernel: &'static KernelDef,
    fold: &'static Fold,
    (x, bound): (TensorId, Lines),
    finish: impl Fn(Variant) -> Variant,
    binds: &[Bind],
) -> Recipes {
    let write = |variant: &Variant, source: Bind| {
        Recipe::new(finish(variant.clone()), [source].into_iter().chain(binds.iter().copied()))
    };
    let [number, four, after, after_fours] = variants(kernel, fold);
    let mut recipes = Recipes::of([write(&number, x.into()), write(&four, x.into())]);
    let scratch = worst_parts(bound.numbers(), bound.length.into(), bound.inner) * fold.bytes;
    if scratch > 0 {
        let label = finish(number).label;
        let parts = [Source::Numbers, Source::Fours].into_iter().filter_map(|source| reduce(fold, source, false));
        recipes.list.extend(parts.map(|part| Recipe::new(part.labelled(label), [x.into(), Bind::Scratch(0)])));
        recipes.list.extend([after, after_fours].map(|variant| write(&variant, Bind::Scratch(0))));
        recipes.scratch.push(scratch);
    }
    recipes
}

/// The dispatches for such lines, and the bytes of scratch they touch.
///
/// # Errors
/// More workgroups than a grid can have.
pub(crate) fn steps(pass: &Pass, fold: &Fold, extra: f32) -> Result<(Vec<Dispatch>, Vec<u64>), OpError> {
    let wide = usize::from(pass.wide);
    if !pass.is_split() {
        return Ok((pass.dispatch(WHOLE + wide, extra)?.into_iter().collect(), Vec::new()));
    }
    let steps = [pass.dispatch(PARTS + wide, extra)?, pass.dispatch(AFTER_PARTS + wide, extra)?];
    Ok((steps.into_iter().flatten().collect(), vec![pass.parts() * fold.bytes]))
}
