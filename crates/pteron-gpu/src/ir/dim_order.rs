//! The order of a tensor's dims in memory.

/// The order of a tensor's dims in memory, outermost first. `[0, 2, 3, 1]` is channels-last (NHWC) memory of a tensor whose
/// dims are NCHW.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DimOrder {
    /// Empty for the contiguous order, whatever the rank.
    order: Vec<u8>,
}

impl DimOrder {
    /// The contiguous order.
    pub const CONTIGUOUS: Self = Self { order: Vec::new() };

    /// Creates an order; `None` unless it contains every dim once.
    #[must_use]
    pub fn new(order: &[u8]) -> Option<Self> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !is_ascending(&sorted) {
            return None;
        }
        Some(if is_ascending(order) { Self::CONTIGUOUS } else { Self { order: order.to_vec() } })
    }

    /// Whether the order is contiguous.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether it is an order of `rank` dims.
    #[must_use]
    pub fn fits_rank(&self, rank: usize) -> bool {
        self.is_contiguous() || self.order.len() == rank
    }

    /// The dims in memory order; `None` if their number differs.
    #[must_use]
    pub fn memory_dims(&self, dims: &[u32]) -> Option<Vec<u32>> {
        if self.is_contiguous() {
            return Some(dims.to_vec());
        }
        if self.order.len() != dims.len() {
            return None;
        }
        self.order.iter().map(|&dim| dims.get(usize::from(dim)).copied()).collect()
    }
}

/// Whether the order is 0, 1, 2 and so on.
fn is_ascending(order: &[u8]) -> bool {
    order.iter().enumerate().all(|(index, &dim)| usize::from(dim) == index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_last_memory_has_the_channels_innermost() {
        let order = DimOrder::new(&[0, 2, 3, 1]).unwrap();
        assert!(!order.is_contiguous() && order.fits_rank(4) && !order.fits_rank(3));
        assert_eq!(order.memory_dims(&[1, 8, 5, 7]), Some(vec![1, 5, 7, 8]));
        assert_eq!(order.memory_dims(&[1, 8, 5]), None);
    }

    #[test]
    fn an_order_names_every_dim_once() {
        assert_eq!(DimOrder::new(&[0, 1, 2]), Some(DimOrder::CONTIGUOUS));
        assert_eq!(DimOrder::new(&[]), Some(DimOrder::CONTIGUOUS));
        for order in [&[0, 0][..], &[1], &[0, 2], &[3, 0, 1, 255]] {
            assert_eq!(DimOrder::new(order), None, "{order:?}");
        }
    }
}
