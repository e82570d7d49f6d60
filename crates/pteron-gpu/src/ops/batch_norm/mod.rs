//! `aten._native_batch_norm_legit_no_training`: batch normalisation with the statistics of the program.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::fuse::Relayout;
use crate::graph::Elem;
use crate::ir::{Call, ValueId};
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::OpDef;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::row_axes::RowAxes;
use crate::shape::Dims;

static KERNEL: KernelDef = KernelDef::new("batch_norm", include_str!("batch_norm.wgsl"), Params::FIELDS);

/// The name for tensors with channels last.
pub(crate) const CHANNELS_LAST: &str = "pteron.batch_norm_channels_last";

/// The same with an argument that says whether statistics are those of the batch.
const WITH_MODE: &str = "aten._native_batch_norm_legit.default";

/// The registry entry.
pub static DEF: OpDef = OpDef {
    names: &["aten._native_batch_norm_legit_no_training.default", CHANNELS_LAST, WITH_MODE],
    internal: &[CHANNELS_LAST],
    kernels: &[&KERNEL],
    decode,
};

params! {
    /// Of `batch_norm.wgsl`.
    struct Params { count: u32, channels: u32, inner: u32, has_weight: u32, has_bias: u32, eps: f32, pad: [u32; 2] }
}

/// Batch normalisation.
#[derive(Debug)]
pub(crate) struct BatchNorm {
    pub(crate) x: TensorId,
    weight: Option<TensorId>,
    bias: Option<TensorId>,
    mean: TensorId,
    variance: TensorId,
    eps: f64,
    pub(crate) channels_last: bool,
    pub(crate) out: TensorId,
    /// Statistics of training, which are empty.
    empty: Vec<TensorId>,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let channels_last = args.operator() == CHANNELS_LAST;
    let x = args.tensor_of("input", &[Elem::F32])?;
    let weight = args.optional_tensor_of("weight", &[Elem::F32])?;
    let bias = args.optional_tensor_of("bias", &[Elem::F32])?;
    let mean = args.tensor_of("running_mean", &[Elem::F32])?;
    let variance = args.tensor_of("running_var", &[Elem::F32])?;
    if args.operator() == WITH_MODE && args.bool("training")? {
        return Err(OpError::new("training", "is true, only false is supported"));
    }
    args.ignore("momentum")?;
    let eps = args.float("eps")?;
    if !eps.is_finite() {
        return Err(OpError::new("eps", format!("is {eps}, it must be a finite number")));
    }
    let outputs = if channels_last { vec![args.output("out")?] } else { args.outputs("out", 3)? };
    if let Some(&other) = outputs.iter().find(|&&output| args.info(output).elem != Elem::F32) {
        return Err(OpError::new("out", format!("has elements {:?}, but the result's are F32", args.info(other).elem)));
    }
    let (out, empty) = (outputs[0], outputs[1..].to_vec());
    Ok(Box::new(BatchNorm { x, weight, bias, mean, variance, eps, channels_last, out, empty }))
}

impl BatchNorm {
    /// The number of channels, and of the elements of one that lie together.
    fn channels(&self, cx: &PlanCx<'_>) -> Result<(u32, u32), OpError> {
        let x = cx.dims(self.x);
        if x.len() < 2 {
            return Err(OpError::new("input", format!("is {x}, expected 2 dimensions or more")));
        }
        let axis = if self.channels_last { x.len() - 1 } else { 1 };
        let channels = x[axis];
        let parameters = [
            ("weight", self.weight),
            ("bias", self.bias),
            ("running_mean", Some(self.mean)),
            ("running_var", Some(self.variance)),
        ];
        for (name, tensor) in parameters {
            let dims = tensor.map(|tensor| cx.dims(tensor));
            if let Some(dims) = dims.filter(|dims| dims.len() != 1 || dims[0] != channels) {
                return Err(OpError::new(name, format!("is {dims}, but the input has {channels} channels")));
            }
        }
        let inner = Dims::new(&x[axis + 1..]).map_or(0, |dims| dims.count_u32());
        Ok((channels, inner))
    }
}

impl Op for BatchNorm {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        let fixed = [Some(self.mean), Some(self.variance), self.weight, self.bias];
        rows.batch(self.x).filter(|_| fixed.into_iter().flatten().all(|tensor| rows.axis(tensor).is_none()))
    }

    fn channels_last(&self, layout: &mut Relayout<'_>) -> Option<Call> {
        let x = layout.moved(self.x).filter(|_| !self.channels_last && layout.can_move(self.out))?;
        if !self.empty.iter().all(|&tensor| layout.is_unused(tensor)) {
            return None;
        }
        let mut args = layout.call.args.clone();
        *args.first_mut()? = ValueId(x.0);
        *args.last_mut()? = ValueId(layout.output(self.out).0);
        Some(Call::new(&DEF, CHANNELS_LAST, args))
    }

    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let [weight, bias] = [self.weight, self.bias].map(|tensor| tensor.unwrap_or(self.mean));
        let binds = [self.x, weight, bias, self.mean, self.variance, self.out].map(Into::into);
        Ok(Recipes::of([Recipe::new(Variant::new(&KERNEL), binds)]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (channels, inner) = self.channels(cx)?;
        let x = cx.dims(self.x);
        #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
        let eps = self.eps as f32;
        let (has_weight, has_bias) = (self.weight.is_some().into(), self.bias.is_some().into());
        let params = Params { count: x.count_u32(), channels, inner, has_weight, has_bias, eps, pad: [0; 2] };
        let mut plan = Plan::new(self.out, x, Dispatch::items(0, &params, x.count(), 1024)?);
        let none = Dims::new(&[0]).unwrap_or(Dims::SCALAR);
        plan.outputs.extend(self.empty.iter().map(|&tensor| (tensor, none)));
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (channels, inner) = self.channels(cx)?;
        let of = |tensor: TensorId, channel: usize| f64::from(tensors.f32(tensor)[channel]);
        let normalised = |(index, &x): (usize, &f32)| {
            let channel = index / inner.max(1) as usize % channels as usize;
            let scale = (of(self.variance, channel) + self.eps).sqrt().recip();
            let scaled = (f64::from(x) - of(self.mean, channel)) * scale * self.weight.map_or(1.0, |w| of(w, channel));
            crate::matmul::to_f32(scaled + self.bias.map_or(0.0, |bias| of(bias, channel)))
        };
        let data = tensors.f32(self.x).iter().enumerate().map(normalised).collect();
        tensors.set(self.out, cx.dims(self.x), HostData::F32(data));
        for &tensor in &self.empty {
            tensors.set(tensor, Dims::new(&[0]).unwrap_or(Dims::SCALAR), HostData::F32(Vec::new()));
        }
        Ok(())
    }
}
