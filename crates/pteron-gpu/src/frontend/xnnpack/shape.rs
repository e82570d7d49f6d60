//! Nodes that move elements.

use pteron_format::xnnpack as file;

use super::Translator;
use crate::error::Result;
use crate::ops::copy;

impl Translator<'_> {
    pub(super) fn concatenate(&mut self, axis: u32, inputs: &[file::ValueId], output: file::ValueId) -> Result<()> {
        let values = inputs.iter().map(|&input| self.value(input)).collect::<Result<Vec<_>>>()?;
        let args = [self.builder.list(&values)?, self.builder.int(axis.into())?];
        self.compute("aten.cat.default", &args, output)
    }

    pub(super) fn transpose(&mut self, permutation: &[u32], input: file::ValueId, output: file::ValueId) -> Result<()> {
        let order: Vec<i64> = permutation.iter().map(|&axis| axis.into()).collect();
        let args = [self.value(input)?, self.builder.ints(&order)?];
        self.compute("aten.permute_copy.default", &args, output)
    }

    /// Other dims for the same elements; a 0 is the size that follows from the others.
    pub(super) fn reshape(&mut self, dims: &[u32], input: file::ValueId, output: file::ValueId) -> Result<()> {
        let sizes: Vec<i64> = dims.iter().map(|&dim| if dim == 0 { -1 } else { dim.into() }).collect();
        let args = [self.value(input)?, self.builder.ints(&sizes)?];
        self.compute(copy::RESHAPE, &args, output)
    }

    /// A box, cut to the live dims: a dim that is taken whole follows its live size.
    pub(super) fn slice(
        &mut self,
        [offsets, sizes]: [&[u32]; 2],
        input: file::ValueId,
        output: file::ValueId,
    ) -> Result<()> {
        let (mut value, mut dims) = (self.value(input)?, self.dims(input)?);
        let dtype = super::data_type(self.dtype(input)?);
        let mut cuts: Vec<(usize, u32, u64)> = Vec::new();
        for (axis, (&offset, &size)) in offsets.iter().zip(sizes).enumerate() {
            let end = u64::from(offset) + u64::from(size);
            if dims.get(axis).is_some_and(|&dim| offset > 0 || end < dim.into()) {
                cuts.push((axis, offset, end));
            }
        }
        let one = self.builder.int(1)?;
        let Some((last, before)) = cuts.split_last() else {
            return self.compute("aten.alias_copy.default", &[value], output);
        };
        for &(axis, offset, end) in before {
            let args = [value, self.index(axis)?, self.builder.int(offset.into())?, self.end(end)?, one];
            dims[axis] = u32::try_from(end).unwrap_or(u32::MAX).min(dims[axis]).saturating_sub(offset);
            value = self.builder.compute("aten.slice_copy.Tensor", &args, dtype, &dims)?;
        }
        let &(axis, offset, end) = last;
        let args = [value, self.index(axis)?, self.builder.int(offset.into())?, self.end(end)?, one];
        self.compute("aten.slice_copy.Tensor", &args, output)
    }

    fn index(&mut self, axis: usize) -> Result<crate::ir::ValueId> {
        self.builder.int(i64::try_from(axis).unwrap_or(i64::MAX))
    }

    fn end(&mut self, end: u64) -> Result<crate::ir::ValueId> {
        self.builder.int(i64::try_from(end).unwrap_or(i64::MAX))
    }

    pub(super) fn pad(
        &mut self,
        [before, after]: [&[u32]; 2],
        value: f32,
        input: file::ValueId,
        output: file::ValueId,
    ) -> Result<()> {
        let number = if self.is_int8(input)? { f64::from(self.quantised(input)?.integer(value)) } else { value.into() };
        // The last dim comes first.
        let pairs = before.iter().zip(after).rev().flat_map(|(&before, &after)| [before, after]);
        let sizes: Vec<i64> = pairs.map(i64::from).collect();
        let args = [self.value(input)?, self.builder.ints(&sizes)?, self.builder.double(number)?];
        self.compute("aten.constant_pad_nd.default", &args, output)
    }
}
