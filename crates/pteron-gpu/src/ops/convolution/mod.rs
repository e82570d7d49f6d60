//! Convolution of images and of sequences: `aten.convolution` and what Vulkan exporters make of it. Any stride, padding, dilation and
//! groups, transposed or not, with a bias and bounds of the result.

pub mod fused;
#[cfg(any(test, feature = "reference"))]
pub(crate) mod reference;
#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::fuse::Relayout;
use crate::graph::Elem;
use crate::includes;
use crate::ir::Call;
use crate::kernel::{Include, KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::{OpDef, names};
use crate::packing::WeightLayout;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::row_axes::RowAxes;
use crate::window::geometry::{Geometry, Sizes, decode_layout};
use fused::FusedConvolution;

/// WGSL that the kernels share.
const INCLUDES: &[Include] = includes!["convolution_clamp"];

static DIRECT: KernelDef =
    KernelDef::new("convolution_direct", include_str!("convolution_direct.wgsl"), Params::FIELDS).with_includes(&[INCLUDES]);

/// The arguments of an operator of the family.
struct Form {
    name: &'static str,
    /// Whether it has the arguments `transposed` and `output_padding`.
    may_transpose: bool,
    /// Whether bounds of the result follow: always, never, or where there are so many arguments.
    bounds: Bounds,
    /// Whether the order of the weights follows them, and paddings may be uneven.
    layout: bool,
}

enum Bounds {
    Never,
    Always,
    IfGiven,
}

const TABLE: &[Form] = &[
    Form { name: WITH_LAYOUT, may_transpose: true, bounds: Bounds::Always, layout: true },
    Form { name: "aten.convolution.default", may_transpose: true, bounds: Bounds::Never, layout: false },
    Form { name: "et_vk.conv_with_clamp.default", may_transpose: true, bounds: Bounds::Always, layout: false },
    Form { name: "et_vk.conv2d_gemm.default", may_transpose: true, bounds: Bounds::IfGiven, layout: false },
    Form { name: "et_vk.conv1d_pw.default", may_transpose: false, bounds: Bounds::IfGiven, layout: false },
    Form { name: "et_vk.conv1d_dw.default", may_transpose: false, bounds: Bounds::IfGiven, layout: false },
];

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &names!(TABLE, name), internal: &[WITH_LAYOUT], kernels: &[&DIRECT], decode };

/// A convolution of images with channels first whose weights may be in another order. Front ends call it; no file does.
pub(crate) const WITH_LAYOUT: &str = "pteron.convolution";

params! {
    /// Of `convolution_direct.wgsl`.
    struct Params {
        batch: u32, groups: u32, channels_in: u32, channels_out: u32,
        input_h: u32, input_w: u32, output_h: u32, output_w: u32,
        kernel_h: u32, kernel_w: u32, stride_h: u32, stride_w: u32,
        before_h: u32, before_w: u32, dilation_h: u32, dilation_w: u32,
        weight_group: u32, weight_out: u32, weight_in: u32, weight_tap: u32, has_bias: u32,
        blocks: u32, low: f32, high: f32,
    }
}

/// Pixels per workgroup of the direct kernel, and output channels per thread.
const DIRECT_PIXELS: u64 = 128;
const DIRECT_CHANNELS: u32 = 4;

/// A convolution.
#[derive(Debug)]
pub(crate) struct Convolution {
    pub(crate) x: TensorId,
    pub(crate) weight: TensorId,
    pub(crate) layout: WeightLayout,
    pub(crate) bias: Option<TensorId>,
    pub(crate) geometry: Geometry,
    /// Bounds of the result, infinite where there are none.
    pub(crate) bounds: [f32; 2],
    pub(crate) out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let form = args.row(TABLE);
    let x = args.tensor_of("input", &[Elem::F32])?;
    let weight = args.tensor_of("weight", &[Elem::F32])?;
    let layout = if form.layout { decode_layout(args)? } else { WeightLayout::OutIn };
    let bias = args.optional_tensor_of("bias", &[Elem::F32])?;
    let geometry = Geometry::decode(args, args.info(x).bound, form.may_transpose, form.layout)?;
    let layout = geometry.order(layout);
    let bounded = match form.bounds {
        Bounds::Never => false,
        Bounds::Always => true,
        Bounds::IfGiven => args.left() > 1,
    };
    let bounds = if bounded { decode_bounds(args)? } else { [f32::NEG_INFINITY, f32::INFINITY] };
    let out = args.output_of("out", Elem::F32)?;
    Ok(Box::new(Convolution { x, weight, layout, bias, geometry, bounds, out }))
}

/// Bounds of the result. Exporters write the largest double for none, which is infinite in 32 bits.
fn decode_bounds(args: &mut Args<'_>) -> Result<[f32; 2], OpError> {
    let mut bounds = [f32::NEG_INFINITY, f32::INFINITY];
    for (name, bound) in ["output_min", "output_max"].into_iter().zip(&mut bounds) {
        if let Some(given) = args.optional_float(name)? {
            if given.is_nan() {
                return Err(OpError::new(name, "is NaN, it must be a number"));
            }
            #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
            let given = given as f32;
            *bound = given;
        }
    }
    Ok(bounds)
}

impl Convolution {
    fn sizes(&self, cx: &PlanCx<'_>) -> Result<Sizes, OpError> {
        let weight = self.geometry.logical_weight(self.layout, cx.dims(self.weight))?;
        self.geometry.sizes(cx.dims(self.x), weight, self.bias.map(|bias| cx.dims(bias)))
    }

    fn params(&self, sizes: &Sizes) -> Params {
        let [down, across] = sizes.windows;
        let taps = sizes.taps();
        let groups = self.geometry.groups;
        let strides = self.layout.strides(groups, [sizes.channels_in, sizes.channels_out], taps);
        // The weight's elements are counted in 32 bits, and so are distances within it.
        let [weight_group, weight_out, weight_in, weight_tap] =
            strides.map(|stride| u32::try_from(stride).unwrap_or(u32::MAX));
        Params {
            batch: sizes.batch,
            groups,
            channels_in: sizes.channels_in,
            channels_out: sizes.channels_out,
            input_h: sizes.input[0],
            input_w: sizes.input[1],
            output_h: sizes.output[0],
            output_w: sizes.output[1],
            kernel_h: down.kernel,
            kernel_w: across.kernel,
            stride_h: down.stride,
            stride_w: across.stride,
            before_h: down.padding,
            before_w: across.padding,
            dilation_h: down.dilation,
            dilation_w: across.dilation,
            weight_group,
            weight_out,
            weight_in,
            weight_tap,
            has_bias: self.bias.is_some().into(),
            blocks: sizes.channels_out.div_ceil(DIRECT_CHANNELS).saturating_mul(groups),
            low: self.bounds[0],
            high: self.bounds[1],
        }
    }
}

impl Op for Convolution {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        rows.batch(self.x).filter(|_| rows.axis(self.weight).is_none())
    }

    fn channels_last(&self, layout: &mut Relayout<'_>) -> Option<Call> {
        let serves = layout.is_constant(self.weight) && [self.x, self.out].iter().all(|&tensor| layout.can_move(tensor));
        let weight = self.geometry.logical_weight(self.layout, layout.info(self.weight).bound).ok()?;
        let bytes = FusedConvolution::weight_bytes(&self.geometry, layout.info(self.x).bound, weight);
        if !serves || !layout.fits_binding(bytes?) {
            return None;
        }
        let x = layout.moved_or_copied(self.x);
        let out = layout.output(self.out);
        Some(FusedConvolution::new(self, x, out).call(layout.source))
    }

    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let variant = Variant::new(&DIRECT).with("TRANSPOSED", self.geometry.transposed.into());
        let binds = [self.x, self.weight, self.bias.unwrap_or(self.weight), self.out].map(Into::into);
        Ok(Recipes::of([Recipe::new(variant, binds)]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let sizes = self.sizes(cx)?;
        let params = self.params(&sizes);
        let groups = sizes.pixels().div_ceil(DIRECT_PIXELS).saturating_mul(params.blocks.into());
        Ok(Plan::new(self.out, sizes.out, Dispatch::groups(0, &params, groups)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let sizes = self.sizes(cx)?;
        let sums = reference::sums(&self.geometry, &sizes, tensors.f32(self.x), (tensors.f32(self.weight), self.layout));
        let bias = self.bias.map(|bias| tensors.f32(bias));
        let plane = sizes.output[0] as usize * sizes.output[1] as usize;
        let [low, high] = self.bounds;
        let finish = |(at, sum): (usize, f64)| {
            let channels = sizes.out[1] as usize;
            let biased = sum + bias.map_or(0.0, |bias| f64::from(bias[at / plane % channels]));
            let raised = if biased < low.into() { low } else { crate::matmul::to_f32(biased) };
            if raised > high { high } else { raised }
        };
        let data = sums.into_iter().enumerate().map(finish).collect();
        tensors.set(self.out, sizes.out, HostData::F32(data));
        Ok(())
    }
}
