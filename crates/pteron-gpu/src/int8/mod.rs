//! Products with int8 weights: convolutions and linears of int8 activations, whose sums are exact integers, and of float activations. The
//! output is float, or quantised again. The WGSL side is `include/int8_*.wgsl`.

mod reach;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{Include, KernelDef, Variant};
use crate::live::TensorId;
use crate::packing::{ByteMatrix, Multipliers, Packing, RowSums};
use crate::plan::{Bind, BoundsCx, Caps, Dispatch, GridKind, JoinedConstants, JoinedPart, PlanCx, Recipe};
#[cfg(any(test, feature = "reference"))]
use crate::reference::HostTensors;
use crate::shape::Dims;
use crate::{elementwise, includes, matmul, params};

const INCLUDES: &[Include] = includes!["int8_loads", "int8_params", "int8_rows", "int8_store", "int8_tile", "int8_window"];

/// Stands for XNNPACK's rule where others have a smallest scale, which is above 0.
pub(crate) const MULTIPLIER_RULE: f32 = 0.0;

/// Convolutions as implicit GEMM.
pub(crate) static CONV: KernelDef = KernelDef::new("q8_conv", include_str!("q8_conv.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .with_variants(|| Factor::ALL.map(|factor| factor.applied(Variant::new(&CONV), false)).to_vec())
    .proven(reach::conv);
/// Linears.
pub(crate) static LINEAR: KernelDef = KernelDef::new("q8_linear", include_str!("q8_linear.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .with_variants(|| {
        let each = Factor::ALL.iter().map(|factor| factor.applied(Variant::new(&LINEAR), false));
        each.chain([Factor::Bytes.applied(Variant::new(&LINEAR), true)]).collect()
    })
    .proven(reach::linear);
/// Convolutions of images with channels last as implicit GEMM.
pub(crate) static CONV_CHANNELS_LAST: KernelDef =
    KernelDef::new("q8_conv_channels_last", include_str!("q8_conv_channels_last.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .with_variants(|| vec![Factor::Bytes.applied(Variant::new(&CONV_CHANNELS_LAST), true)])
        .proven(reach::conv_channels_last);
/// Linears of rows that are quantised by their own parameters.
pub(crate) static LINEAR_ROWS: KernelDef =
    KernelDef::new("q8_linear_rows", include_str!("q8_linear_rows.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .with_variants(|| vec![Factor::rows(Variant::new(&LINEAR_ROWS))])
        .proven(reach::linear_rows);
/// The same for few rows.
pub(crate) static LINEAR_ROWS_GEMV: KernelDef =
    KernelDef::new("q8_linear_rows_gemv", include_str!("q8_linear_rows_gemv.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .with_types(&[("Y", &["f32"])])
        .proven(reach::linear_rows);
/// Depthwise convolutions.
pub(crate) static DEPTHWISE: KernelDef = KernelDef::new("q8_depthwise", include_str!("q8_depthwise.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .with_types(&[("Y", &["f32"])])
    .proven(reach::depthwise);
/// Depthwise convolutions of images with channels last.
pub(crate) static DEPTHWISE_CHANNELS_LAST: KernelDef =
    KernelDef::new("q8_depthwise_channels_last", include_str!("q8_depthwise_channels_last.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .with_types(&[("Y", &["i32"])])
        .proven(reach::depthwise_channels_last);

params! {
    /// Of `include/int8_params.wgsl`.
    pub(crate) struct Params {
        fast: u32, slow: u32, k: u32, batches: u32,
        channels: u32, height: u32, width: u32, out_width: u32, kernel_height: u32, kernel_width: u32,
        stride_y: u32, stride_x: u32, margin_y: u32, margin_x: u32, dilation_y: u32, dilation_x: u32,
        groups: u32, weight_stride: u32, last_weight: u32, last_x: u32,
        flags: u32, x_zero: i32, x_scale: f32, x_inverse: f32, out_inverse: f32, out_zero: f32,
        low: f32, high: f32, image_pixels: u32, pad: [u32; 3],
    }
}

/// The most products per sum: sums of more bytes could exceed 32 bits.
pub(crate) const MAX_K: u32 = 65_536;

/// How activations are multiplied with weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factor {
    /// Bytes.
    Bytes,
    /// Floats that are quantised while they are loaded.
    Quantised,
    /// Floats, with weights widened to floats.
    Floats,
}

impl Factor {
    const ALL: [Self; 3] = [Self::Bytes, Self::Quantised, Self::Floats];

    /// The factor for activations of this type, which are quantised unless the operator has no parameters for that.
    pub(crate) fn of(activations: Elem, quantised: bool) -> Self {
        match (activations, quantised) {
            (Elem::F32, false) => Self::Floats,
            (Elem::F32, true) => Self::Quantised,
            _ => Self::Bytes,
        }
    }

    /// Completes a variant of a tiled kernel, whose sums of bytes may be requantised.
    fn applied(self, variant: Variant, requantises: bool) -> Variant {
        let variant = variant.with_type("X", if self == Self::Bytes { "u32" } else { "f32" });
        let variant = if requantises {
            variant
                .with("REQUANTISE", 1)
                .with_type("Y", "i32")
                .with_function(RESULT, "requantised(channels, s - params.x_zero * sums_of_weights(channels))")
        } else {
            variant.with_type("Y", "f32").with_function(RESULT, "real(channels, corrected(s, channels))")
        };
        let variant = match self {
            Self::Bytes => variant
                .with_function("fn x_words(at: u32) -> u32", "x[at]")
                .with_function("fn x_value(at: u32) -> P", "(x[at / 4u] >> (at % 4u * 8u)) & 255u")
                .with_function("fn x_word(at: u32) -> V", "x_bytes(at)"),
            Self::Quantised => variant
                .with_function("fn x_words(at: u32) -> u32", "0u")
                .with_function(
                    "fn x_value(at: u32) -> P",
                    "bitcast<u32>(i32(clamp(round(x[at] * params.x_inverse) + f32(params.x_zero), -128.0, 127.0))) & 255u",
                )
                .with_function("fn x_word(at: u32) -> V", FOUR_VALUES),
            Self::Floats => variant
                .with_function("fn x_words(at: u32) -> u32", "0u")
                .with_function("fn x_value(at: u32) -> P", "x[at]")
                .with_function("fn x_word(at: u32) -> V", FOUR_VALUES),
        };
        if self == Self::Floats {
            return variant
                .with_type("P", "f32")
                .with_type("V", "vec4<f32>")
                .with_type("Q", "mat4x4<f32>")
                .with_type("S", "vec4<f32>")
                .with_function("fn padding() -> P", "0.0")
                .with_function("fn pack4(a: P, b: P, c: P, d: P) -> V", "vec4<f32>(a, b, c, d)")
                .with_function("fn transposed(a: V, b: V, c: V, d: V) -> Q", "transpose(mat4x4<f32>(a, b, c, d))")
                .with_function("fn widened(word: u32) -> V", "vec4<f32>(unpack4xI8(word))")
                .with_function("fn added(s: S, a: Q, b: V) -> S", "s + b * a")
                .with_function("fn corrected(s: S, channels: vec4<u32>) -> vec4<f32>", "s");
        }
        Self::bytes(variant)
            .with_type("P", "u32")
            .with_function("fn padding() -> P", "bitcast<u32>(params.x_zero) & 255u")
            .with_function("fn pack4(a: P, b: P, c: P, d: P) -> V", "a | (b << 8u) | (c << 16u) | (d << 24u)")
            .with_function("fn transposed(a: V, b: V, c: V, d: V) -> Q", "transposed_bytes(a, b, c, d)")
            .with_function(
                "fn corrected(s: S, channels: vec4<u32>) -> vec4<f32>",
                "vec4<f32>(s - params.x_zero * sums_of_weights(channels))",
            )
    }

    /// Completes a variant of a tiled kernel for sums of products of bytes.
    fn bytes(variant: Variant) -> Variant {
        variant
            .with_type("V", "u32")
            .with_type("Q", "vec4<u32>")
            .with_type("S", "vec4<i32>")
            .with_function("fn widened(word: u32) -> V", "word")
            .with_function(
                "fn added(s: S, a: Q, b: V) -> S",
                "s + vec4<i32>(dot4I8Packed(a.x, b), dot4I8Packed(a.y, b), dot4I8Packed(a.z, b), dot4I8Packed(a.w, b))",
            )
    }

    /// Completes the variant for rows that are quantised by their own parameters.
    pub(crate) fn rows(variant: Variant) -> Variant {
        Self::bytes(variant)
            .with("FLOAT_OUT", 1)
            .with_type("Y", "f32")
            .with_function("fn x_words(at: u32) -> u32", "0u")
            .with_function(RESULT, "of_row(s, channels, row)")
    }
}

/// The head of the function that a tiled kernel stores the results of.
const RESULT: &str = "fn result(s: S, channels: vec4<u32>, row: u32) -> vec4<f32>";

const FOUR_VALUES: &str = "pack4(x_value(at), x_value(min(at + 1u, params.last_x)), x_value(min(at + 2u, params.last_x)), \
    x_value(min(at + 3u, params.last_x)))";

/// Scale and zero point of a tensor of bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quantised {
    pub(crate) scale: f64,
    pub(crate) zero_point: i32,
}

impl Quantised {
    /// Takes a scale above 0 and a zero point that a signed byte holds.
    pub(crate) fn take(args: &mut Args<'_>, names: [&'static str; 2]) -> Result<Self, OpError> {
        let (scale, zero_point) = elementwise::quantisation(args, names)?;
        #[allow(clippy::cast_possible_truncation, reason = "whole and within 32 bits")]
        let zero_point = zero_point as i32;
        if i8::try_from(zero_point).is_err() {
            return Err(OpError::new(names[1], format!("is {zero_point}, expected -128 to 127")));
        }
        Ok(Self { scale, zero_point })
    }
}

/// The tensors and numbers of a product with int8 weights.
#[derive(Debug)]
pub(crate) struct Product {
    pub(crate) x: TensorId,
    pub(crate) factor: Factor,
    /// Of the activations, unless they are floats.
    pub(crate) quantised: Option<Quantised>,
    pub(crate) weight: TensorId,
    /// The sum of each output channel's weights; exporters pad these, the scales and the bias.
    pub(crate) sums: Option<TensorId>,
    pub(crate) scales: TensorId,
    pub(crate) bias: Option<TensorId>,
    /// Of the output, unless it is floats.
    pub(crate) out_quantised: Option<Quantised>,
    /// The least and the largest integer of the output, if sums become its integers by one factor per channel. The bias is integers
    /// then, and the sums of weights are computed when those are uploaded.
    pub(crate) requantises: Option<[i8; 2]>,
    /// Whether the weight is `[k, n, 1]`, which is transposed when it is uploaded; only where sums are requantised.
    pub(crate) transposed: bool,
    pub(crate) relu: bool,
    pub(crate) out: TensorId,
}

impl Product {
    /// Takes the sums of the weights (if `sums`) and their scales.
    pub(crate) fn take_scales(args: &mut Args<'_>, sums: bool) -> Result<(Option<TensorId>, TensorId), OpError> {
        let sums = if sums { Some(args.tensor_of("weight_sums", &[Elem::I32])?) } else { None };
        Ok((sums, args.tensor_of("weight_scales", &[Elem::F32])?))
    }

    /// Takes the output: bytes if it is quantised, else floats.
    pub(crate) fn take_output(args: &mut Args<'_>, quantised: Option<Quantised>) -> Result<TensorId, OpError> {
        args.output_of("out", if quantised.is_some() { Elem::I8 } else { Elem::F32 })
    }

    /// Takes the activation after the sum: whether negative results are 0.
    pub(crate) fn take_activation(args: &mut Args<'_>) -> Result<bool, OpError> {
        match args.text("activation")? {
            "none" => Ok(false),
            "relu" => Ok(true),
            other => Err(OpError::new("activation", format!("is {other:?}, supported: \"none\", \"relu\""))),
        }
    }

    /// Checks that sums, scales and bias have at least `channels` elements.
    pub(crate) fn check_channels(&self, cx: &PlanCx<'_>, channels: u32) -> Result<(), OpError> {
        let tensors = [("weight_sums", self.sums), ("weight_scales", Some(self.scales)), ("bias", self.bias)];
        for (name, tensor) in tensors {
            if let Some(found) = tensor.map(|tensor| cx.dims(tensor)).filter(|dims| dims.len() != 1 || dims[0] < channels) {
                return Err(OpError::new(name, format!("is {found}, but the output has {channels} channels")));
            }
        }
        Ok(())
    }

    /// Fills the numbers that the end of every product needs, and the last words.
    pub(crate) fn fill(&self, cx: &PlanCx<'_>, params: Params) -> Params {
        let last = |bytes: u64, elem: Elem| u32::try_from((elem.bytes(bytes) / 4).saturating_sub(1)).unwrap_or(u32::MAX);
        let x = self.quantised.unwrap_or(Quantised { scale: 1.0, zero_point: 0 });
        let out = self.out_quantised.unwrap_or(Quantised { scale: 1.0, zero_point: 0 });
        #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
        let [x_scale, x_inverse, out_inverse, out_zero] =
            [x.scale, x.scale.recip(), out.scale.recip(), f64::from(out.zero_point)].map(|value| value as f32);
        Params {
            last_weight: last(cx.dims(self.weight).count(), Elem::I8),
            last_x: last(cx.dims(self.x).count(), if self.factor == Factor::Bytes { Elem::I8 } else { Elem::F32 }),
            flags: u32::from(self.bias.is_some()) | u32::from(self.relu) << 1,
            x_zero: x.zero_point,
            x_scale,
            x_inverse,
            out_inverse,
            out_zero,
            low: self.requantises.map_or(0.0, |[low, _]| f32::from(low) - out_zero),
            high: self.requantises.map_or(0.0, |[_, high]| f32::from(high) - out_zero),
            ..params
        }
    }

    /// The scales of a product whose sums are requantised.
    fn multipliers(&self, cx: &BoundsCx<'_>) -> Multipliers {
        #[allow(clippy::cast_possible_truncation, reason = "scales of programs are 32-bit floats")]
        let bits = |quantised: Option<Quantised>| quantised.map_or(1.0f32, |quantised| quantised.scale as f32).to_bits();
        Multipliers {
            count: cx.bound(self.scales).count_u32(),
            input: bits(self.quantised),
            output: bits(self.out_quantised),
        }
    }

    /// The constants of a product whose sums are requantised, which are computed when weights and scales are uploaded: factors, then sums
    /// of weights if the kernel reads those, then weights that are transposed.
    pub(crate) fn joined(&self, cx: &BoundsCx<'_>, sums: bool) -> Vec<JoinedConstants> {
        let factors = packed(self.scales, Packing::Multipliers(self.multipliers(cx)));
        let weights = weight_constants(self.weight, &cx.bound(self.weight)).into_iter().filter(|_| sums);
        [factors].into_iter().chain(weights).filter(|_| self.requantises.is_some()).collect()
    }

    /// The binding of scales or factors, and of the sums of weights.
    fn channel_binds(&self) -> [Bind; 2] {
        match self.requantises {
            Some(_) => [Bind::Joined(0), Bind::Joined(1)],
            None => [self.scales.into(), self.sums.unwrap_or(self.scales).into()],
        }
    }

    /// The recipes of a tiled kernel, in the order that [`dispatch`] selects from.
    pub(crate) fn recipes(&self, kernel: &'static KernelDef, finish: impl Fn(Variant) -> Variant) -> Vec<Recipe> {
        let [scales, sums] = self.channel_binds();
        let bias = self.bias.map_or(scales, Bind::from);
        let weight = if self.transposed { Bind::Joined(2) } else { self.weight.into() };
        let binds: [Bind; 6] = [self.x.into(), weight, sums, scales, bias, self.out.into()];
        let variant = finish(self.factor.applied(Variant::new(kernel), self.requantises.is_some()));
        let variant = variant.with("FLOAT_OUT", self.out_quantised.is_none().into());
        matmul::GEMM_TILES.iter().map(|&tile| Recipe::new(variant.clone().with("TILE", tile), binds)).collect()
    }

    /// The recipe of the depthwise kernel.
    pub(crate) fn depthwise_recipe(&self) -> Recipe {
        let binds = [self.x, self.weight, self.scales, self.bias.unwrap_or(self.scales), self.out].map(Into::into);
        let variant = Variant::new(&DEPTHWISE).with_type("Y", "f32");
        Recipe::new(variant.with("FLOAT_OUT", self.out_quantised.is_none().into()), binds)
    }

    /// The recipe of the depthwise kernel for channels last, which requantises; `whole` if each thread has four channels of a pixel.
    pub(crate) fn depthwise_channels_last(&self, transposed: bool, whole: bool) -> Recipe {
        let [scales, _] = self.channel_binds();
        let bias = self.bias.map_or(scales, Bind::from);
        let variant = Variant::new(&DEPTHWISE_CHANNELS_LAST).with_type("Y", "i32").with("REQUANTISE", 1);
        let variant = variant.with("TRANSPOSED", transposed.into()).with("WHOLE_CHANNELS", whole.into());
        Recipe::new(variant, [self.x.into(), self.weight.into(), scales, bias, self.out.into()])
    }

    /// The real number of a sum on the host, for references.
    #[cfg(any(test, feature = "reference"))]
    pub(crate) fn real(&self, tensors: &HostTensors, channel: usize, sum: f64) -> f64 {
        let scale = f64::from(tensors.f32(self.scales)[channel]) * self.quantised.map_or(1.0, |x| x.scale);
        let real = sum * scale + self.bias.map_or(0.0, |bias| tensors.f32(bias)[channel].into());
        if self.relu { real.max(0.0) } else { real }
    }

    /// Activations on the host, less their zero point.
    #[cfg(any(test, feature = "reference"))]
    pub(crate) fn activations(&self, tensors: &HostTensors) -> Vec<f64> {
        let zero = self.quantised.map_or(0, |x| x.zero_point);
        match (self.factor, self.quantised) {
            (Factor::Bytes, _) => {
                tensors.u8(self.x).iter().map(|&byte| f64::from(i32::from(byte.cast_signed()) - zero)).collect()
            }
            (Factor::Quantised, Some(x)) => {
                let steps = |value: f32| elementwise::requantised(value.into(), x.scale.recip(), zero.into());
                tensors.f32(self.x).iter().map(|&value| steps(value) - f64::from(zero)).collect()
            }
            _ => tensors.f32(self.x).iter().map(|&value| value.into()).collect(),
        }
    }

    /// Stores sums of integers with their channels as the output's elements on the host, by one factor per channel.
    #[cfg(any(test, feature = "reference"))]
    pub(crate) fn set_requantised(&self, tensors: &mut HostTensors, dims: Dims, sums: impl Iterator<Item = (usize, i64)>) {
        let (Some(x), Some(out), Some([low, high])) = (self.quantised, self.out_quantised, self.requantises) else { return };
        #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "programs compute in 32 bits")]
        let byte = |(channel, sum): (usize, i64)| {
            let sum = sum + self.bias.map_or(0, |bias| i64::from(tensors.i32(bias)[channel]));
            let factor = x.scale as f32 * tensors.f32(self.scales)[channel] / out.scale as f32;
            let bounds = [low, high].map(|bound| (i32::from(bound) - out.zero_point) as f32);
            let steps = (sum as f32 * factor).clamp(bounds[0], bounds[1]).round_ties_even() as i32;
            (steps + out.zero_point).to_le_bytes()[0]
        };
        let bytes = sums.map(byte).collect();
        tensors.set(self.out, dims, crate::reference::HostData::U8(bytes));
    }

    /// Stores real numbers as the output's elements on the host.
    #[cfg(any(test, feature = "reference"))]
    pub(crate) fn set(&self, tensors: &mut HostTensors, dims: crate::shape::Dims, real: &[f64]) {
        use crate::reference::HostData;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "tensors hold 32 bits, or a byte")]
        let data = match self.out_quantised {
            None => HostData::F32(real.iter().map(|&value| value as f32).collect()),
            Some(Quantised { scale, zero_point }) => {
                let byte = |&value: &f64| elementwise::requantised(value, scale.recip(), zero_point.into()) as i8 as u8;
                HostData::U8(real.iter().map(byte).collect())
            }
        };
        tensors.set(self.out, dims, data);
    }
}

/// A constant packed in a buffer of its own.
pub(crate) fn packed(tensor: TensorId, packing: Packing) -> JoinedConstants {
    JoinedConstants { parts: vec![JoinedPart { tensor, packing: Some(packing) }] }
}

/// Takes the least and the largest integer of an output.
pub(crate) fn take_bounds(args: &mut Args<'_>) -> Result<[i8; 2], OpError> {
    let mut bound = |name| {
        let value = args.int(name)?;
        i8::try_from(value).map_err(|_| OpError::new(name, format!("is {value}, expected -128 to 127")))
    };
    let bounds = [bound("output_min")?, bound("output_max")?];
    match bounds {
        [low, high] if low > high => Err(OpError::new("output_max", format!("is {high}, less than output_min, {low}"))),
        _ => Ok(bounds),
    }
}

/// Takes a constant of bytes, or of other elements.
pub(crate) fn take_constant(args: &mut Args<'_>, name: &'static str, elem: Elem) -> Result<TensorId, OpError> {
    let tensor = args.tensor_of(name, &[elem])?;
    if args.is_constant(tensor) { Ok(tensor) } else { Err(OpError::new(name, "is computed, expected a constant")) }
}

/// The sums of weights as a constant of their own, and the weights if they are `[k, n, 1]`: those are transposed.
pub(crate) fn weight_constants(weight: TensorId, dims: &Dims) -> Vec<JoinedConstants> {
    let &[rows, columns, 1] = &**dims else { return vec![packed(weight, Packing::RowSums(row_sums(dims)))] };
    let matrix = ByteMatrix { rows, columns };
    vec![packed(weight, Packing::ColumnSums(matrix)), packed(weight, Packing::ByteColumns(matrix))]
}

/// The rows and columns of a weight `[n, k]`, or `[k, n, 1]`; `None` for others.
pub(crate) fn matrix(dims: &Dims) -> Option<[u32; 2]> {
    match **dims {
        [n, k] | [k, n, 1] => Some([n, k]),
        _ => None,
    }
}

/// The sums of the weights of each output channel, the outermost dim of the weights.
fn row_sums(weight: &Dims) -> RowSums {
    let rows = weight.first().copied().unwrap_or(0);
    let stride = weight.count().checked_div(rows.into()).unwrap_or(0);
    RowSums { rows, stride: u32::try_from(stride).unwrap_or(u32::MAX) }
}

/// With fewer workgroups than this the small tile is selected: large GPUs have about as many processors.
const FULL_GRID: u32 = 128;

/// The dispatch of a tiled product; `None` if the output is empty.
pub(crate) fn dispatch(caps: Caps, params: &Params) -> Result<Option<Dispatch>, OpError> {
    let groups = |side: u32| {
        let tiles = u64::from(params.fast.div_ceil(side)) * u64::from(params.slow.div_ceil(side));
        tiles.saturating_mul(params.batches.into())
    };
    let [large, small] = matmul::GEMM_TILES;
    let fills =
        groups(large) >= caps.filled(GridKind::Tiles, FULL_GRID).into() && params.slow > small && params.fast > small;
    let tile = usize::from(!fills);
    Dispatch::groups(tile, params, groups(matmul::GEMM_TILES[tile]))
}
