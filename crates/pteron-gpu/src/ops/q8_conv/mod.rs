//! Convolutions with int8 weights, one scale per output channel: of quantised activations, with exact integer sums, or of floats. Each row
//! of `TABLE` is an operator.
//!
//! Weights are `[output channels, ≥ kernel height · kernel width · channels of a group]` in this order, or, for depthwise convolutions,
//! `[kernel height, kernel width, output channels]`.

#[cfg(any(test, feature = "reference"))]
mod reference;
pub mod requantised;
#[cfg(test)]
pub(crate) mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::int8::{self, CONV, DEPTHWISE, Factor, MAX_K, Params, Product, Quantised};
use crate::ops::{OpDef, names};
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::HostTensors;
use crate::shape::Dims;

/// The operators of the family.
const TABLE: &[(&str, Row)] = &[
    ("et_vk.q8ta_conv2d.default", Row::INT8),
    ("et_vk.q8ta_conv2d_pw.default", Row::INT8),
    ("et_vk.q8ta_conv2d_dw.default", Row::INT8),
    ("et_vk.q8ta_conv2d_general.default", Row::INT8),
    ("et_vk.q8ta_conv2d_im2col.default", Row::INT8),
    ("et_vk.q8ta_conv2d_transposed.default", Row { transposed: true, ..Row::INT8 }),
    ("et_vk.conv2d_q8ta_q8csw_q8to.default", Row { activation: false, ..Row::INT8 }),
    ("et_vk.conv2d_q8ta_q8csw_q8to_dw.default", Row { activation: false, ..Row::INT8 }),
    ("et_vk.conv2d_q8ta_q8csw.default", Row { quantises: false, activation: false, ..Row::INT8 }),
    ("et_vk.conv2d_q8csw.default", Row { quantised: false, quantises: false, activation: false, ..Row::INT8 }),
];

/// The arguments of an operator.
#[derive(Debug)]
struct Row {
    /// Whether activations have a scale and a zero point, and weights sums.
    quantised: bool,
    /// Whether the output has a scale and a zero point.
    quantises: bool,
    transposed: bool,
    /// Whether an activation comes last.
    activation: bool,
}

impl Row {
    const INT8: Self = Self { quantised: true, quantises: true, transposed: false, activation: true };
}

static NAMES: [&str; TABLE.len()] = names!(TABLE, 0);

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef { names: &NAMES, internal: &[], kernels: &[&CONV, &DEPTHWISE], decode };

#[derive(Debug)]
struct Conv {
    product: Product,
    kernel: [u32; 2],
    stride: [u32; 2],
    padding: [u32; 2],
    dilation: [u32; 2],
    output_padding: [u32; 2],
    groups: u32,
    transposed: bool,
    depthwise: bool,
    /// Output channels.
    channels: u32,
    /// Whether a group's channels are a multiple of 4, if the file fixes them.
    whole_channels: bool,
}

/// Sizes, strides, paddings and dilations larger than this are rejected: indices formed from them must fit 32 bits.
const MAX_SIZE: i64 = 1 << 15;

/// Takes two numbers for rows and columns.
fn pair(args: &mut Args<'_>, name: &'static str, least: i64) -> Result<[u32; 2], OpError> {
    let sizes = args.ints(name)?;
    let &[y, x] = sizes.as_slice() else {
        return Err(OpError::new(name, format!("has {} numbers, expected 2", sizes.len())));
    };
    match [y, x].map(|size| u32::try_from(size).ok().filter(|_| (least..=MAX_SIZE).contains(&size))) {
        [Some(y), Some(x)] => Ok([y, x]),
        _ => Err(OpError::new(name, format!("is {sizes:?}, expected numbers from {least} to {MAX_SIZE}"))),
    }
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let (_, row) = args.row(TABLE);
    let x = args.tensor_of("x", if row.quantised { &[Elem::I8, Elem::F32] } else { &[Elem::F32] })?;
    let quantised = if row.quantised { Some(Quantised::take(args, ["input_scale", "input_zero_point"])?) } else { None };
    let weight = args.tensor_of("weights", &[Elem::I8])?;
    let (sums, scales) = Product::take_scales(args, row.quantised)?;
    let out_quantised =
        if row.quantises { Some(Quantised::take(args, ["output_scale", "output_zero_point"])?) } else { None };
    let bias = args.optional_tensor_of("bias", &[Elem::F32])?;
    let (kernel, stride, padding) = (pair(args, "kernel_size", 1)?, pair(args, "stride", 1)?, pair(args, "padding", 0)?);
    let output_padding = if row.transposed { pair(args, "output_padding", 0)? } else { [0; 2] };
    let dilation = pair(args, "dilation", 1)?;
    let groups = args.int("groups")?;
    // Files of some exporters end before it.
    let relu = row.activation && args.left() > 1 && Product::take_activation(args)?;
    let out = Product::take_output(args, out_quantised)?;
    let factor = Factor::of(args.info(x).elem, row.quantised);
    let (requantises, transposed) = (None, false);
    let product =
        Product { x, factor, quantised, weight, sums, scales, bias, out_quantised, requantises, transposed, relu, out };
    let (input, output) = (image("x", &args.info(x).bound)?, image("out", &args.info(out).bound)?);
    let channels = output[1];
    let depthwise = args.info(weight).bound.len() == 3;
    let Some(groups) =
        u32::try_from(groups).ok().filter(|&groups| groups > 0 && input[1] % groups == 0 && channels % groups == 0)
    else {
        let reason = format!("is {groups}, but the input has {} channels and the output {channels}", input[1]);
        return Err(OpError::new("groups", reason));
    };
    if depthwise && (groups != input[1] || row.transposed || factor != Factor::Bytes) {
        let reason = format!(
            "is {}, for which `groups` must be the input's {} channels, not {groups}",
            args.info(weight).bound,
            input[1]
        );
        return Err(OpError::new("weights", reason));
    }
    let whole_channels = (input[1] / groups).is_multiple_of(4);
    Ok(Box::new(Conv {
        product,
        kernel,
        stride,
        padding,
        dilation,
        output_padding,
        groups,
        transposed: row.transposed,
        depthwise,
        channels,
        whole_channels,
    }))
}

/// The dims of a batch of images.
fn image(name: &'static str, dims: &Dims) -> Result<[u32; 4], OpError> {
    <[u32; 4]>::try_from(&**dims).map_err(|_| OpError::new(name, format!("is {dims}, expected four dimensions")))
}

impl Conv {
    /// The output's size in one direction.
    fn out_size(&self, size: u32, axis: usize) -> Result<u32, OpError> {
        let [kernel, stride, padding, dilation, output_padding] =
            [self.kernel, self.stride, self.padding, self.dilation, self.output_padding].map(|pair| i64::from(pair[axis]));
        let span = dilation * (kernel - 1) + 1;
        let out = if self.transposed {
            (i64::from(size) - 1) * stride - 2 * padding + span + output_padding
        } else {
            let padded = i64::from(size) + 2 * padding;
            if padded < span {
                let reason = format!("of {kernel} spans {span} pixels, but the padded input has {padded}");
                return Err(OpError::new("kernel_size", reason));
            }
            (padded - span) / stride + 1
        };
        let fits = u32::try_from(out).ok().filter(|&out| out > 0 && out < 1 << 24 && size < 1 << 24);
        fits.ok_or_else(|| OpError::new("x", format!("has {size} pixels in a direction, which makes {out} of the output")))
    }

    /// The dims of the output and the parameters, for consistent live shapes.
    fn sizes(&self, cx: &PlanCx<'_>) -> Result<(Dims, Params), OpError> {
        let x = cx.dims(self.product.x);
        let [batch, channels, height, width] = image("x", &x)?;
        if channels % self.groups != 0 || (self.whole_channels && !(channels / self.groups).is_multiple_of(4)) {
            let reason = format!("is {x}, whose {channels} channels are not those of the file in {} groups", self.groups);
            return Err(OpError::new("x", reason));
        }
        let [out_height, out_width] = [self.out_size(height, 0)?, self.out_size(width, 1)?];
        let out = Dims::of([batch, self.channels, out_height, out_width]);
        self.product.check_channels(cx, self.channels)?;
        let group = channels / self.groups;
        let weight = cx.dims(self.product.weight);
        let [kernel_height, kernel_width] = self.kernel;
        let k = u64::from(kernel_height) * u64::from(kernel_width) * u64::from(group);
        let fits = match *weight {
            [rows, columns] => !self.depthwise && rows >= self.channels && u64::from(columns) >= k,
            [rows, columns, last] => self.depthwise && [rows, columns] == self.kernel && last == self.channels,
            _ => false,
        };
        if !fits {
            let reason = format!("is {weight}, expected {} output channels of {k} weights", self.channels);
            return Err(OpError::new("weights", reason));
        }
        let Some(k) = u32::try_from(k).ok().filter(|&k| k <= MAX_K) else {
            return Err(OpError::new(
                "weights",
                format!("is {weight}, {k} products per sum are more than the {MAX_K} that are exact"),
            ));
        };
        let params = Params {
            fast: out_height.saturating_mul(out_width),
            slow: if self.depthwise { self.channels } else { self.channels / self.groups },
            k,
            batches: if self.depthwise { batch } else { batch.saturating_mul(self.groups) },
            channels: group,
            height,
            width,
            out_width,
            kernel_height,
            kernel_width,
            stride_y: self.stride[0],
            stride_x: self.stride[1],
            margin_y: self.padding[0],
            margin_x: self.padding[1],
            dilation_y: self.dilation[0],
            dilation_x: self.dilation[1],
            groups: self.groups,
            weight_stride: weight.last(),
            ..Params::default()
        };
        Ok((out, self.product.fill(cx, params)))
    }
}

impl Op for Conv {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        if self.depthwise {
            return Ok(Recipes::of([self.product.depthwise_recipe()]));
        }
        let words = cx.bound(self.product.weight).last().is_multiple_of(4);
        Ok(Recipes::of(self.product.recipes(&CONV, |variant| {
            let variant = variant.with("TRANSPOSED", self.transposed.into()).with("WORD_ROWS", words.into());
            variant.with("WHOLE_CHANNELS", self.whole_channels.into())
        })))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (out, params) = self.sizes(cx)?;
        let step = if out.count() == 0 {
            None
        } else if self.depthwise {
            Dispatch::items(0, &params, out.count(), 1024)?
        } else {
            int8::dispatch(cx.caps(), &params)?
        };
        Ok(Plan::new(self.product.out, out, step))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (out, params) = self.sizes(cx)?;
        reference::run(self, &out, &params, tensors);
        Ok(())
    }
}
