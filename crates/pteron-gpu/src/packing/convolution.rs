//! The weights of convolutions of tensors with channels last.

/// Output channels per tile.
pub(super) const TILE_CHANNELS: u32 = 16;
/// The products of an output are padded to a multiple of this: kernels process slices of them.
pub const SLICE: u32 = 32;

/// The order of a convolution's weights in a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightLayout {
    /// Output channels, input channels of a group, taps.
    OutIn,
    /// Input channels, output channels of a group, taps: transposed convolutions.
    InOut,
    /// Output channels, taps, input channels of a group, also of transposed convolutions.
    ChannelsLast,
    /// Taps, output channels. Groups have one input channel.
    Depthwise,
}

impl WeightLayout {
    /// The layouts of weights that come with images with channels last, by the names that calls have for them.
    pub const NAMED: [(&'static str, Self); 3] =
        [("channels_first", Self::OutIn), ("channels_last", Self::ChannelsLast), ("depthwise", Self::Depthwise)];

    /// The distances from one group, output channel, input channel and tap to the next.
    #[must_use]
    pub fn strides(self, groups: u32, [channels_in, channels_out]: [u32; 2], taps: u32) -> [u64; 4] {
        let [groups, channels_in, channels_out, taps] = [groups, channels_in, channels_out, taps].map(u64::from);
        let matrix = channels_in.saturating_mul(channels_out).saturating_mul(taps);
        match self {
            Self::OutIn => [matrix, channels_in.saturating_mul(taps), taps, 1],
            Self::InOut => [matrix, taps, channels_out.saturating_mul(taps), 1],
            Self::ChannelsLast => [matrix, channels_in.saturating_mul(taps), 1, channels_in],
            Self::Depthwise => [channels_out, 1, 0, groups.saturating_mul(channels_out)],
        }
    }
}

/// The layout of a convolution's 32-bit weights: tiles of 16 output channels of a group. A tile has a row of its channels
/// for each tap and input channel: taps in order, of each the channels padded to a multiple of four. Missing ones are 0. Weights of
/// depthwise convolutions are one tile: a row of all channels for each tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvolutionTiles {
    /// Groups of channels.
    pub groups: u32,
    /// Input channels of a group.
    pub channels_in: u32,
    /// Output channels of a group.
    pub channels_out: u32,
    /// Elements of a kernel.
    pub taps: u32,
    /// The order of the weights in the constant.
    pub layout: WeightLayout,
    /// Whether all groups are in one tile. Groups have one input channel.
    pub depthwise: bool,
    /// Whether weights are rounded to 16 bits.
    pub half: bool,
}

impl ConvolutionTiles {
    /// Input channels of a tap, padded to a multiple of four.
    #[must_use]
    pub fn padded_channels(&self) -> u64 {
        u64::from(self.channels_in).next_multiple_of(4)
    }

    /// The rows of a tile.
    #[must_use]
    pub fn rows(&self) -> u64 {
        if self.depthwise {
            return self.taps.into();
        }
        u64::from(self.taps).saturating_mul(self.padded_channels()).next_multiple_of(SLICE.into())
    }

    /// Weights per row of a tile.
    #[must_use]
    pub fn row_weights(&self) -> u64 {
        let all = u64::from(self.groups) * u64::from(self.channels_out);
        if self.depthwise { all.next_multiple_of(4) } else { TILE_CHANNELS.into() }
    }

    /// Tiles of a group.
    #[must_use]
    pub fn tiles_per_group(&self) -> u32 {
        if self.depthwise { 1 } else { self.channels_out.div_ceil(TILE_CHANNELS) }
    }

    /// Tiles of all groups.
    #[must_use]
    pub fn tiles(&self) -> u64 {
        if self.depthwise { 1 } else { u64::from(self.groups) * u64::from(self.tiles_per_group()) }
    }

    /// Bytes per tile.
    #[must_use]
    pub fn tile_bytes(&self) -> u64 {
        self.rows().saturating_mul(self.row_weights()).saturating_mul(if self.half { 2 } else { 4 })
    }

    /// The index of a weight in the constant.
    fn source(&self, group: u64, out: u64, channel: u64, tap: u64) -> u64 {
        let strides = self.layout.strides(self.groups, [self.channels_in, self.channels_out], self.taps);
        let at = [group, out, channel, tap].into_iter().zip(strides);
        at.fold(0u64, |at, (index, stride)| at.saturating_add(index.saturating_mul(stride)))
    }

    /// Packs one tile.
    pub(super) fn pack(&self, source: &[u8], tile: usize, packed: &mut [u8]) {
        let (tile, per_group) = (tile as u64, u64::from(self.tiles_per_group()).max(1));
        let row = usize::try_from(self.row_weights()).unwrap_or(usize::MAX).saturating_mul(if self.half { 2 } else { 4 });
        for (index, row) in (0u64..).zip(packed.chunks_exact_mut(row.max(1))) {
            let (tap, channel) = match self.depthwise {
                true => (index, 0),
                false => (index / self.padded_channels().max(1), index % self.padded_channels().max(1)),
            };
            let bytes = row.chunks_exact_mut(if self.half { 2 } else { 4 });
            for (column, to) in (0u64..).zip(bytes) {
                let (group, out) = match self.depthwise {
                    true => (column / u64::from(self.channels_out).max(1), column % u64::from(self.channels_out).max(1)),
                    false => (tile / per_group, tile % per_group * u64::from(TILE_CHANNELS) + column),
                };
                let exists = group < self.groups.into()
                    && out < self.channels_out.into()
                    && channel < self.channels_in.into()
                    && tap < self.taps.into();
                let at = usize::try_from(self.source(group, out, channel, tap)).ok().and_then(|at| at.checked_mul(4));
                let weight = at.filter(|_| exists).and_then(|at| source.get(at..)?.first_chunk::<4>());
                self.put(weight.map_or(0.0, |bytes| f32::from_le_bytes(*bytes)), to);
            }
        }
    }

    fn put(&self, weight: f32, to: &mut [u8]) {
        if self.half {
            // An infinity would spoil every sum.
            let (low, high) = (half::f16::MIN.to_f32(), half::f16::MAX.to_f32());
            to.copy_from_slice(&half::f16::from_f32(weight.clamp(low, high)).to_le_bytes());
        } else {
            to.copy_from_slice(&weight.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Packing;
    use super::*;

    fn packed(layout: ConvolutionTiles, weights: &[f32]) -> Vec<f32> {
        let bytes: Vec<u8> = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
        let packing = Packing::Convolution(layout);
        let size = usize::try_from(packing.tile_bytes()).unwrap();
        let mut tiles = vec![1; usize::try_from(packing.bytes()).unwrap()];
        assert_eq!(packing.tiles_of(&bytes), tiles.len() / size);
        tiles.chunks_exact_mut(size).enumerate().for_each(|(tile, to)| packing.pack(&bytes, tile, to));
        match layout.half {
            true => tiles.chunks_exact(2).map(|half| half::f16::from_le_bytes([half[0], half[1]]).to_f32()).collect(),
            false => tiles.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect(),
        }
    }

    #[test]
    fn each_weight_is_in_the_row_of_its_tap_and_channel() {
        let sizes = [(1, 3, 20, 9, false), (2, 5, 4, 6, true), (3, 8, 16, 1, true), (1, 1, 33, 4, false)];
        let orders = [WeightLayout::OutIn, WeightLayout::InOut, WeightLayout::ChannelsLast];
        for ((groups, channels_in, channels_out, taps, half), order) in
            sizes.into_iter().flat_map(|sizes| orders.map(|order| (sizes, order)))
        {
            let layout = ConvolutionTiles { groups, channels_in, channels_out, taps, layout: order, depthwise: false, half };
            let count = groups * channels_in * channels_out * taps;
            let weights: Vec<f32> = (1..=count).map(|weight| weight as f32).collect();
            let tiles = packed(layout, &weights);
            let rows = u32::try_from(layout.rows()).unwrap();
            let mut found = 0;
            for at in 0..count {
                // The indices of a place, the innermost first.
                let split = |sizes: [u32; 3]| {
                    let [a, b, c] = sizes;
                    (at % a, at / a % b, at / a / b % c, at / a / b / c)
                };
                let (group, out, channel, tap) = match order {
                    WeightLayout::InOut => {
                        let (tap, out, channel, group) = split([taps, channels_out, channels_in]);
                        (group, out, channel, tap)
                    }
                    WeightLayout::ChannelsLast => {
                        let (channel, tap, out, group) = split([channels_in, taps, channels_out]);
                        (group, out, channel, tap)
                    }
                    _ => {
                        let (tap, channel, out, group) = split([taps, channels_in, channels_out]);
                        (group, out, channel, tap)
                    }
                };
                let tile = group * channels_out.div_ceil(16) + out / 16;
                let row = tap * channels_in.next_multiple_of(4) + channel;
                let place = (tile * rows + row) * 16 + out % 16;
                assert_eq!(tiles[place as usize], weights[at as usize], "{layout:?}, weight {at}");
                found += 1;
            }
            let zeros = tiles.iter().filter(|&&weight| weight == 0.0).count();
            assert_eq!(zeros + found, tiles.len(), "{layout:?}: padding is 0");
        }
    }

    #[test]
    fn depthwise_weights_have_a_row_per_tap() {
        let first = [[1, 3, 5, 7, 9, 11, 0, 0], [2, 4, 6, 8, 10, 12, 0, 0]].concat();
        let last = [[1, 2, 3, 4, 5, 6, 0, 0], [7, 8, 9, 10, 11, 12, 0, 0]].concat();
        for (order, expected) in [(WeightLayout::OutIn, first), (WeightLayout::Depthwise, last)] {
            let layout = ConvolutionTiles {
                groups: 3,
                channels_in: 1,
                channels_out: 2,
                taps: 2,
                layout: order,
                depthwise: true,
                half: false,
            };
            let weights: Vec<f32> = (1..=12u8).map(f32::from).collect();
            let expected: Vec<f32> = expected.into_iter().map(|weight: u8| f32::from(weight)).collect();
            assert_eq!(packed(layout, &weights), expected, "{order:?}");
        }
    }

    #[test]
    fn weights_beyond_16_bits_stay_finite() {
        let layout = ConvolutionTiles {
            groups: 1,
            channels_in: 1,
            channels_out: 2,
            taps: 1,
            layout: WeightLayout::OutIn,
            depthwise: false,
            half: true,
        };
        assert_eq!(packed(layout, &[1e30, -1e30])[..2], [65504.0, -65504.0]);
    }
}
