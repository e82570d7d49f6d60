//! Fully connected layers and products of matrices.

use pteron_format::xnnpack as file;

use super::{Rows, Translator, data_type};
use crate::error::Result;
use crate::ir::{DataType, ValueId};
use crate::ops::{linear_dq8ca_q4gsw, linear_q4gsw, mm, q8_linear};

/// The operands of a fully connected layer.
#[derive(Clone, Copy)]
struct Layer {
    input: file::ValueId,
    filter: file::ValueId,
    bias: Option<file::ValueId>,
    output: file::ValueId,
    transposed: bool,
    /// Columns of the output, and of the input.
    n: u32,
    k: u32,
}

impl Translator<'_> {
    pub(super) fn fully_connected(&mut self, node: &file::Node) -> Result<()> {
        use file::DataType as Type;
        let file::NodeKind::FullyConnected { input, filter, bias, output, transposed_filter } = node.kind else {
            return Ok(());
        };
        let dims = self.dims(filter)?;
        let [mut n, mut k] = <[u32; 2]>::try_from(dims).unwrap_or_default();
        if transposed_filter {
            (n, k) = (k, n);
        }
        let layer = Layer { input, filter, bias, output, transposed: transposed_filter, n, k };
        let filter_type = self.dtype(filter)?;
        let integers = matches!(filter_type, Type::QInt8 | Type::QcInt8);
        if transposed_filter && !filter_type.is_float() && !(integers && self.dtype(input)?.is_quantized()) {
            return self.refuse(node, "with a transposed filter of integers");
        }
        match (self.dtype(input)?, filter_type) {
            (Type::QInt8, _) => self.int8_layer(layer, node.output_range),
            (Type::QdInt8, Type::QcInt8) => self.dynamic_layer(layer, node.output_range),
            (Type::QdInt8, _) => self.dynamic_4bit_layer(layer, node.output_range),
            (_, Type::QcInt8) => {
                let weight = self.constant(filter, DataType::Int8, &[n, k])?;
                let args = [self.value(input)?, weight, self.filter_scales(filter, n)?, self.bias(bias)?];
                self.finish("et_vk.linear_q8csw.default", &args, output, node.output_range)
            }
            (_, Type::QcInt4 | Type::QbInt4) => {
                let [weight, scales, group] = self.weights_of_4_bits(layer)?;
                let args = [self.value(input)?, weight, scales, group, self.bias(bias)?];
                self.finish(linear_q4gsw::ANY_ORDER, &args, output, node.output_range)
            }
            _ => self.float_layer(layer, node.output_range),
        }
    }

    /// A bias, or None.
    pub(super) fn bias(&mut self, bias: Option<file::ValueId>) -> Result<ValueId> {
        match bias {
            Some(bias) => self.value(bias),
            None => self.builder.null(),
        }
    }

    fn float_layer(&mut self, layer: Layer, range: Option<file::OutputRange>) -> Result<()> {
        let (x, weight) = (self.value(layer.input)?, self.value(layer.filter)?);
        if !layer.transposed {
            let args = [x, weight, self.bias(layer.bias)?];
            return self.finish("aten.linear.default", &args, layer.output, range);
        }
        if self.dims(layer.input)?.len() == 2 {
            let Some(bias) = layer.bias else { return self.finish("aten.mm.default", &[x, weight], layer.output, range) };
            let one = self.builder.int(1)?;
            let args = [self.value(bias)?, x, weight, one, one];
            return self.finish("aten.addmm.default", &args, layer.output, range);
        }
        let dtype = data_type(self.dtype(layer.filter)?);
        let (weight, _) = self.permuted(weight, dtype, &[layer.k, layer.n], &[1, 0])?;
        let args = [x, weight, self.bias(layer.bias)?];
        self.finish("aten.linear.default", &args, layer.output, range)
    }

    fn int8_layer(&mut self, layer: Layer, range: Option<file::OutputRange>) -> Result<()> {
        let Layer { input, filter, bias, output, n, .. } = layer;
        let mut args = vec![self.value(input)?];
        args.extend(self.quantised_args(&[input])?);
        args.push(self.int8_filter(layer)?);
        args.push(self.filter_scales(filter, n)?);
        args.push(self.bias(bias)?);
        args.extend(self.quantised_args(&[output])?);
        args.extend(self.bounds_args(output, range)?);
        self.compute(q8_linear::REQUANTISED, &args, output)
    }

    /// A filter of bytes, as it lies in the constant: operators take a transposed one as `[in, out, 1]`.
    fn int8_filter(&mut self, Layer { filter, transposed, n, k, .. }: Layer) -> Result<ValueId> {
        if transposed {
            return self.constant(filter, DataType::Int8, &[k, n, 1]);
        }
        self.constant(filter, DataType::Int8, &[n, k])
    }

    fn dynamic_layer(&mut self, layer: Layer, range: Option<file::OutputRange>) -> Result<()> {
        let rows = self.rows(layer.input)?;
        self.layer_of_rows(layer, rows, range)
    }

    /// A convolution whose filter is one pixel: a layer, whose rows are pixels. The file's quantisation says that images share a scale,
    /// but XNNPACK chooses one for each row of a layer.
    pub(super) fn layer_of_pixels(&mut self, it: &file::Convolution, range: Option<file::OutputRange>) -> Result<()> {
        let (n, k) = (it.group_output_channels, it.group_input_channels);
        let &file::Convolution { input, filter, bias, output, .. } = it;
        let rows = self.rows(input)?;
        let rows = self.rows_of(rows.source, &self.dims(input)?, 1)?;
        self.layer_of_rows(Layer { input, filter, bias, output, transposed: false, n, k }, rows, range)
    }

    fn layer_of_rows(&mut self, layer: Layer, rows: Rows, range: Option<file::OutputRange>) -> Result<()> {
        let Layer { filter, bias, output, n, .. } = layer;
        let Rows { source, multipliers, zero_points } = rows;
        let weight = self.int8_filter(layer)?;
        let scales = self.filter_scales(filter, n)?;
        let args = [source, multipliers, zero_points, weight, scales, self.bias(bias)?];
        self.finish(q8_linear::rows::NAME, &args, output, range)
    }

    fn dynamic_4bit_layer(&mut self, layer: Layer, range: Option<file::OutputRange>) -> Result<()> {
        let Rows { source, multipliers, zero_points } = self.rows(layer.input)?;
        let [weight, scales, group] = self.weights_of_4_bits(layer)?;
        let args = [source, multipliers, zero_points, weight, scales, group, self.bias(layer.bias)?];
        self.finish(linear_dq8ca_q4gsw::MULTIPLIERS, &args, layer.output, range)
    }

    /// Weights, scales and group size of a filter of 4 bits: one scale per channel is one group.
    fn weights_of_4_bits(&mut self, Layer { filter, n, k, .. }: Layer) -> Result<[ValueId; 3]> {
        let weight = self.constant(filter, DataType::UInt8, &[n, k.div_ceil(2)])?;
        let group = match self.file_value(filter)?.quantization {
            Some(file::Quantization::PerGroup { group_size, .. }) => group_size,
            _ => k,
        };
        let scales = self.channel_scales_as_groups(filter, n)?;
        Ok([weight, scales, self.builder.int(group.into())?])
    }

    /// The rows of a value that is quantised when the graph runs.
    pub(super) fn rows(&self, id: file::ValueId) -> Result<Rows> {
        let missing = || super::invalid(format!("reads value {id}, which no node quantises"));
        self.dynamic.get(&id).copied().ok_or_else(missing)
    }

    pub(super) fn matmul(&mut self, inputs: [file::ValueId; 2], output: file::ValueId, transposed: bool) -> Result<()> {
        let (a, mut b) = (self.dequantised(inputs[0])?, self.dequantised(inputs[1])?);
        if transposed {
            let dims = self.dims(inputs[1])?;
            let mut order: Vec<usize> = (0..dims.len()).collect();
            let rank = order.len();
            order.swap(rank.saturating_sub(1), rank.saturating_sub(2));
            (b, _) = self.permuted(b, DataType::Float32, &dims, &order)?;
        }
        if !self.is_int8(output)? {
            return self.compute(mm::MATMUL, &[a, b], output);
        }
        let dims = self.dims(output)?;
        let floats = self.floats(mm::MATMUL, &[a, b], &dims)?;
        self.quantise(floats, output)
    }
}
