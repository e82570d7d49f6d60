//! Rotary position embedding of queries and keys: neighbouring elements are a pair that turns by its token's angle.

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::OpDef;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
use crate::reference::{HostData, HostTensors, indices};
use crate::shape::Dims;

#[cfg(test)]
mod tests;

static KERNEL: KernelDef = KernelDef::new("rotary", include_str!("rotary.wgsl"), Params::FIELDS);

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &["et_vk.apply_rotary_emb.default"], kernels: &[&KERNEL], decode };

params! {
    /// Of `rotary.wgsl`.
    struct Params { pairs: u32, tokens: u32, q_heads: u32, k_heads: u32, q_count: u32, count: u32, pad: [u32; 2] }
}

#[derive(Debug)]
struct Rotary {
    xq: TensorId,
    xk: TensorId,
    freqs_cos: TensorId,
    freqs_sin: TensorId,
    xq_out: TensorId,
    xk_out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let xq = args.tensor_of("xq", &[Elem::F32])?;
    let xk = args.tensor_of("xk", &[Elem::F32])?;
    let freqs_cos = args.tensor_of("freqs_cos", &[Elem::F32])?;
    let freqs_sin = args.tensor_of("freqs_sin", &[Elem::F32])?;
    let outputs = args.outputs("out", 2)?;
    let &[xq_out, xk_out] = outputs.as_slice() else {
        return Err(OpError::new("out", "is not a pair of tensors"));
    };
    for out in [xq_out, xk_out] {
        let elem = args.info(out).elem;
        if elem != Elem::F32 {
            return Err(OpError::new("out", format!("has elements {elem:?}, expected {:?}", Elem::F32)));
        }
    }
    Ok(Box::new(Rotary { xq, xk, freqs_cos, freqs_sin, xq_out, xk_out }))
}

/// The dims of queries and keys, which the tables go with.
struct Checked {
    q: Dims,
    k: Dims,
}

impl Rotary {
    fn check(&self, cx: &PlanCx<'_>) -> Result<Checked, OpError> {
        let (q, k) = (cx.dims(self.xq), cx.dims(self.xk));
        let &[batch, tokens, _, dim] = &*q else {
            return Err(OpError::new("xq", format!("is {q}, expected [batch, tokens, heads, head dim]")));
        };
        if dim % 2 != 0 {
            return Err(OpError::new("xq", format!("is {q}: a head dim of {dim} cannot be paired")));
        }
        if k.len() != 4 || (k[0], k[1], k[3]) != (batch, tokens, dim) {
            return Err(OpError::new("xk", format!("is {k}, expected [{batch}, {tokens}, heads, {dim}] to go with `xq`")));
        }
        for (name, table) in [("freqs_cos", self.freqs_cos), ("freqs_sin", self.freqs_sin)] {
            let table = cx.dims(table);
            if *table != [tokens, dim / 2] {
                return Err(OpError::new(name, format!("is {table}, expected [{tokens}, {}] to go with `xq` {q}", dim / 2)));
            }
        }
        Ok(Checked { q, k })
    }
}

impl Op for Rotary {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let binds = [self.xq, self.xk, self.freqs_cos, self.freqs_sin, self.xq_out, self.xk_out];
        Ok(Recipes::of([Recipe::new(Variant::new(&KERNEL), binds.map(Into::into))]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let Checked { q, k } = self.check(cx)?;
        let (q_count, k_count) = (q.count_u32() / 2, k.count_u32() / 2);
        let count = q_count + k_count;
        let params = Params { pairs: q[3] / 2, tokens: q[1], q_heads: q[2], k_heads: k[2], q_count, count, pad: [0; 2] };
        let mut plan = Plan::new(self.xq_out, q, Dispatch::items(0, &params, count.into(), 256)?);
        plan.outputs.push((self.xk_out, k));
        Ok(plan)
    }

    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let Checked { q, k } = self.check(cx)?;
        let (cosines, sines) = (tensors.f32(self.freqs_cos), tensors.f32(self.freqs_sin));
        let rotated = |x: &[f32], dims: &Dims| -> Vec<f32> {
            let pairs = dims[3] / 2;
            let element = |(flat, index): (usize, Vec<u32>)| {
                let angle = (index[1] * pairs + index[3] / 2) as usize;
                let (cosine, sine) = (cosines[angle], sines[angle]);
                if index[3] % 2 == 0 { x[flat] * cosine - x[flat + 1] * sine } else { x[flat - 1] * sine + x[flat] * cosine }
            };
            indices(dims).enumerate().map(element).collect()
        };
        let xq = rotated(tensors.f32(self.xq), &q);
        let xk = rotated(tensors.f32(self.xk), &k);
        tensors.set(self.xq_out, q, HostData::F32(xq));
        tensors.set(self.xk_out, k, HostData::F32(xk));
        Ok(())
    }
}
