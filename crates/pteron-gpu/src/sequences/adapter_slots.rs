//! The slots of a loaded graph: where the matrices of an adapter go, in which order of rows, and as which bytes.

use std::collections::HashMap;

use pteron_format::adapter::{LoraAdapter, LowRankUpdate, Projection, half_split_row};

use super::adapters::labelled;
use crate::graph::DecodedGraph;
use crate::live::TensorId;
use crate::ops::lora::{Lora, LoraMatrices};
use crate::ops::sdpa::paged::PagedSdpa;

/// An adapter that does not fit a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdapterMisfit {
    /// A graph that was not loaded for adapters, or a slot that it does not have.
    #[error("the adapter is for slot {slot}, but the model was loaded with {slots} slots for adapters")]
    Slot {
        /// The slot.
        slot: u32,
        /// The number of slots.
        slots: u32,
    },
    /// A rank above the largest.
    #[error("the adapter's rank is {found}, but the model was loaded for ranks up to {most}")]
    Rank {
        /// The adapter's rank.
        found: u32,
        /// The largest rank.
        most: u32,
    },
    /// A linear that the graph does not have, or that was not to be updated.
    #[error("the adapter updates {projection} of layer {layer}, which the model does not have or was not loaded to update")]
    Linear {
        /// The layer.
        layer: u32,
        /// The linear.
        projection: Projection,
    },
    /// An update for a linear of another shape.
    #[error("the adapter updates {projection} of layer {layer} as {found:?}, but the model's is {expected:?}")]
    Shape {
        /// The layer.
        layer: u32,
        /// The linear.
        projection: Projection,
        /// Rows and columns of the update.
        found: [u32; 2],
        /// Rows and columns of the linear.
        expected: [u32; 2],
    },
}

/// The slots for adapters of a graph.
#[derive(Debug)]
pub struct AdapterSlots<'a> {
    /// The number of slots.
    slots: u32,
    /// The largest rank.
    rank: u32,
    /// The elements of a head, if adjacent ones are rotated as pairs.
    rotated_head: Option<u32>,
    sites: Vec<Site<'a>>,
}

/// Linears that one operator updates.
#[derive(Debug)]
struct Site<'a> {
    matrices: &'a LoraMatrices,
    linears: Vec<Option<(u32, Projection)>>,
}

/// The sink of the bytes of a slot: a constant, and an offset in it.
pub type WriteSlot<'w, E> = dyn FnMut(TensorId, u64, &[u8]) -> Result<(), E> + 'w;

impl<'a> AdapterSlots<'a> {
    /// The slots of a graph; none if it was not rewritten for adapters.
    #[must_use]
    pub fn of(graph: &'a DecodedGraph) -> Self {
        let site = |op: &'a Lora| Site {
            matrices: &op.matrices,
            linears: op.labels.iter().map(|&label| labelled(label)).collect(),
        };
        let sites: Vec<_> = graph.nodes.iter().filter_map(|node| node.op.downcast().map(site)).collect();
        let attention = graph.nodes.iter().find_map(|node| node.op.downcast::<PagedSdpa>());
        let head = |op: &PagedSdpa| op.rotates_pairs().then(|| graph.info(op.operands()[0]).bound.last());
        let first = sites.first().map(|site| site.matrices);
        let (slots, rank) = first.map_or((0, 0), |first| (first.slots, first.rank));
        Self { slots, rank, rotated_head: attention.and_then(head), sites }
    }

    /// The number of slots.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// The largest rank of an adapter.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Bytes of GPU memory that the slots take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let of = |site: &Site<'_>| {
            let LoraMatrices { slots, rank, k, widths, .. } = site.matrices;
            let (count, width) = (widths.len() as u64, widths.iter().copied().map(u64::from).sum::<u64>());
            u64::from(*slots) * (u64::from(*rank) * 2 * (count * u64::from(*k) + width) + 4 * count)
        };
        self.sites.iter().map(of).sum()
    }

    /// Checks that an adapter fits a slot.
    ///
    /// # Errors
    /// The first misfit.
    pub fn check(&self, slot: u32, adapter: &LoraAdapter) -> Result<(), AdapterMisfit> {
        if slot >= self.slots {
            return Err(AdapterMisfit::Slot { slot, slots: self.slots });
        }
        if adapter.rank() > self.rank {
            return Err(AdapterMisfit::Rank { found: adapter.rank(), most: self.rank });
        }
        let mut linears = HashMap::new();
        for site in &self.sites {
            for (linear, &width) in site.linears.iter().zip(&site.matrices.widths) {
                linears.insert(*linear, [width, site.matrices.k]);
            }
        }
        for &LowRankUpdate { layer, projection, rows, columns, .. } in adapter.updates() {
            let Some(&expected) = linears.get(&Some((layer, projection))) else {
                return Err(AdapterMisfit::Linear { layer, projection });
            };
            let found = [rows, columns];
            let whole_heads = self.head_of(projection).is_none_or(|head| head > 0 && rows % head == 0);
            if found != expected || !whole_heads {
                return Err(AdapterMisfit::Shape { layer, projection, found, expected });
            }
        }
        Ok(())
    }

    /// The elements of a head whose rows are in another order in adapters.
    fn head_of(&self, projection: Projection) -> Option<u32> {
        self.rotated_head.filter(|_| matches!(projection, Projection::Query | Projection::Key))
    }

    /// Writes an adapter into a slot: the matrices of the linears that it updates, and zero as the scale of all others.
    ///
    /// # Errors
    /// An adapter that [does not fit](Self::check), before anything is written; what `write` fails with.
    pub fn write<E: From<AdapterMisfit>>(
        &self,
        slot: u32,
        adapter: &LoraAdapter,
        write: &mut WriteSlot<'_, E>,
    ) -> Result<(), E> {
        self.check(slot, adapter)?;
        let updates: HashMap<_, _> = adapter.updates().iter().map(|own| ((own.layer, own.projection), own)).collect();
        for Site { matrices, linears } in &self.sites {
            let LoraMatrices { a, b, scales, rank, k, widths, .. } = matrices;
            let (slot, count) = (u64::from(slot), linears.len() as u64);
            let width: u64 = widths.iter().copied().map(u64::from).sum();
            let (a_bytes, row_bytes) = (2 * u64::from(*rank) * u64::from(*k), 2 * u64::from(*rank));
            let mut factors = Vec::with_capacity(linears.len());
            let mut first = 0;
            for ((index, linear), own) in (0u64..).zip(linears).zip(widths) {
                let update = linear.and_then(|linear| updates.get(&linear).copied());
                let packed = update.and_then(|update| Packed::new(update, *rank, self.head_of(update.projection)));
                factors.push(packed.as_ref().map_or(0.0, |packed| packed.factor));
                if let Some(packed) = packed {
                    write(*a, (slot * count + index) * a_bytes, &packed.a)?;
                    write(*b, (slot * width + first) * row_bytes, &packed.b)?;
                }
                first += u64::from(*own);
            }
            let bytes: Vec<u8> = factors.iter().flat_map(|factor: &f32| factor.to_le_bytes()).collect();
            write(*scales, slot * count * 4, &bytes)?;
        }
        Ok(())
    }
}

/// The matrices of an update as kernels read them: 16-bit floats, scaled by powers of two so that none of the larger numbers is lost, ranks
/// padded with zeros.
struct Packed {
    a: Vec<u8>,
    b: Vec<u8>,
    /// What the product is multiplied by.
    factor: f32,
}

impl Packed {
    /// `None` if the update is zero.
    fn new(update: &LowRankUpdate, rank: u32, rotated_head: Option<u32>) -> Option<Self> {
        let (own, rank) = (update.rank as usize, rank as usize);
        let (by_a, by_b) = (power_of_two(&update.a)?, power_of_two(&update.b)?);
        // Numbers whose product is out of range give the largest one.
        let factor = (update.scale / (by_a * by_b)).clamp(-f32::MAX, f32::MAX);
        let mut a: Vec<u8> = update.a.iter().flat_map(|&x| half::f16::from_f32(x * by_a).to_le_bytes()).collect();
        a.resize(2 * rank * update.columns as usize, 0);
        let mut b = Vec::with_capacity(2 * rank * update.rows as usize);
        for row in 0..update.rows {
            let from = rotated_head.map_or(row, |head| half_split_row(row, head)) as usize;
            let values = update.b.get(from * own..(from + 1) * own).unwrap_or_default();
            b.extend(values.iter().flat_map(|&x| half::f16::from_f32(x * by_b).to_le_bytes()));
            b.resize(2 * rank * (row as usize + 1), 0);
        }
        (factor != 0.0).then_some(Self { a, b, factor })
    }
}

/// A power of two by which the largest of some numbers is multiplied to be near 2^10: 16-bit floats have 24 more powers below that. `None` if
/// all are zero.
fn power_of_two(values: &[f32]) -> Option<f32> {
    let largest = values.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    if largest == 0.0 {
        return None;
    }
    // Both the power and its inverse are 32-bit floats.
    let exponent = i32::try_from(largest.to_bits() >> 23).map_or(0, |biased| biased - 127);
    let wanted = (10 - exponent).clamp(-117, 126);
    Some(f32::from_bits((wanted + 127).cast_unsigned() << 23))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(a: Vec<f32>, b: Vec<f32>) -> LowRankUpdate {
        LowRankUpdate { layer: 0, projection: Projection::Query, rank: 1, columns: 2, rows: 4, scale: 0.5, a, b }
    }

    fn floats(bytes: &[u8]) -> Vec<f32> {
        bytes.chunks_exact(2).map(|pair| half::f16::from_le_bytes([pair[0], pair[1]]).to_f32()).collect()
    }

    #[test]
    fn matrices_are_scaled_padded_and_reordered() {
        let packed = Packed::new(&update(vec![0.5, -0.25], vec![1e-6, 2e-6, 3e-6, 4e-6]), 4, Some(4)).unwrap();
        assert_eq!(floats(&packed.a), [1024.0, -512.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let b = floats(&packed.b);
        assert_eq!(b.len(), 16);
        // Rows of the two halves of a head alternate.
        for (row, expected) in [1e-6f32, 3e-6, 2e-6, 4e-6].into_iter().enumerate() {
            let product = packed.factor * 1024.0 * b[4 * row];
            assert!((product - 0.25 * expected).abs() < 1e-3 * expected, "{product} in row {row}");
            assert_eq!(b[4 * row + 1..4 * row + 4], [0.0; 3]);
        }
    }

    #[test]
    fn extreme_numbers_stay_finite_and_zero_updates_nothing() {
        for (a, b) in [(1e-38, 1e38), (3e38, 3e38), (1e-38, 1e-38)] {
            let packed = Packed::new(&update(vec![a; 2], vec![b; 4]), 4, None);
            let Some(packed) = packed else { continue };
            assert!(packed.factor.is_finite() && floats(&packed.a).iter().chain(&floats(&packed.b)).all(|x| x.is_finite()));
        }
        assert!(Packed::new(&update(vec![0.0; 2], vec![1.0; 4]), 4, None).is_none());
        assert!(Packed::new(&update(vec![1.0; 2], vec![0.0; 4]), 4, None).is_none());
    }
}
