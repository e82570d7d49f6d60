//! `et_vk.apply_rotary_emb_hf`: split-half rotary embedding (NeoX and Hugging Face): element i of the first half pairs with element i of the
//! second. The tables have one entry per element, for all positions; the call's tokens start at a row that may be symbolic. Where
//! tables are narrower than heads, only as many elements of a head are rotated.

use super::{Inputs, Outputs};
use crate::args::Args;
use crate::error::OpError;
use crate::kernel::reach::{Counts, DispatchView, Reached, count};
use crate::kernel::{KernelDef, Variant};
use crate::live::Scalar;
use crate::params;
use crate::plan::{Bind, BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors, indices};
use crate::shape::Dims;

pub(super) const NAME: &str = "et_vk.apply_rotary_emb_hf.default";

pub(super) static KERNEL: KernelDef =
    KernelDef::new("rotary_split_half", include_str!("rotary_split_half.wgsl"), Params::FIELDS)
        .with_types(&[("T", &["vec4<f32>", "f32"])])
        .proven(reach);

params! {
    /// Of `rotary_split_half.wgsl`.
    struct Params {
        width: u32, half: u32, tokens: u32, q_heads: u32, k_heads: u32, q_count: u32, count: u32, step_base: u32,
    }
}

/// Whole heads of the queries and the keys, and the tables up to the last token's row.
fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>()?;
    let item = call.type_bytes("T")?;
    let [position] = call.step(params.step_base)?;
    let items = params.width.checked_sub(params.half).filter(|&items| items > 0 && params.tokens > 0)?;
    let heads = |of: Counts| of.div_ceil(items) * count(params.width);
    let (q, k) = (heads(count(params.q_count)), heads(count(params.count) - count(params.q_count)));
    let table = (position + count(params.tokens)) * count(2) * count(params.half);
    let read = Reached::new().array(q, item).array(k, item).array(table, item).array(table, item);
    Some(read.step(params.step_base, 1).array(q, item).array(k, item))
}

/// The recipes: the type of an item, and the elements per item.
const ITEMS: [(&str, u32); 2] = [("vec4<f32>", 4), ("f32", 1)];

#[derive(Debug)]
pub(super) struct SplitHalf {
    pub(super) inputs: Inputs,
    start: Scalar,
    pub(super) outputs: Outputs,
}

pub(super) fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let inputs = Inputs::take(args)?;
    let start = args.scalar("start_pos")?;
    Ok(Box::new(SplitHalf { inputs, start, outputs: Outputs::take(args)? }))
}

/// Consistent dims, and the first row of the tables.
struct Checked {
    q: Dims,
    k: Dims,
    /// Elements of a head that are rotated.
    turning: u32,
    start: u32,
}

impl SplitHalf {
    /// Its tensors, if the first token of the call takes the first row of the tables.
    pub(super) fn of_tokens(&self) -> Option<(&Inputs, &Outputs)> {
        (self.start == Scalar::Fixed(0)).then_some((&self.inputs, &self.outputs))
    }

    fn check(&self, cx: &PlanCx<'_>) -> Result<Checked, OpError> {
        let (q, k) = self.inputs.dims(cx)?;
        let (tokens, dim) = (q[1], q[3]);
        let start = cx.scalar(self.start);
        let start = u32::try_from(start)
            .map_err(|_| OpError::new("start_pos", format!("is {start}, expected the row of a table")))?;
        let turning = cx.dims(self.inputs.freqs_cos).last();
        for (name, table) in self.inputs.tables() {
            let table = cx.dims(table);
            if table.len() != 2 || table[1] != turning || turning > dim || !turning.is_multiple_of(2) {
                let what =
                    format!("is {table}, expected [positions, an even number up to `xq`'s {dim}], as the other table");
                return Err(OpError::new(name, what));
            }
            if u64::from(start) + u64::from(tokens) > table[0].into() {
                let what = format!("is {start} with {tokens} tokens, past the {} rows of `{name}`", table[0]);
                return Err(OpError::new("start_pos", what));
            }
        }
        Ok(Checked { q, k, turning, start })
    }
}

impl Op for SplitHalf {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let Inputs { xq, xk, freqs_cos, freqs_sin } = self.inputs;
        let [xq, xk, cos, sin, xq_out, xk_out] =
            [xq, xk, freqs_cos, freqs_sin, self.outputs.xq, self.outputs.xk].map(Bind::from);
        let recipe = |(item, _)| {
            Recipe::new(Variant::new(&KERNEL).with_type("T", item), [xq, xk, cos, sin, Bind::Step, xq_out, xk_out])
        };
        Ok(Recipes { list: ITEMS.map(recipe).into(), step_words: 1, ..Recipes::default() })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let Checked { q, k, turning, start } = self.check(cx)?;
        let whole = |(_, numbers): &(&str, u32)| q[3] % numbers == 0 && turning / 2 % numbers == 0;
        let recipe = ITEMS.iter().position(whole).unwrap_or(ITEMS.len() - 1);
        let [width, half] = [q[3], turning / 2].map(|elements| elements / ITEMS[recipe].1);
        let items = |dims: &Dims| dims.count_u32() / dims[3].max(1) * (width - half);
        let (q_count, tokens) = (items(&q), q[1]);
        let count = q_count + items(&k);
        let params = Params { width, half, tokens, q_heads: q[2], k_heads: k[2], q_count, count, step_base: cx.step_base() };
        let steps = Dispatch::items(recipe, &params, count.into(), 256)?;
        Ok(Plan { steps: steps.into_iter().collect(), step_words: vec![start], ..self.outputs.plan((q, k)) })
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let Checked { q, k, turning, start } = self.check(cx)?;
        let (cosines, sines) = (tensors.f32(self.inputs.freqs_cos), tensors.f32(self.inputs.freqs_sin));
        let (turning, half) = (turning as usize, turning as usize / 2);
        let rotated = |x: &[f32], dims: &Dims| -> Vec<f32> {
            let element = |(flat, index): (usize, Vec<u32>)| {
                let place = index[3] as usize;
                if place >= turning {
                    return x[flat];
                }
                let angle = (start + index[1]) as usize * turning + place;
                let other = if place < half { -x[flat + half] } else { x[flat - half] };
                x[flat] * cosines[angle] + other * sines[angle]
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
