//! `update_cache`: appends new rows to a cache in place, or writes them by index.

mod rows;

pub(crate) use rows::UpdateRows;

use crate::append_rows::{self, AppendRows, ArgNames};
use crate::args::{Args, IndexInput};
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::{Scalar, TensorId};
use crate::ops::OpDef;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

#[cfg(test)]
mod tests;

static TOKEN: KernelDef = KernelDef::new("update_cache_token", include_str!("update_cache_token.wgsl"), TokenParams::FIELDS);

/// The registry entry.
pub static DEF: OpDef = OpDef {
    names: &["update_cache.default", "llama.update_cache.default", WITH_INDICES],
    internal: &[],
    kernels: &[&append_rows::KERNEL, &TOKEN, &rows::KERNEL],
    decode,
};

const WITH_INDICES: &str = "llama.update_cache_with_indices.default";

params! {
    /// Of `update_cache_token.wgsl`.
    struct TokenParams { unused: u32, pad: [u32; 3] }
}

const APPEND_RECIPE: usize = 0;
const TOKEN_RECIPE: usize = 1;

#[derive(Debug)]
pub(crate) struct UpdateCache {
    #[cfg_attr(not(any(test, feature = "reference")), expect(dead_code, reason = "only references read it"))]
    elem: Elem,
    pub(crate) value: TensorId,
    cache: TensorId,
    pub(crate) start_pos: Scalar,
    pub(crate) out: TensorId,
}

const NAMES: ArgNames = ArgNames { value: "value", cache: "cache", position: "start_pos" };

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let by_index = args.operator() == WITH_INDICES;
    let value = args.tensor_of("value", &[Elem::F32, Elem::I32, Elem::I8, Elem::U8])?;
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
    let indices = if by_index { Some(args.tensor("indices")?) } else { None };
    if let Some(indices) = indices {
        args.check_indices("indices", IndexInput { indices, of: cache, axis: 1, from_end: false })?;
    }
    let out = args.output("out")?;
    let words = matches!(elem, Elem::F32 | Elem::I32);
    if by_index || !words || args.info(cache).bound.first() != Some(&1) {
        return Ok(Box::new(rows::UpdateRows { elem, value, cache, start_pos, indices, out }));
    }
    Ok(Box::new(UpdateCache { elem, value, cache, start_pos, out }))
}

/// The output is one element without meaning: exporters use it to order the calls that read the cache.
fn out_dims(cx: &PlanCx<'_>, out: TensorId) -> Result<Dims, OpError> {
    let bound = cx.bound(out);
    if bound.count() == 1 { Ok(bound) } else { Err(OpError::new("out", format!("is {bound}, expected [1]"))) }
}

impl UpdateCache {
    fn append(&self, cx: &PlanCx<'_>) -> Result<AppendRows, OpError> {
        AppendRows::check(cx, NAMES, (self.value, self.cache), self.start_pos)
    }
}

impl Op for UpdateCache {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let append = AppendRows::recipe(cx, self.value, self.cache, append_rows::KERNEL.name);
        let token = Recipe::new(Variant::new(&TOKEN), [self.out.into()]);
        Ok(Recipes { list: vec![append, token], step_words: 1, ..Recipes::default() })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let append = self.append(cx)?;
        let copy = append.dispatch(cx, APPEND_RECIPE)?;
        let token = Dispatch::groups(TOKEN_RECIPE, &TokenParams::default(), 1)?;
        let mut plan = Plan::new(self.out, out_dims(cx, self.out)?, copy.into_iter().chain(token));
        plan.step_words = vec![append.position];
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let append = self.append(cx)?;
        let (cache, out) = if self.elem == Elem::F32 {
            let cache = append.reference(cx, tensors.f32(self.value), tensors.f32(self.cache));
            (HostData::F32(cache), HostData::F32(vec![0.0]))
        } else {
            let cache = append.reference(cx, tensors.i32(self.value), tensors.i32(self.cache));
            (HostData::I32(cache), HostData::I32(vec![0]))
        };
        tensors.set(self.cache, cx.dims(self.cache), cache);
        tensors.set(self.out, out_dims(cx, self.out)?, out);
        Ok(())
    }
}
