//! Convolutions of images with channels last.

use pteron_format::xnnpack as file;

use super::{CHANNELS_FIRST, CHANNELS_LAST, Rows, Translator};
use crate::error::Result;
use crate::ir::{DataType, ValueId};
use crate::ops::{convolution, q8_conv};

impl Translator<'_> {
    pub(super) fn convolution(&mut self, node: &file::Node, it: &file::Convolution) -> Result<()> {
        let range = node.output_range;
        match self.dtype(it.input)? {
            file::DataType::QInt8 => self.int8_convolution(it, range),
            file::DataType::QdInt8 if self.is_layer(it)? => self.layer_of_pixels(it, range),
            file::DataType::QdInt8 => self.dynamic_convolution(it, range),
            _ => {
                let (x, weight) = (self.value(it.input)?, self.float_filter(it)?);
                let bias = self.bias(it.bias)?;
                self.float_convolution(it, [x, weight, bias], range)
            }
        }
    }

    /// Whether XNNPACK computes it as a fully connected layer of pixels.
    fn is_layer(&self, it: &file::Convolution) -> Result<bool> {
        let one = file::Spatial { height: 1, width: 1 };
        let alone = it.kernel == one && it.stride == one && it.padding == file::Padding::default() && it.groups == 1;
        let integers = self.dtype(it.filter)? == file::DataType::QcInt8;
        Ok(it.kind == file::ConvolutionKind::Direct && alone && integers)
    }

    /// The name of the filter's order.
    fn layout(&mut self, it: &file::Convolution) -> Result<ValueId> {
        self.builder.text(if it.kind == file::ConvolutionKind::Depthwise { "depthwise" } else { "channels_last" })
    }

    /// The arguments from the stride to the number of groups.
    fn geometry(&mut self, it: &file::Convolution) -> Result<[ValueId; 6]> {
        let pair = |spatial: file::Spatial| [spatial.height, spatial.width].map(i64::from);
        let padding = [it.padding.top, it.padding.left, it.padding.bottom, it.padding.right].map(i64::from);
        Ok([
            self.builder.ints(&pair(it.stride))?,
            self.builder.ints(&padding)?,
            self.builder.ints(&pair(it.dilation))?,
            self.builder.bool(it.kind == file::ConvolutionKind::Transposed)?,
            self.builder.ints(&pair(it.adjustment))?,
            self.builder.int(it.groups.into())?,
        ])
    }

    /// A filter as floats. Integers are computed from the constant in every call: programs have them with other activations only.
    fn float_filter(&mut self, it: &file::Convolution) -> Result<ValueId> {
        if self.dtype(it.filter)?.is_float() {
            return self.value(it.filter);
        }
        let (weight, dims) = (self.integer_filter(it)?, self.dims(it.filter)?);
        let channels = it.groups.saturating_mul(it.group_output_channels);
        let scales = self.filter_scales(it.filter, channels)?;
        // One scale along the channels of the output, which are the first or the last dim.
        let mut shape = [1i64; 4];
        shape[if it.kind == file::ConvolutionKind::Depthwise { 3 } else { 0 }] = channels.into();
        let sizes = self.builder.ints(&shape)?;
        let bound: Vec<u32> = shape.iter().map(|&size| u32::try_from(size).unwrap_or(u32::MAX)).collect();
        let scales = self.floats(crate::ops::copy::RESHAPE, &[scales, sizes], &bound)?;
        self.floats("aten.mul.Tensor", &[weight, scales], &dims)
    }

    /// The integers of a filter as floats.
    fn integer_filter(&mut self, it: &file::Convolution) -> Result<ValueId> {
        let dims = self.dims(it.filter)?;
        let weight = self.constant(it.filter, DataType::Int8, &dims)?;
        self.cast(weight, DataType::Float32, &dims)
    }

    /// A convolution of floats: of channels last where the kernels compute it so, else between permutations.
    fn float_convolution(
        &mut self,
        it: &file::Convolution,
        [x, weight, bias]: [ValueId; 3],
        range: Option<file::OutputRange>,
    ) -> Result<()> {
        let layout = self.layout(it)?;
        let geometry = self.geometry(it)?;
        let range = range.unwrap_or(file::OutputRange { min: f32::NEG_INFINITY, max: f32::INFINITY });
        let bounds = [self.builder.double(range.min.into())?, self.builder.double(range.max.into())?];
        let constant = self.builder.tensor_at(weight).is_some_and(|tensor| tensor.constant.is_some());
        if constant && convolution::fused::computes(it.groups, [it.group_input_channels, it.group_output_channels]) {
            let none = self.builder.null()?;
            let zero = self.builder.double(0.0)?;
            let no = self.builder.bool(false)?;
            let args =
                [&[x, weight, layout, bias][..], &geometry, &bounds, &[none, zero, zero, zero, zero, none, no]].concat();
            return self.compute(convolution::fused::NAME, &args, it.output);
        }
        let (input, output) = (self.dims(it.input)?, self.dims(it.output)?);
        let (x, _) = self.permuted(x, DataType::Float32, &input, &CHANNELS_FIRST)?;
        let first: Vec<u32> = CHANNELS_FIRST.iter().filter_map(|&axis| output.get(axis).copied()).collect();
        let args = [&[x, weight, layout, bias][..], &geometry, &bounds].concat();
        let out = self.floats(convolution::WITH_LAYOUT, &args, &first)?;
        let order = self.builder.ints(&CHANNELS_LAST.map(|axis| i64::try_from(axis).unwrap_or(i64::MAX)))?;
        self.compute("aten.permute_copy.default", &[out, order], it.output)
    }

    fn int8_convolution(&mut self, it: &file::Convolution, range: Option<file::OutputRange>) -> Result<()> {
        let (dims, channels) = (self.dims(it.filter)?, it.groups.saturating_mul(it.group_output_channels));
        let mut args = vec![self.value(it.input)?];
        args.extend(self.quantised_args(&[it.input])?);
        args.push(self.constant(it.filter, DataType::Int8, &dims)?);
        args.push(self.layout(it)?);
        args.push(self.filter_scales(it.filter, channels)?);
        args.push(self.bias(it.bias)?);
        args.extend(self.quantised_args(&[it.output])?);
        args.extend(self.bounds_args(it.output, range)?);
        args.extend(self.geometry(it)?);
        self.compute(q8_conv::requantised::NAME, &args, it.output)
    }

    /// A convolution of images that are quantised when the graph runs: of the integers less the zero point, whose sums are whole numbers,
    /// then by the image's scale and the channels' scales.
    fn dynamic_convolution(&mut self, it: &file::Convolution, range: Option<file::OutputRange>) -> Result<()> {
        let (dims, out) = (self.dims(it.input)?, self.dims(it.output)?);
        let Rows { source, multipliers, zero_points } = self.rows(it.input)?;
        let per_image = [dims.first().copied().unwrap_or(1), 1, 1, 1];
        let zero_points = self.cast(zero_points, DataType::Float32, &per_image)?;
        let one = self.builder.int(1)?;
        let [low, high] = [self.builder.int(i8::MIN.into())?, self.builder.int(i8::MAX.into())?];
        let steps = self.floats("aten.mul.Tensor", &[source, multipliers], &dims)?;
        let steps = self.floats("aten.round.default", &[steps], &dims)?;
        let steps = self.floats("aten.add.Tensor", &[steps, zero_points, one], &dims)?;
        let steps = self.floats("aten.clamp.default", &[steps, low, high], &dims)?;
        let steps = self.floats("aten.sub.Tensor", &[steps, zero_points, one], &dims)?;
        let weight = if self.dtype(it.filter)?.is_float() { self.value(it.filter)? } else { self.integer_filter(it)? };
        let (none, sums) = (self.builder.null()?, file::Convolution { ..*it });
        self.float_convolution(&sums, [steps, weight, none], None)?;
        let sums = self.value(it.output)?;
        let real = self.floats("aten.div.Tensor", &[sums, multipliers], &out)?;
        let scales = self.filter_scales(it.filter, it.groups.saturating_mul(it.group_output_channels))?;
        match it.bias {
            None => self.finish("aten.mul.Tensor", &[real, scales], it.output, range),
            Some(bias) => {
                let scaled = self.floats("aten.mul.Tensor", &[real, scales], &out)?;
                let args = [scaled, self.value(bias)?, one];
                self.finish("aten.add.Tensor", &args, it.output, range)
            }
        }
    }
}
