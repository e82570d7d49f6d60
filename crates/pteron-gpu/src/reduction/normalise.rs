//! Operators that normalise each row by statistics of it: softmax and norms. Rows that a workgroup takes whole need one dispatch of a
//! kernel that reduces and stores. Split rows need the reduce kernel first, for the statistics of their segments.

use super::reducer::{Reducer, Source};
use super::{ReducePass, RowShape, max_partials, reduce};
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::plan::{Bind, Dispatch, Recipe, Recipes};

/// The recipes in order: whole rows, segments of split rows, and split rows after their segments. Each for loads of elements, then of
/// vectors.
const WHOLE_ROWS: usize = 0;
const SEGMENTS: usize = 2;
const SPLIT_ROWS: usize = 4;

/// Every variant of a normalising kernel, for its definition.
pub(crate) fn variants(kernel: &'static KernelDef, reducer: &'static Reducer) -> [Variant; 4] {
    let [element, vec4] = reducer.elements;
    [(Source::Elements, element), (Source::Vec4, vec4), (Source::Partials, element), (Source::Partials, vec4)]
        .map(|(source, load)| reducer.applied(Variant::new(kernel), source).with_type("T", load))
}

/// The recipes that normalise the rows of `x`, which are at most `bound`. `finish` completes the variants of the normalising kernel;
/// `binds` are its bindings after the source of the reduction.
pub(crate) fn recipes(
    kernel: &'static KernelDef,
    reducer: &'static Reducer,
    (x, bound): (TensorId, RowShape),
    finish: impl Fn(Variant) -> Variant,
    binds: &[Bind],
) -> Recipes {
    let normalise = |variant: &Variant, source: Bind| {
        Recipe::new(finish(variant.clone()), [source].into_iter().chain(binds.iter().copied()))
    };
    let [element, vec4, split, split_vec4] = variants(kernel, reducer);
    let mut recipes = Recipes::of([normalise(&element, x.into()), normalise(&vec4, x.into())]);
    let scratch = max_partials(bound.elements(), bound.length.into(), bound.inner) * reducer.bytes;
    if scratch > 0 {
        let label = finish(element).label;
        let segments = [Source::Elements, Source::Vec4].into_iter().filter_map(|source| reduce(reducer, source, false));
        recipes.list.extend(segments.map(|variant| Recipe::new(variant.labelled(label), [x.into(), Bind::Scratch(0)])));
        recipes.list.extend([split, split_vec4].map(|variant| normalise(&variant, Bind::Scratch(0))));
        recipes.scratch.push(scratch);
    }
    recipes
}

/// The dispatches of a pass, and the bytes of scratch they use.
///
/// # Errors
/// More workgroups than a grid can have.
pub(crate) fn steps(pass: &ReducePass, reducer: &Reducer, extra: f32) -> Result<(Vec<Dispatch>, Vec<u64>), OpError> {
    let vec4 = usize::from(pass.vec4);
    if !pass.is_split() {
        return Ok((pass.dispatch(WHOLE_ROWS + vec4, extra)?.into_iter().collect(), Vec::new()));
    }
    let steps = [pass.dispatch(SEGMENTS + vec4, extra)?, pass.dispatch(SPLIT_ROWS + vec4, extra)?];
    Ok((steps.into_iter().flatten().collect(), vec![pass.segments() * reducer.bytes]))
}
