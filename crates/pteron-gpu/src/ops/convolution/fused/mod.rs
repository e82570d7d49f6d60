//! Convolution of tensors with channels last, with bias, bounds, activation and a residual sum in one kernel. Weights are packed when
//! they are uploaded. Fusions write its calls; no file does.

mod call;
mod coop_matrix;
mod gemm;
mod reach;
#[cfg(test)]
mod tests;

pub(crate) use call::FusedConvolution;

use crate::args::Args;
use crate::elementwise::{self, Activation, Formula, Host};
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{Include, KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::OpDef;
use crate::packing::{ConvolutionTiles, Packing, WeightLayout};
use crate::plan::{Bind, BoundsCx, Dispatch, JoinedConstants, JoinedPart, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::HostTensors;
use crate::row_axes::RowAxes;
use crate::shape::Dims;
use crate::window::geometry::{Geometry, Sizes, channels_first, channels_last, decode_layout};
use crate::{includes, params};

/// The operator's name.
pub(crate) const NAME: &str = "pteron.fused_convolution";

/// x · sigmoid(x), which exporters write as two operators.
pub(crate) const SILU: Activation =
    Activation::new("silu", Formula::new("x * sigmoid(x)", Host::Unary(|x, _| x / (1.0 + (-x).exp()))));

/// WGSL that the kernels share.
const INCLUDES: &[Include] = includes![
    "fused_convolution_f16",
    "fused_convolution_finish",
    "fused_convolution_gather",
    "fused_convolution_params",
    "fused_convolution_store",
];

static DEPTHWISE: KernelDef =
    KernelDef::new("fused_convolution_depthwise", include_str!("fused_convolution_depthwise.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES, elementwise::INCLUDES])
        .with_variants(|| variants(&[Variant::new(&DEPTHWISE)]))
        .proven(reach::depthwise);
static SUM: KernelDef = KernelDef::new("fused_convolution_sum", include_str!("fused_convolution_sum.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES, elementwise::INCLUDES])
    .with_variants(|| finishing(&Variant::new(&SUM)).collect())
    .proven(reach::sum);

/// The registry entry.
pub static DEF: OpDef = OpDef {
    names: &[NAME],
    internal: &[NAME],
    kernels: &[&DEPTHWISE, &SUM, &gemm::GEMM, &coop_matrix::COOP_MATRIX, &coop_matrix::SQUARE],
    decode,
};

params! {
    /// Of `include/fused_convolution_params.wgsl`.
    pub(super) struct Params {
        pixels: u32, output_h: u32, output_w: u32, input_h: u32, input_w: u32, kernel_h: u32, kernel_w: u32, stride_h: u32,
        stride_w: u32, before_h: u32, before_w: u32, dilation_h: u32, dilation_w: u32, channels_in: u32, all_in: u32,
        channels_out: u32, all_out: u32, groups: u32, tiles: u32, vectors: u32, rows: u32, splits: u32, split_rows: u32,
        has_bias: u32, low: f32, high: f32, pad: [u32; 2], p: [f32; 4],
    }
}

/// The head of the function that a kernel applies to its results.
const APPLY: &str = "fn apply(x: X) -> X";

/// A variant with each activation, and without one.
fn finishing(variant: &Variant) -> impl Iterator<Item = Variant> {
    let all = crate::ops::activations().chain([SILU]).map(|activation| activation.wgsl());
    let with_each: Vec<Variant> = all.chain(["x"]).map(|wgsl| variant.clone().with_function(APPLY, wgsl)).collect();
    with_each.into_iter()
}

/// Every variant of kernels that read the input: with vectors or single channels, and with each activation.
fn variants(kernels: &[Variant]) -> Vec<Variant> {
    let reads = kernels.iter().flat_map(|variant| [true, false].map(|wide| reading(variant.clone(), wide)));
    reads.flat_map(|variant| finishing(&variant).collect::<Vec<_>>()).collect()
}

/// A kernel that reads channels of the input as vectors of four, or one by one.
fn reading(variant: Variant, wide: bool) -> Variant {
    variant.with("WIDE", wide.into()).with_type("L", if wide { "vec4<f32>" } else { "f32" })
}

/// A convolution with what follows it.
#[derive(Debug)]
pub(crate) struct FusedConvolutionOp {
    x: TensorId,
    weight: TensorId,
    layout: WeightLayout,
    bias: Option<TensorId>,
    geometry: Geometry,
    bounds: [f32; 2],
    activation: Option<Activation>,
    addend: Option<TensorId>,
    /// Whether the addend is added before the activation.
    addend_first: bool,
    out: TensorId,
    /// The dims of the weight, which is a constant, in the order that PyTorch has.
    weight_dims: Dims,
    /// Channels of a group, in and out.
    channels: [u32; 2],
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("input", &[Elem::F32])?;
    let weight = args.tensor_of("weight", &[Elem::F32])?;
    if !args.is_constant(weight) {
        return Err(OpError::new("weight", "is computed, expected a constant"));
    }
    let layout = decode_layout(args)?;
    let bias = args.optional_tensor_of("bias", &[Elem::F32])?;
    let bound = args.info(x).bound;
    let first =
        channels_first(&bound).ok_or_else(|| OpError::new("input", format!("is {bound}, expected 3 or 4 dimensions")))?;
    let geometry = Geometry::decode(args, first, true, true)?;
    let layout = geometry.order(layout);
    #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
    let bounds = [args.float("output_min")? as f32, args.float("output_max")? as f32];
    let activation = decode_activation(args)?;
    let addend = args.optional_tensor_of("addend", &[Elem::F32])?;
    let addend_first = args.bool("addend_first")?;
    let out = args.output_of("out", Elem::F32)?;
    let weight_dims = geometry.logical_weight(layout, args.info(weight).bound)?;
    // Channels are fixed by the weight, so the bound is as good as any live shape.
    let sizes = geometry.sizes(first, weight_dims, None)?;
    let channels = [sizes.channels_in, sizes.channels_out];
    let op = FusedConvolutionOp {
        x,
        weight,
        layout,
        bias,
        geometry,
        bounds,
        activation,
        addend,
        addend_first,
        out,
        weight_dims,
        channels,
    };
    match computes(op.geometry.groups, channels) {
        true => Ok(Box::new(op)),
        false => Err(OpError::new("weight", format!("is {weight_dims}, expected output channels in fours"))),
    }
}

fn decode_activation(args: &mut Args<'_>) -> Result<Option<Activation>, OpError> {
    let name = args.optional_text("activation")?;
    let mut values = [0.0; 4];
    for value in &mut values {
        *value = args.float("activation_arguments")?;
    }
    let Some(name) = name else { return Ok(None) };
    let found = if name == SILU.name { Some(SILU) } else { crate::ops::activation(name, values) };
    found.map_or_else(
        || Err(OpError::new("activation", format!("is {name:?}, which is no function of floats"))),
        |it| Ok(Some(it)),
    )
}

fn is_depthwise(groups: u32, [channels_in, _]: [u32; 2]) -> bool {
    channels_in == 1 && groups > 1
}

/// Whether the operator computes convolutions of groups with these channels, in and out: outputs are whole vectors of channels.
pub(crate) fn computes(groups: u32, channels: [u32; 2]) -> bool {
    let [channels_in, channels_out] = channels;
    let whole = if is_depthwise(groups, channels) { channels_out.saturating_mul(groups) } else { channels_out };
    channels_in > 0 && whole > 0 && whole.is_multiple_of(4)
}

/// The layout of the weights.
fn packing(geometry: &Geometry, layout: WeightLayout, channels: [u32; 2], taps: u32, half: bool) -> ConvolutionTiles {
    let ([channels_in, channels_out], depthwise) = (channels, is_depthwise(geometry.groups, channels));
    let groups = geometry.groups;
    ConvolutionTiles { groups, channels_in, channels_out, taps, layout, depthwise, half: half && !depthwise }
}

impl FusedConvolutionOp {
    fn is_depthwise(&self) -> bool {
        is_depthwise(self.geometry.groups, self.channels)
    }

    fn packing(&self, half: bool) -> ConvolutionTiles {
        let taps = self.weight_dims[2..].iter().fold(1u32, |taps, &size| taps.saturating_mul(size));
        packing(&self.geometry, self.layout, self.channels, taps, half)
    }

    /// The sizes at live shapes, and the output's dims.
    fn sizes(&self, cx: &PlanCx<'_>) -> Result<(Sizes, Dims), OpError> {
        let x = cx.dims(self.x);
        let first =
            channels_first(&x).ok_or_else(|| OpError::new("input", format!("is {x}, expected 3 or 4 dimensions")))?;
        let sizes = self.geometry.sizes(first, self.weight_dims, self.bias.map(|bias| cx.dims(bias)))?;
        let out = channels_last(&sizes.out).unwrap_or(sizes.out);
        if let Some(addend) = self.addend.map(|addend| cx.dims(addend)).filter(|addend| *addend != out) {
            return Err(OpError::new("addend", format!("is {addend}, but the output is {out}")));
        }
        Ok((sizes, out))
    }

    fn params(&self, sizes: &Sizes) -> Result<Params, OpError> {
        let too_large = |what: &str| OpError::new("weight", format!("has {what} than kernels index"));
        let tiles = self.packing(false);
        let (groups, [channels_in, channels_out]) = (self.geometry.groups, self.channels);
        let pixels = u32::try_from(sizes.pixels()).map_err(|_| too_large("more output pixels"))?;
        let rows = u32::try_from(tiles.rows()).map_err(|_| too_large("more products"))?;
        let [down, across] = sizes.windows;
        Ok(Params {
            pixels,
            output_h: sizes.output[0],
            output_w: sizes.output[1],
            input_h: sizes.input[0],
            input_w: sizes.input[1],
            kernel_h: down.kernel,
            kernel_w: across.kernel,
            stride_h: down.stride,
            stride_w: across.stride,
            before_h: down.padding,
            before_w: across.padding,
            dilation_h: down.dilation,
            dilation_w: across.dilation,
            channels_in,
            all_in: channels_in.saturating_mul(groups),
            channels_out,
            all_out: channels_out.saturating_mul(groups),
            groups,
            tiles: tiles.tiles_per_group(),
            vectors: channels_in.div_ceil(4),
            rows,
            splits: 1,
            split_rows: rows,
            has_bias: self.bias.is_some().into(),
            low: self.bounds[0],
            high: self.bounds[1],
            pad: [0; 2],
            p: self.activation.map_or([0.0; 4], |activation| activation.params()),
        })
    }

    /// A variant with the operator's constants.
    fn finish(&self, variant: Variant) -> Variant {
        let wgsl = self.activation.map_or("x", |activation| activation.wgsl());
        let order = match (&self.activation, self.addend_first) {
            (None, _) => 0,
            (Some(_), false) => 1,
            (Some(_), true) => 2,
        };
        let variant = variant.with("HAS_ADDEND", self.addend.is_some().into()).with("ACTIVATION", order);
        variant.with_function(APPLY, wgsl)
    }

    /// As [`finish`](Self::finish), for kernels that read the input.
    fn variant(&self, variant: Variant) -> Variant {
        let [channels_in, channels_out] = self.channels;
        let wide = if self.is_depthwise() { channels_out == 1 } else { channels_in.is_multiple_of(4) };
        let variant = reading(variant, wide).with("TRANSPOSED", self.geometry.transposed.into());
        self.finish(variant)
    }

    /// The input, the weight, bias and addend: missing ones have another buffer bound, which is not read.
    fn binds(&self) -> [Bind; 4] {
        let [bias, addend] = [self.bias, self.addend].map(|tensor| tensor.unwrap_or(self.x));
        [self.x.into(), Bind::Joined(0), bias.into(), addend.into()]
    }

    /// The recipe that adds partial sums.
    fn sum_recipe(&self) -> Recipe {
        let [_, _, bias, addend] = self.binds();
        Recipe::new(self.finish(Variant::new(&SUM)), [Bind::Scratch(0), bias, addend, self.out.into()])
    }
}

/// The rows of weights that each of several workgroups multiplies, and how many they are.
fn share(rows: u32, splits: u32) -> (u32, u32) {
    let each = rows.div_ceil(splits.max(1)).next_multiple_of(crate::packing::CONVOLUTION_SLICE);
    (each, rows.div_ceil(each.max(1)).max(1))
}

/// Bytes of the partial sums of all outputs.
fn partial_bytes(params: &Params) -> u64 {
    let outputs = u64::from(params.pixels).saturating_mul(params.all_out.into());
    if params.splits > 1 { outputs.saturating_mul(4 * u64::from(params.splits)) } else { 0 }
}

/// The dispatches of a product, with the recipe `first` or, if it is split, the one after it and that of the sum.
fn dispatches(params: &Params, first: usize, sum: usize, groups: u64) -> Result<Vec<Dispatch>, OpError> {
    let groups = groups.saturating_mul(params.splits.into()).saturating_mul(params.groups.into());
    if params.splits == 1 {
        return Ok(Dispatch::groups(first, params, groups)?.into_iter().collect());
    }
    let outputs = u64::from(params.pixels) * u64::from(params.all_out / 4);
    let steps = [Dispatch::groups(first + 1, params, groups)?, Dispatch::items(sum, params, outputs, 256)?];
    Ok(steps.into_iter().flatten().collect())
}

impl Op for FusedConvolutionOp {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        rows.batch(self.x).filter(|_| self.addend.is_none_or(|addend| rows.batch(addend).is_some()))
    }

    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let cooperative_matrix = coop_matrix::are_usual(cx.caps());
        let packing = Some(Packing::Convolution(self.packing(cooperative_matrix)));
        let mut recipes = if self.is_depthwise() {
            let variant = self.variant(Variant::new(&DEPTHWISE));
            Recipes::of([Recipe::new(variant, self.binds().into_iter().chain([self.out.into()]))])
        } else if cooperative_matrix {
            coop_matrix::recipes(self, cx.caps())
        } else {
            gemm::recipes(self, cx.caps())
        };
        recipes.joined = vec![JoinedConstants { parts: vec![JoinedPart { tensor: self.weight, packing }] }];
        Ok(recipes)
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (sizes, out) = self.sizes(cx)?;
        let params = self.params(&sizes)?;
        if self.is_depthwise() {
            return Ok(Plan::new(self.out, out, Dispatch::items(0, &params, out.count() / 4, 128)?));
        }
        let (steps, scratch) = if coop_matrix::are_usual(cx.caps()) {
            coop_matrix::steps(params, cx.caps())?
        } else {
            gemm::steps(params, cx.caps())?
        };
        Ok(Plan { scratch: vec![scratch], ..Plan::new(self.out, out, steps) })
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (sizes, out) = self.sizes(cx)?;
        self.compute_on_host(&sizes, out, tensors);
        Ok(())
    }
}

#[cfg(any(test, feature = "reference"))]
impl FusedConvolutionOp {
    fn compute_on_host(&self, sizes: &Sizes, out: Dims, tensors: &mut HostTensors) {
        let channels = [self.channels[0] * self.geometry.groups, sizes.out[1]].map(|channels| channels as usize);
        let planes = [sizes.input, sizes.output].map(|size| size[0] as usize * size[1] as usize);
        let last = tensors.f32(self.x);
        // The index with channels last of an index with channels first.
        let place = |at: usize, channels: usize, plane: usize| {
            let (image, channel, pixel) = (at / plane / channels, at / plane % channels, at % plane);
            (image * plane + pixel) * channels + channel
        };
        let first: Vec<f32> = (0..last.len()).map(|at| last[place(at, channels[0], planes[0])]).collect();
        let sums =
            crate::ops::convolution::reference::sums(&self.geometry, sizes, &first, (tensors.f32(self.weight), self.layout));
        let bias = self.bias.map(|bias| tensors.f32(bias));
        let addend = self.addend.map(|addend| tensors.f32(addend));
        let mut results = vec![0.0; sums.len()];
        let [low, high] = self.bounds.map(f64::from);
        for (at, sum) in sums.into_iter().enumerate() {
            let to = place(at, channels[1], planes[1]);
            let biased = sum + bias.map_or(0.0, |bias| f64::from(bias[at / planes[1] % channels[1]]));
            let raised = if biased < low { low } else { biased };
            let value = if raised > high { high } else { raised };
            let more = addend.map_or(0.0, |addend| f64::from(addend[to]));
            let value = match &self.activation {
                Some(activation) if self.addend_first => activation.apply(value + more),
                Some(activation) => activation.apply(value) + more,
                None => value + more,
            };
            results[to] = crate::matmul::to_f32(value);
        }
        tensors.set(self.out, out, crate::reference::HostData::F32(results));
    }
}
