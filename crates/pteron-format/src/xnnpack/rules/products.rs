//! Products with weights: linear layers and convolutions.

use super::super::*;
use super::Rules;
use crate::error::{Problem, Result};

impl Rules<'_> {
    /// The element types of a product with weights.
    fn product_types(&self, input: ValueId, filter: ValueId, bias: Option<ValueId>, output: ValueId) -> Result<()> {
        use DataType as D;
        let [input, weights, result] = [input, filter, output].map(|id| self.value(id).dtype);
        let packed = matches!(weights, D::QcInt8 | D::QcInt4 | D::QbInt4);
        let (fits, filters, integer_bias, results) = match input {
            D::Float32 | D::Float16 | D::BFloat16 => {
                (weights.is_float() || packed, "a float type, qcint8, qcint4 or qbint4", None, result == input)
            }
            D::QdInt8 => (packed, "qcint8, qcint4 or qbint4", None, result.is_float()),
            D::QInt8 => {
                let bias = if weights == D::QcInt8 { D::QcInt32 } else { D::QInt32 };
                (matches!(weights, D::QInt8 | D::QcInt8), "qint8 or qcint8", Some(bias), result == D::QInt8)
            }
            D::QUInt8 => (weights == D::QUInt8, "quint8", Some(D::QInt32), result == D::QUInt8),
            other => {
                return self.expect_type("the input's element type", other, false, "a float type, qint8, quint8 or qdint8");
            }
        };
        self.expect_type("the filter's element type", weights, fits, filters)?;
        let expected = if input == D::QdInt8 { "a float type" } else { "the input's" };
        self.expect_type("the output's element type", result, results, expected)?;
        self.symmetric(filter)?;
        let Some(bias) = bias.map(|id| self.value(id).dtype) else { return Ok(()) };
        match integer_bias {
            None => self.expect_type("the bias's element type", bias, bias.is_float(), "a float type"),
            Some(expected) => self.expect_type("the bias's element type", bias, bias == expected, expected.name()),
        }
    }

    /// Signed weights have no zero point.
    fn symmetric(&self, filter: ValueId) -> Result<()> {
        let filter = self.value(filter);
        match filter.quantization {
            Some(Quantization::PerTensor { zero_point, .. }) if zero_point != 0 && filter.dtype == DataType::QInt8 => {
                let found = zero_point.to_string();
                self.fail(Problem::Number { what: "the filter's zero point", found: found.into(), expected: "0" })
            }
            _ => Ok(()),
        }
    }

    fn expect_constant(&self, what: &'static str, id: ValueId) -> Result<()> {
        if self.value(id).constant.is_some() {
            return Ok(());
        }
        self.fail(Problem::Kind { what, found: "computed", expected: "a constant" })
    }

    /// Scales per channel are scales per output channel.
    fn expect_axis(&self, filter: ValueId, expected: u32) -> Result<()> {
        match self.value(filter).quantization {
            Some(Quantization::PerChannel { axis, .. } | Quantization::PerGroup { axis, .. }) => {
                self.expect_dim("the dim of the filter's scales", axis, expected.into())
            }
            _ => Ok(()),
        }
    }

    /// A bias is a row, whatever dims of 1 stand before it.
    fn expect_bias(&self, bias: Option<ValueId>, channels: u64) -> Result<()> {
        let Some(bias) = bias.map(|id| self.value(id)) else { return Ok(()) };
        match bias.element_count() {
            Some(count) if count == channels => Ok(()),
            count => {
                let found = count.unwrap_or(u64::MAX);
                self.fail(Problem::Size { what: "the length of the bias", found, expected: channels })
            }
        }
    }

    pub(super) fn fully_connected(
        &self,
        input: ValueId,
        filter: ValueId,
        bias: Option<ValueId>,
        output: ValueId,
        transposed: bool,
    ) -> Result<()> {
        self.product_types(input, filter, bias, output)?;
        let weights = self.value(filter);
        let &[rows, columns] = weights.dims.as_slice() else {
            return self.expect_size("the filter's rank", weights.dims.len(), 2);
        };
        if transposed && weights.dtype.is_4bit() {
            let found = weights.dtype.name();
            let expected = "one of whole bytes, as the filter is transposed";
            return self.fail(Problem::Kind { what: "the filter's element type", found, expected });
        }
        let (outputs, inputs) = if transposed { (columns, rows) } else { (rows, columns) };
        self.expect_axis(filter, u32::from(transposed))?;
        self.expect_bias(bias, outputs.into())?;
        let Some((&last, leading)) = self.value(input).dims.split_last() else {
            return self.at_least("the input's rank", 0, 1, "1 or more");
        };
        self.expect_dim("the input's last dim", last, inputs.into())?;
        let found = &self.value(output).dims;
        self.expect_size("the output's rank", found.len(), leading.len() + 1)?;
        found
            .iter()
            .zip(leading.iter().chain([&outputs]))
            .try_for_each(|(&found, &dim)| self.expect_dim("a dim of the output", found, dim.into()))
    }

    pub(super) fn convolution(&self, params: &Convolution) -> Result<()> {
        let Convolution { kind, padding, kernel, stride, dilation, adjustment, groups, .. } = *params;
        let Convolution { group_input_channels, group_output_channels, input, filter, bias, output, .. } = *params;
        self.product_types(input, filter, bias, output)?;
        let weights = self.value(filter).dtype;
        self.expect_type("the filter's element type", weights, !weights.is_4bit(), "one of whole bytes")?;
        self.expect_constant("the filter", filter)?;
        bias.map_or(Ok(()), |bias| self.expect_constant("the bias", bias))?;
        self.positive("the filter's size", &[kernel.height, kernel.width])?;
        self.positive("a stride", &[stride.height, stride.width])?;
        self.positive("a dilation", &[dilation.height, dilation.width])?;
        self.positive("the number of groups or of their channels", &[groups, group_input_channels, group_output_channels])?;
        let channels = [group_input_channels, group_output_channels].map(|count| u64::from(groups) * u64::from(count));
        let [batch, height, width, inputs] = self.image("the input's rank", input)?;
        self.expect_dim("the input's channels", inputs, channels[0])?;
        let [batches, _, _, outputs] = self.image("the output's rank", output)?;
        self.expect_dim("the output's batch", batches, batch.into())?;
        self.expect_dim("the output's channels", outputs, channels[1])?;
        self.expect_bias(bias, channels[1])?;
        let filter_dims = self.image("the filter's rank", filter)?;
        let (expected, axis) = match kind {
            ConvolutionKind::Depthwise => {
                self.expect_dim("the input channels of a group", group_input_channels, 1)?;
                ([1, kernel.height.into(), kernel.width.into(), channels[1]], 3)
            }
            ConvolutionKind::Direct | ConvolutionKind::Transposed => {
                ([channels[1], kernel.height.into(), kernel.width.into(), group_input_channels.into()], 0)
            }
        };
        for (found, expected) in filter_dims.into_iter().zip(expected) {
            self.expect_dim("a dim of the filter", found, expected)?;
        }
        self.expect_axis(filter, axis)?;
        if kind == ConvolutionKind::Transposed {
            return Ok(());
        }
        self.expect_dim("the adjustment", adjustment.height.max(adjustment.width), 0)?;
        self.fits(padding, kernel, dilation, [height, width])
    }
}
