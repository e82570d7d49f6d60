//! Constants of a delegate, and the scales of weights.

use pteron_format::xnnpack as file;

use super::{Translator, invalid};
use crate::error::Result;
use crate::ir::{ConstantSource, DataType, Tensor, ValueId};

impl Translator<'_> {
    /// Adds a tensor with the bytes of a value's constant, as this type and these dims.
    pub(super) fn constant(&mut self, id: file::ValueId, dtype: DataType, dims: &[u32]) -> Result<ValueId> {
        let Some(constant) = self.file_value(id)?.constant else {
            return Err(invalid(format!("computes value {id}, which must be a constant")));
        };
        self.stored(constant, dtype, dims)
    }

    fn stored(&mut self, constant: file::ConstantId, dtype: DataType, dims: &[u32]) -> Result<ValueId> {
        let Some(file::Constant { source, .. }) = self.graph.constants.get(constant.index()) else {
            return Err(invalid(format!("refers to constant {constant}, which it does not have")));
        };
        let source = match source {
            file::ConstantSource::Named(key) => ConstantSource::Named(key.clone()),
            file::ConstantSource::Stored(_) => ConstantSource::Stored,
        };
        self.builder.delegate_constant(Tensor::new(dtype, dims), constant.0, source)
    }

    /// The scales of a constant filter: `[channels]`, or `[channels, groups, 1]` for scales per group. One scale for all is repeated.
    pub(super) fn filter_scales(&mut self, filter: file::ValueId, channels: u32) -> Result<ValueId> {
        if let Some(&known) = self.scales.get(&filter) {
            return Ok(known);
        }
        let value = self.file_value(filter)?;
        let (scales, dims, grouped) = match &value.quantization {
            Some(file::Quantization::PerTensor { scale, .. }) => {
                let scale = *scale;
                // The file has one: the others are charged before they are made.
                self.builder.charge(channels as usize / 16)?;
                (file::Scales::Inline(vec![scale; channels as usize]), vec![channels], false)
            }
            Some(file::Quantization::PerChannel { scales, .. }) => (scales.clone(), vec![channels], false),
            Some(file::Quantization::PerGroup { group_size, scales, .. }) => {
                let groups = value.dims.last().copied().and_then(|width| width.checked_div(*group_size)).unwrap_or(0);
                (scales.clone(), vec![channels, groups, 1], true)
            }
            _ => return Err(invalid(format!("has a filter, value {filter}, without scales"))),
        };
        let added = match scales {
            file::Scales::Constant { id, .. } => {
                self.stored(id, if grouped { DataType::BFloat16 } else { DataType::Float32 }, &dims)?
            }
            file::Scales::Inline(scales) => {
                let bytes = scales.iter().flat_map(|&scale| if grouped { as_bf16(scale) } else { scale }.to_le_bytes());
                self.builder.bytes(DataType::Float32, &dims, bytes.collect())?
            }
        };
        self.scales.insert(filter, added);
        Ok(added)
    }

    /// One scale per output channel of a filter of 4 bits as scales of one group: `[channels, 1, 1]`.
    pub(super) fn channel_scales_as_groups(&mut self, filter: file::ValueId, channels: u32) -> Result<ValueId> {
        let Some(file::Quantization::PerChannel { scales, .. }) = &self.file_value(filter)?.quantization else {
            return self.filter_scales(filter, channels);
        };
        let dims = [channels, 1, 1];
        match scales.clone() {
            file::Scales::Constant { id, .. } => self.stored(id, DataType::Float32, &dims),
            file::Scales::Inline(scales) => {
                let bytes = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
                self.builder.bytes(DataType::Float32, &dims, bytes)
            }
        }
    }
}

/// A scale as files of older exporters store it, rounded as they are loaded: to bfloat16, up by half a step at most.
fn as_bf16(scale: f32) -> f32 {
    const ROUND_UP: f32 = 1.003_891;
    f32::from_bits((scale * ROUND_UP).to_bits() & 0xffff_0000)
}

#[cfg(test)]
mod tests {
    use super::as_bf16;

    #[test]
    fn inline_scales_lose_their_lower_half() {
        for scale in [0.0123f32, 1.0, 3.7e-5] {
            let rounded = as_bf16(scale);
            assert_eq!(rounded.to_bits() & 0xffff, 0);
            assert!((rounded / scale - 1.0).abs() < 0.004, "{scale}: {rounded}");
        }
        assert_eq!(as_bf16(1.0), 1.0);
    }
}
