//! Windows over images.

use super::super::*;
use super::Rules;
use crate::error::{Problem, Result};

impl Rules<'_> {
    /// The dims of an image.
    pub(super) fn image(&self, what: &'static str, id: ValueId) -> Result<[u32; 4]> {
        match *self.value(id).dims.as_slice() {
            [batch, height, width, channels] => Ok([batch, height, width, channels]),
            ref dims => self.fail(Problem::Size { what, found: dims.len() as u64, expected: 4 }),
        }
    }

    pub(super) fn positive(&self, what: &'static str, numbers: &[u32]) -> Result<()> {
        match numbers.contains(&0) {
            false => Ok(()),
            true => self.fail(Problem::Number { what, found: 0.to_string().into(), expected: "a number above 0" }),
        }
    }

    /// A window is within the padded image at its largest.
    pub(super) fn fits(&self, padding: Padding, kernel: Spatial, dilation: Spatial, image: [u32; 2]) -> Result<()> {
        let rows = (image[0], padding.top, padding.bottom, extent(kernel.height, dilation.height));
        let columns = (image[1], padding.left, padding.right, extent(kernel.width, dilation.width));
        for (size, before, after, window) in [rows, columns] {
            let limit = u64::from(size) + u64::from(before) + u64::from(after);
            if window > limit {
                let what = "the window with its dilation";
                return self.fail(Problem::TooMany { what, found: window, limit });
            }
        }
        Ok(())
    }

    pub(super) fn window(&self, padding: Padding, kernel: Spatial, stride: Spatial, dilation: Spatial) -> Result<()> {
        self.positive("the window", &[kernel.height, kernel.width])?;
        self.positive("a stride", &[stride.height, stride.width])?;
        self.positive("a dilation", &[dilation.height, dilation.width])?;
        let rows = (padding.top.max(padding.bottom), extent(kernel.height, dilation.height));
        let columns = (padding.left.max(padding.right), extent(kernel.width, dilation.width));
        for (found, window) in [rows, columns] {
            if u64::from(found) >= window {
                let what = "the padding of a window";
                return self.fail(Problem::TooMany { what, found: found.into(), limit: window - 1 });
            }
        }
        Ok(())
    }

    pub(super) fn pooled(
        &self,
        padding: Padding,
        kernel: Spatial,
        dilation: Spatial,
        input: ValueId,
        output: ValueId,
    ) -> Result<()> {
        let [batch, height, width, channels] = self.image("the input's rank", input)?;
        let [batches, _, _, found] = self.image("the output's rank", output)?;
        self.expect_dim("the output's batch", batches, batch.into())?;
        self.expect_dim("the output's channels", found, channels.into())?;
        self.fits(padding, kernel, dilation, [height, width])
    }

    pub(super) fn arg_max(
        &self,
        padding: Padding,
        kernel: Spatial,
        input: ValueId,
        output: ValueId,
        indices: ValueId,
    ) -> Result<()> {
        let [dtype, index] = [input, indices].map(|id| self.value(id).dtype);
        self.expect_type("the input's element type", dtype, dtype.is_float(), "a float type")?;
        self.same_type(&[input, output])?;
        self.expect_type("the element type of the indices", index, index == DataType::Int32, "int32")?;
        let dilation = Spatial { height: 1, width: 1 };
        self.window(padding, kernel, kernel, dilation)?;
        self.pooled(padding, kernel, dilation, input, output)?;
        self.equal_dims(output, indices)
    }
}

/// The elements from the first to the last of a window.
fn extent(kernel: u32, dilation: u32) -> u64 {
    (u64::from(kernel).saturating_sub(1)) * u64::from(dilation) + 1
}
