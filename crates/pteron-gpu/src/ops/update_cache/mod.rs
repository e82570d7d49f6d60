//! New rows into a cache in place, and the copy kernel for it, which attention shares.

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::reach::{DispatchView, Reached, count};
use crate::kernel::{KernelDef, Variant};
use crate::live::{Scalar, TensorId};
use crate::ops::OpDef;
use crate::params;
use crate::plan::{Bind, BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

#[cfg(test)]
mod tests;

pub(super) static COPY: KernelDef = KernelDef::new("update_cache", include_str!("update_cache.wgsl"), CopyParams::FIELDS)
    .with_types(&[("T", &["vec4<u32>", "u32"])])
    .proven(reach);
static DONE: KernelDef = KernelDef::new("update_cache_done", include_str!("update_cache_done.wgsl"), DoneParams::FIELDS);

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &["update_cache.default"], internal: &[], kernels: &[&COPY, &DONE], decode };

params! {
    /// Of `update_cache.wgsl`.
    struct CopyParams { count: u32, row: u32, step_base: u32, pad: u32 }
}
params! {
    /// Of `update_cache_done.wgsl`.
    struct DoneParams { unused: u32, pad: [u32; 3] }
}

/// The new rows, and the cache from its first row to the last new one.
fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<CopyParams>()?;
    let bytes = call.type_bytes("T")?;
    let [position] = call.step(params.step_base)?;
    let new = count(params.count);
    let cache = position * count(params.row) + new;
    Some(Reached::new().array(new, bytes).step(params.step_base, 1).array(cache, bytes))
}

const COPY_RECIPE: usize = 0;
const DONE_RECIPE: usize = 1;

/// How many elements of a cache row a thread of the copy kernel moves at once. Rows are as long as the bound says: [`Write`]
/// checks it, so the recipe needs no twin.
fn width(bound: &Dims) -> u32 {
    if row_length(bound).is_multiple_of(4) { 4 } else { 1 }
}

fn row_length(cache: &Dims) -> u32 {
    cache.iter().skip(2).fold(1, |length, &dim| length.saturating_mul(dim))
}

/// A write of new rows into a cache: what a plan and a reference know of it once it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub value: TensorId,
    pub cache: TensorId,
    /// New rows.
    pub rows: u32,
    /// The first row written.
    pub position: u32,
}

/// The names of a write's arguments, for what is refused.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteNames {
    pub value: &'static str,
    pub cache: &'static str,
    pub position: &'static str,
}

impl Write {
    /// Checks `[1, S, H, D]` against a cache `[1, C, H, D]` and the position.
    pub(super) fn check(
        cx: &PlanCx<'_>,
        names: WriteNames,
        (value, cache): (TensorId, TensorId),
        position: Scalar,
    ) -> Result<Self, OpError> {
        let (new, have, bound) = (cx.dims(value), cx.dims(cache), cx.bound(cache));
        let &[1, length, ref row @ ..] = &*have else {
            return Err(OpError::new(names.cache, format!("is {have}, expected [1, length, heads, head dim]")));
        };
        if row.len() != 2 || bound.get(2..) != Some(row) {
            return Err(OpError::new(names.cache, format!("is {have}, but rows are fixed by its bound {bound}")));
        }
        if new.len() != 4 || new[0] != 1 || new[2..] != *row {
            let expected = format!("expected [1, tokens, {}, {}] as in the cache", row[0], row[1]);
            return Err(OpError::new(names.value, format!("is {new}, {expected}")));
        }
        let rows = new[1];
        let at = cx.scalar(position);
        if at < 0 {
            return Err(OpError::new(names.position, format!("is {at}, expected 0 or more")));
        }
        let Some(position) = u32::try_from(at).ok().filter(|&at| u64::from(at) + u64::from(rows) <= length.into()) else {
            let what = format!("is {at} with {rows} new tokens, past the cache's {length}");
            return Err(OpError::new(names.position, what));
        };
        Ok(Self { value, cache, rows, position })
    }

    /// The recipe for writes into a cache; their first step word is the position.
    pub(super) fn recipe(cx: &BoundsCx<'_>, value: TensorId, cache: TensorId, label: &'static str) -> Recipe {
        let ty = if width(&cx.bound(cache)) == 4 { "vec4<u32>" } else { "u32" };
        let variant = Variant::new(&COPY).with_type("T", ty).labelled(label);
        Recipe::new(variant, [value.into(), Bind::Step, cache.into()])
    }

    /// The dispatch of that recipe.
    pub(super) fn step(&self, cx: &PlanCx<'_>, recipe: usize) -> Result<Option<Dispatch>, OpError> {
        let width = width(&cx.bound(self.cache));
        let count = cx.dims(self.value).count_u32() / width;
        let row = row_length(&cx.dims(self.cache)) / width;
        let params = CopyParams { count, row, step_base: cx.step_base(), pad: 0 };
        Dispatch::items(recipe, &params, count.into(), 256)
    }

    /// The write on host tensors.
    pub(super) fn reference<E: Copy>(&self, cx: &PlanCx<'_>, value: &[E], cache: &[E]) -> Vec<E> {
        let start = self.position as usize * row_length(&cx.dims(self.cache)) as usize;
        let mut after = cache.to_vec();
        after[start..start + value.len()].copy_from_slice(value);
        after
    }
}

#[derive(Debug)]
struct UpdateCache {
    elem: Elem,
    value: TensorId,
    cache: TensorId,
    start_pos: Scalar,
    out: TensorId,
}

const NAMES: WriteNames = WriteNames { value: "value", cache: "cache", position: "start_pos" };

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let value = args.tensor_of("value", &[Elem::F32, Elem::I32])?;
    let elem = args.info(value).elem;
    let cache = args.mutated("cache")?;
    let found = args.info(cache).elem;
    if found != elem {
        return Err(OpError::new("cache", format!("has elements {found:?}, but `value` has {elem:?}")));
    }
    if cache == value {
        return Err(OpError::new("cache", "is the same tensor as `value`"));
    }
    let start_pos = args.scalar("start_pos")?;
    let out = args.output("out")?;
    let found = args.info(out).elem;
    if found != elem {
        return Err(OpError::new("out", format!("has elements {found:?}, but `value` has {elem:?}")));
    }
    Ok(Box::new(UpdateCache { elem, value, cache, start_pos, out }))
}

impl UpdateCache {
    fn write(&self, cx: &PlanCx<'_>) -> Result<Write, OpError> {
        Write::check(cx, NAMES, (self.value, self.cache), self.start_pos)
    }

    /// The answer is a single number that only says that the operator ran.
    fn out_dims(&self, cx: &PlanCx<'_>) -> Result<Dims, OpError> {
        let bound = cx.bound(self.out);
        if bound.count() == 1 { Ok(bound) } else { Err(OpError::new("out", format!("is {bound}, expected [1]"))) }
    }
}

impl Op for UpdateCache {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let copy = Write::recipe(cx, self.value, self.cache, COPY.name);
        let done = Recipe::new(Variant::new(&DONE), [self.out.into()]);
        Ok(Recipes { list: vec![copy, done], step_words: 1, ..Recipes::default() })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let write = self.write(cx)?;
        let copy = write.step(cx, COPY_RECIPE)?;
        let done = Dispatch::groups(DONE_RECIPE, &DoneParams::default(), 1)?;
        let mut plan = Plan::new(self.out, self.out_dims(cx)?, copy.into_iter().chain(done));
        plan.step_words = vec![write.position];
        Ok(plan)
    }

    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let write = self.write(cx)?;
        let (cache, out) = if self.elem == Elem::F32 {
            let cache = write.reference(cx, tensors.f32(self.value), tensors.f32(self.cache));
            (HostData::F32(cache), HostData::F32(vec![0.0]))
        } else {
            let cache = write.reference(cx, tensors.i32(self.value), tensors.i32(self.cache));
            (HostData::I32(cache), HostData::I32(vec![0]))
        };
        tensors.set(self.cache, cx.dims(self.cache), cache);
        tensors.set(self.out, self.out_dims(cx)?, out);
        Ok(())
    }
}
