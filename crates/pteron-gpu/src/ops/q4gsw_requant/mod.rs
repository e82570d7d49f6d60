//! `et_vk.q4gsw_requant`: quantises float weights `[n, k]` to 4 bits with given scales per group, `[≥ k / group, ≥ n]`. The even column is in
//! the low nibble of a byte, and 8 represents zero.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::reach::{DispatchView, Reached, count};
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::OpDef;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

static KERNEL: KernelDef = KernelDef::new("q4gsw_requant", include_str!("q4gsw_requant.wgsl"), Params::FIELDS).proven(reach);

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &["et_vk.q4gsw_requant.default"], internal: &[], kernels: &[&KERNEL], decode };

params! {
    /// Of `q4gsw_requant.wgsl`.
    struct Params { rows: u32, columns: u32, bytes_per_row: u32, group: u32, scale_stride: u32, count: u32, pad: [u32; 2] }
}

fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>()?;
    let latent = count(params.rows) * count(params.columns);
    let group = (count(params.columns) - count(1)) / count(params.group);
    let scales = group * count(params.scale_stride) + count(params.rows);
    Some(Reached::new().array(latent, 4).array(scales, 4).fours(count(params.count), 4))
}

#[derive(Debug)]
struct Requant {
    latent: TensorId,
    scales: TensorId,
    group: u32,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let latent = args.tensor_of("latent", &[Elem::F32])?;
    let scales = args.tensor_of("scales", &[Elem::F32])?;
    let group = args.int("group_size")?;
    let Some(group) = u32::try_from(group).ok().filter(|&group| group > 0) else {
        return Err(OpError::new("group_size", format!("is {group}, expected at least 1")));
    };
    Ok(Box::new(Requant { latent, scales, group, out: args.output_of("out", Elem::U8)? }))
}

impl Requant {
    fn sizes(&self, cx: &PlanCx<'_>) -> Result<(Dims, Params), OpError> {
        let (latent, scales) = (cx.dims(self.latent), cx.dims(self.scales));
        let &[rows, columns] = &*latent else {
            return Err(OpError::new("latent", format!("is {latent}, expected two dimensions")));
        };
        let groups = columns.div_ceil(self.group);
        let fits = scales.len() == 2 && scales[0] >= groups && scales[1] >= rows;
        if !fits {
            return Err(OpError::new("scales", format!("is {scales}, expected [{groups}, {rows}] or more for {latent}")));
        }
        let bytes_per_row = columns.div_ceil(2);
        let out = Dims::of([rows, bytes_per_row]);
        let count = out.count_u32();
        let params = Params { rows, columns, bytes_per_row, group: self.group, scale_stride: scales[1], count, pad: [0; 2] };
        Ok((out, params))
    }
}

impl Op for Requant {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        Ok(Recipes::of([Recipe::new(Variant::new(&KERNEL), [self.latent, self.scales, self.out].map(Into::into))]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (out, params) = self.sizes(cx)?;
        Ok(Plan::new(self.out, out, Dispatch::items(0, &params, out.count(), 1024)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (out, params) = self.sizes(cx)?;
        let (latent, scales) = (tensors.f32(self.latent), tensors.f32(self.scales));
        let code = |row: u32, column: u32| {
            if column >= params.columns {
                return 0;
            }
            let scale = scales[(column / params.group * params.scale_stride + row) as usize];
            let steps = (latent[(row * params.columns + column) as usize] / scale).round_ties_even().clamp(-8.0, 7.0);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 15")]
            let code = if scale == 0.0 { 8 } else { (steps + 8.0) as u8 };
            code
        };
        let byte = |at: u32| {
            let (row, column) = (at / params.bytes_per_row, at % params.bytes_per_row * 2);
            code(row, column) | code(row, column + 1) << 4
        };
        let data = (0..params.count).map(byte).collect();
        tensors.set(self.out, out, HostData::U8(data));
        Ok(())
    }
}
