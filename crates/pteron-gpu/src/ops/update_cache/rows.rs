//! Rows written to caches of any batch size and element type, from a position on or by index.

use super::{TOKEN, TokenParams, out_dims};
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::{Scalar, TensorId};
use crate::params;
use crate::plan::{Bind, BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};

// Indices follow from data, so it keeps its bounds checks.
pub(super) static KERNEL: KernelDef =
    KernelDef::new("update_cache_rows", include_str!("update_cache_rows.wgsl"), Params::FIELDS);

params! {
    /// Of `update_cache_rows.wgsl`.
    struct Params { count: u32, row: u32, tokens: u32, length: u32, step_base: u32, pad: [u32; 3] }
}

#[derive(Debug)]
pub(crate) struct UpdateRows {
    pub(super) elem: Elem,
    pub(crate) value: TensorId,
    pub(super) cache: TensorId,
    pub(super) start_pos: Scalar,
    pub(super) indices: Option<TensorId>,
    pub(super) out: TensorId,
}

impl UpdateRows {
    /// The parameters in words, and the first position.
    fn params(&self, cx: &PlanCx<'_>) -> Result<(Params, u32), OpError> {
        let (new, have) = (cx.dims(self.value), cx.dims(self.cache));
        let &[batch, length, heads, dim] = &*have else {
            return Err(OpError::new("cache", format!("is {have}, expected [batch, length, heads, head dim]")));
        };
        let &[_, tokens, ..] = &*new else {
            return Err(OpError::new("value", format!("is {new}, expected four dimensions")));
        };
        if *new != [batch, tokens, heads, dim] {
            let reason = format!("is {new}, expected [{batch}, tokens, {heads}, {dim}] as in the cache");
            return Err(OpError::new("value", reason));
        }
        let lanes = self.elem.lanes();
        let row = heads.saturating_mul(dim);
        if !row.is_multiple_of(lanes) {
            return Err(OpError::new("cache", format!("is {have}, whose rows of {row} bytes are no whole words")));
        }
        let at = cx.scalar(self.start_pos);
        let position = match self.indices {
            Some(indices) => {
                let found = cx.dims(indices);
                if *found != [batch, tokens] {
                    return Err(OpError::new("indices", format!("is {found}, expected [{batch}, {tokens}]")));
                }
                Some(0)
            }
            None => u32::try_from(at).ok().filter(|&at| u64::from(at) + u64::from(tokens) <= length.into()),
        };
        let Some(position) = position else {
            let reason = format!("is {at} with {tokens} new tokens, past the cache's {length}");
            return Err(OpError::new("start_pos", reason));
        };
        let params = Params {
            count: new.count_u32() / lanes,
            row: row / lanes,
            tokens,
            length,
            step_base: cx.step_base(),
            pad: [0; 3],
        };
        Ok((params, position))
    }
}

impl Op for UpdateRows {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let variant = Variant::new(&KERNEL).with("INDEXED", self.indices.is_some().into());
        let indices = self.indices.map_or(Bind::Step, Bind::Tensor);
        let update = Recipe::new(variant, [self.value.into(), Bind::Step, indices, self.cache.into()]);
        let token = Recipe::new(Variant::new(&TOKEN), [self.out.into()]);
        Ok(Recipes { step_words: 1, ..Recipes::of([update, token]) })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (params, position) = self.params(cx)?;
        let update = Dispatch::items(0, &params, params.count.into(), 256)?;
        let token = Dispatch::groups(1, &TokenParams::default(), 1)?;
        let plan = Plan::new(self.out, out_dims(cx, self.out)?, update.into_iter().chain(token));
        Ok(Plan { step_words: vec![position], ..plan })
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (Params { row, tokens, length, .. }, position) = self.params(cx)?;
        let row = (row * self.elem.lanes()) as usize;
        let value = tensors.numbers(self.elem, self.value);
        let mut cache = tensors.numbers(self.elem, self.cache);
        for (token, new) in value.chunks(row.max(1)).enumerate() {
            let (batch, at) = (token / tokens as usize, token % tokens as usize);
            let at = match self.indices {
                Some(indices) => usize::try_from(tensors.i32(indices)[token]).unwrap_or(0).min(length as usize - 1),
                None => position as usize + at,
            };
            cache[(batch * length as usize + at) * row..][..row].copy_from_slice(new);
        }
        tensors.set(self.cache, cx.dims(self.cache), HostData::from_numbers(self.elem, cache));
        let out_elem = if self.elem.lanes() == 1 { self.elem } else { Elem::I8 };
        tensors.set(self.out, out_dims(cx, self.out)?, HostData::from_numbers(out_elem, [0.0]));
        Ok(())
    }
}
