//! `et_vk.apply_rotary_emb`: interleaved rotary embedding (GPT-J and Meta): adjacent elements form a pair, with one table entry per pair.

use super::{INCLUDES, Inputs, Outputs};
use crate::args::Args;
use crate::error::OpError;
use crate::kernel::reach::{DispatchView, Reached, count};
use crate::kernel::{KernelDef, Variant};
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors, indices};
use crate::shape::Dims;

pub(super) const NAME: &str = "et_vk.apply_rotary_emb.default";

pub(super) static KERNEL: KernelDef =
    KernelDef::new("rotary_interleaved", include_str!("rotary_interleaved.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .proven(reach);

params! {
    /// Of `rotary_interleaved.wgsl`.
    struct Params { pairs: u32, tokens: u32, q_heads: u32, k_heads: u32, q_count: u32, count: u32, pad: [u32; 2] }
}

/// Pairs of the queries and the keys, and a table of all tokens.
fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>()?;
    let (q, k) = (count(params.q_count), count(params.count) - count(params.q_count));
    // A remainder by zero is undefined.
    let table = (params.tokens > 0 && params.pairs > 0).then_some(count(params.tokens) * count(params.pairs))?;
    Some(Reached::new().array(q, 8).array(k, 8).array(table, 4).array(table, 4).array(q, 8).array(k, 8))
}

#[derive(Debug)]
pub(crate) struct Interleaved {
    pub(crate) inputs: Inputs,
    pub(crate) outputs: Outputs,
}

pub(super) fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    Ok(Box::new(Interleaved { inputs: Inputs::take(args)?, outputs: Outputs::take(args)? }))
}

impl Interleaved {
    /// The dims of queries and keys, checked against the tables.
    fn check(&self, cx: &PlanCx<'_>) -> Result<(Dims, Dims), OpError> {
        let (q, k) = self.inputs.dims(cx)?;
        let (tokens, dim) = (q[1], q[3]);
        if dim % 2 != 0 {
            return Err(OpError::new("xq", format!("is {q}: a head dim of {dim} cannot be paired")));
        }
        for (name, table) in self.inputs.tables() {
            let table = cx.dims(table);
            if *table != [tokens, dim / 2] {
                return Err(OpError::new(name, format!("is {table}, expected [{tokens}, {}] to go with `xq` {q}", dim / 2)));
            }
        }
        Ok((q, k))
    }
}

impl Op for Interleaved {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let Inputs { xq, xk, freqs_cos, freqs_sin } = self.inputs;
        let binds = [xq, xk, freqs_cos, freqs_sin, self.outputs.xq, self.outputs.xk];
        Ok(Recipes::of([Recipe::new(Variant::new(&KERNEL), binds.map(Into::into))]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (q, k) = self.check(cx)?;
        let (q_count, k_count) = (q.count_u32() / 2, k.count_u32() / 2);
        let count = q_count + k_count;
        let params = Params { pairs: q[3] / 2, tokens: q[1], q_heads: q[2], k_heads: k[2], q_count, count, pad: [0; 2] };
        let steps = Dispatch::items(0, &params, count.into(), 256)?;
        Ok(Plan { steps: steps.into_iter().collect(), ..self.outputs.plan((q, k)) })
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (q, k) = self.check(cx)?;
        let (cosines, sines) = (tensors.f32(self.inputs.freqs_cos), tensors.f32(self.inputs.freqs_sin));
        let rotated = |x: &[f32], dims: &Dims| -> Vec<f32> {
            let pairs = dims[3] / 2;
            let element = |(flat, index): (usize, Vec<u32>)| {
                let angle = (index[1] * pairs + index[3] / 2) as usize;
                let (cosine, sine) = (cosines[angle], sines[angle]);
                if index[3] % 2 == 0 { x[flat] * cosine - x[flat + 1] * sine } else { x[flat - 1] * sine + x[flat] * cosine }
            };
            indices(dims).enumerate().map(element).collect()
        };
        let xq = rotated(tensors.f32(self.inputs.xq), &q);
        let xk = rotated(tensors.f32(self.inputs.xk), &k);
        tensors.set(self.outputs.xq, q, HostData::F32(xq));
        tensors.set(self.outputs.xk, k, HostData::F32(xk));
        Ok(())
    }
}
