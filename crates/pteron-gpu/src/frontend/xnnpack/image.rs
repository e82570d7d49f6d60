//! Pools, means and resizing of images with channels last.

use pteron_format::xnnpack as file;

use super::Translator;
use crate::error::Result;
use crate::ir::{DataType, ValueId};
use crate::ops::{copy, pool, q8_mean, resample};

impl Translator<'_> {
    pub(super) fn pool(&mut self, node: &file::Node) -> Result<()> {
        let file::NodeKind::Pool { op, padding, kernel, stride, dilation, input, output } = &node.kind else {
            return Ok(());
        };
        let pair = |spatial: &file::Spatial| [spatial.height, spatial.width].map(i64::from);
        let paddings = [padding.top, padding.left, padding.bottom, padding.right].map(i64::from);
        let mut args =
            vec![self.builder.ints(&pair(kernel))?, self.builder.ints(&pair(stride))?, self.builder.ints(&paddings)?];
        let no = self.builder.bool(false)?;
        match op {
            file::PoolOp::Max => args.extend([self.builder.ints(&pair(dilation))?, no]),
            // Padding is not counted.
            file::PoolOp::Average => args.extend([no, no, self.builder.null()?]),
        }
        let name = if *op == file::PoolOp::Max { pool::MAX_CHANNELS_LAST } else { pool::AVG_CHANNELS_LAST };
        if !self.is_int8(*input)? {
            let args = [&[self.value(*input)?][..], &args].concat();
            return self.finish(name, &args, *output, node.output_range);
        }
        let (dims, out) = (self.dims(*input)?, self.dims(*output)?);
        if *op == file::PoolOp::Max {
            // The integers have the order of the numbers they stand for.
            let bytes = self.value(*input)?;
            let x = self.cast(bytes, DataType::Float32, &dims)?;
            let largest = self.floats(name, &[&[x][..], &args].concat(), &out)?;
            let largest = self.cast(largest, DataType::Int8, &out)?;
            self.set(*output, largest);
            return Ok(());
        }
        let x = self.dequantised(*input)?;
        let floats = self.floats(name, &[&[x][..], &args].concat(), &out)?;
        self.quantise(floats, *output)
    }

    pub(super) fn global_average(&mut self, input: file::ValueId, output: file::ValueId) -> Result<()> {
        let x = self.value(input)?;
        if self.is_int8(input)? {
            let args = [&[x][..], &self.quantised_args(&[input, output])?].concat();
            return self.compute(q8_mean::NAME, &args, output);
        }
        let args = [x, self.builder.ints(&[1, 2])?, self.builder.bool(true)?, self.builder.null()?];
        self.compute("aten.mean.dim", &args, output)
    }

    /// Maxima of windows that divide the image, and their positions: windows become a dim of their own.
    pub(super) fn argmax_pool(&mut self, node: &file::Node) -> Result<()> {
        let file::NodeKind::ArgMaxPool { padding, kernel, input, output, indices } = &node.kind else { return Ok(()) };
        let dims = self.dims(*input)?;
        let &[images, height, width, channels] = dims.as_slice() else { return self.refuse(node, "of no image") };
        let whole = height.is_multiple_of(kernel.height) && width.is_multiple_of(kernel.width);
        if *padding != file::Padding::default() || !whole || kernel.height == 0 || kernel.width == 0 {
            return self.refuse(node, "with windows that do not divide the image");
        }
        let (down, across) = (height / kernel.height, width / kernel.width);
        let x = self.value(*input)?;
        let parts = [images, down, kernel.height, across, kernel.width, channels];
        let x = self.reshaped(x, &parts)?;
        let (x, _) = self.permuted(x, DataType::Float32, &parts, &[0, 1, 3, 5, 2, 4])?;
        let taps = kernel.height.saturating_mul(kernel.width);
        let windows = self.reshaped(x, &[images, down, across, channels, taps])?;
        let (last, no) = (self.builder.int(-1)?, self.builder.bool(false)?);
        let axes = self.builder.ints(&[-1])?;
        self.compute("aten.amax.default", &[windows, axes, no], *output)?;
        self.compute("aten.argmax.default", &[windows, last, no], *indices)
    }

    /// A view with these dims; the first is left open.
    fn reshaped(&mut self, x: ValueId, dims: &[u32]) -> Result<ValueId> {
        let sizes: Vec<i64> = dims.iter().enumerate().map(|(axis, &dim)| if axis == 0 { -1 } else { dim.into() }).collect();
        let sizes = self.builder.ints(&sizes)?;
        self.floats(copy::RESHAPE, &[x, sizes], dims)
    }

    pub(super) fn resize(
        &mut self,
        size: file::Spatial,
        align_corners: bool,
        input: file::ValueId,
        output: file::ValueId,
    ) -> Result<()> {
        let (x, out) = (self.dequantised(input)?, self.dims(output)?);
        let sizes = self.builder.ints(&[size.height, size.width].map(i64::from))?;
        let args = [x, sizes, self.builder.bool(align_corners)?, self.builder.null()?];
        let floats = self.floats(resample::CHANNELS_LAST, &args, &out)?;
        self.quantise(floats, output)
    }
}
