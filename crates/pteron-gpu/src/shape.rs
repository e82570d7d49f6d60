//! Dimensions of tensors, and the rules about them that operators share.

use std::fmt;
use std::ops::Deref;

/// The largest rank a kernel indexes.
pub const MAX_RANK: usize = 8;

/// The dimensions of a tensor, outermost first. Small enough to copy.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dims {
    rank: u8,
    dims: [u32; MAX_RANK],
}

impl Dims {
    /// The dimensions of a scalar.
    pub const SCALAR: Self = Self { rank: 0, dims: [0; MAX_RANK] };

    /// These dimensions, unless there are more than [`MAX_RANK`].
    #[must_use]
    pub fn new(dims: &[u32]) -> Option<Self> {
        let mut all = [0; MAX_RANK];
        all.get_mut(..dims.len())?.copy_from_slice(dims);
        Some(Self { rank: u8::try_from(dims.len()).ok()?, dims: all })
    }

    /// These dimensions; more than [`MAX_RANK`] do not compile.
    #[must_use]
    pub fn of<const N: usize>(dims: [u32; N]) -> Self {
        const { assert!(N <= MAX_RANK) };
        let mut all = [0; MAX_RANK];
        all[..N].copy_from_slice(&dims);
        #[expect(clippy::cast_possible_truncation, reason = "at most MAX_RANK")]
        let rank = N as u8;
        Self { rank, dims: all }
    }

    /// These dimensions if each fits and there are not too many; for sizes computed in 64 bits.
    #[must_use]
    pub fn from_sizes(sizes: impl IntoIterator<Item = i64>) -> Option<Self> {
        let mut dims = Self::SCALAR;
        for size in sizes {
            dims.push(u32::try_from(size).ok()?)?;
        }
        Some(dims)
    }

    fn push(&mut self, dim: u32) -> Option<()> {
        *self.dims.get_mut(usize::from(self.rank))? = dim;
        self.rank += 1;
        Some(())
    }

    /// The number of elements. 64 bits hold any product of a verified file's dims; saturates otherwise.
    #[must_use]
    pub fn count(&self) -> u64 {
        if self.contains(&0) {
            return 0;
        }
        self.iter().fold(1, |count: u64, &dim| count.saturating_mul(dim.into()))
    }

    /// The number of elements as kernels count it. The bytes of every bound fit 32 bits; live dims past a bound saturate here and are
    /// rejected when the plan is checked.
    #[must_use]
    pub fn count_u32(&self) -> u32 {
        u32::try_from(self.count()).unwrap_or(u32::MAX)
    }

    /// The last dimension; 1 for a scalar.
    #[must_use]
    pub fn last(&self) -> u32 {
        self.deref().last().copied().unwrap_or(1)
    }

    /// The number of rows of [`last`](Self::last) elements.
    #[must_use]
    pub fn rows(&self) -> u64 {
        let outer = self.rank.saturating_sub(1).into();
        Self::new(&self[..outer]).map_or(0, |outer| outer.count())
    }

    /// The same dimensions with one of them changed.
    #[must_use]
    pub fn with(mut self, axis: usize, dim: u32) -> Self {
        debug_assert!(axis < self.len(), "the axis was normalised against the rank");
        self.dims[axis] = dim;
        self
    }

    /// The same dimensions without one of them.
    #[must_use]
    pub fn without(&self, axis: usize) -> Self {
        let mut rest = Self::SCALAR;
        for (index, &dim) in self.iter().enumerate() {
            if index != axis {
                rest.dims[usize::from(rest.rank)] = dim;
                rest.rank += 1;
            }
        }
        rest
    }

    /// The strides of a contiguous tensor, in elements.
    #[must_use]
    pub fn strides(&self) -> [u32; MAX_RANK] {
        let mut strides = [0; MAX_RANK];
        let mut stride = 1u32;
        for axis in (0..self.len()).rev() {
            strides[axis] = stride;
            stride = stride.saturating_mul(self[axis]);
        }
        strides
    }

    /// Strides for reading this tensor at indices of `to`, 0 where it is broadcast. `None` if it cannot be broadcast to
    /// `to`.
    #[must_use]
    pub fn broadcast_strides(&self, to: &Dims) -> Option<[u32; MAX_RANK]> {
        let lead = to.len().checked_sub(self.len())?;
        let own = self.strides();
        let mut strides = [0; MAX_RANK];
        for axis in 0..self.len() {
            match (self[axis], to[lead + axis]) {
                (have, want) if have == want => strides[lead + axis] = own[axis],
                (1, _) => {}
                _ => return None,
            }
        }
        Some(strides)
    }

    /// Whether each dimension is within that of `bound`.
    #[must_use]
    pub fn fits(&self, bound: &Dims) -> bool {
        self.len() == bound.len() && self.iter().zip(bound.iter()).all(|(dim, bound)| dim <= bound)
    }
}

/// Broadcasts the dimensions of two tensors by PyTorch's rules: a dimension that is 1 or absent is repeated.
#[must_use]
pub fn broadcast(a: &Dims, b: &Dims) -> Option<Dims> {
    let rank = a.len().max(b.len());
    let dim = |dims: &Dims, axis: usize| (axis + dims.len()).checked_sub(rank).map_or(1, |axis| dims[axis]);
    let mut out = Dims::SCALAR;
    for axis in 0..rank {
        out.push(match (dim(a, axis), dim(b, axis)) {
            (1, other) | (other, 1) => other,
            (a, b) if a == b => a,
            _ => return None,
        })?;
    }
    Some(out)
}

/// Dims or strides innermost first, as shaders use them, padded with `fill`.
#[must_use]
pub fn innermost_first(values: &[u32], fill: u32) -> [u32; MAX_RANK] {
    let mut out = [fill; MAX_RANK];
    for (to, &from) in out.iter_mut().zip(values.iter().rev()) {
        *to = from;
    }
    out
}

impl Deref for Dims {
    type Target = [u32];
    fn deref(&self) -> &[u32] {
        &self.dims[..usize::from(self.rank)]
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(dims: &[u32]) -> Dims {
        Dims::new(dims).unwrap()
    }

    #[test]
    fn count_rows_and_strides() {
        assert_eq!(Dims::SCALAR.count(), 1);
        assert_eq!(dims(&[2, 3, 4]).count(), 24);
        assert_eq!(dims(&[u32::MAX, u32::MAX, 0]).count(), 0);
        assert_eq!(dims(&[2, 3, 4]).rows(), 6);
        assert_eq!(Dims::SCALAR.rows(), 1);
        assert_eq!(dims(&[2, 3, 4]).strides()[..3], [12, 4, 1]);
        assert_eq!(Dims::new(&[1; 9]), None);
    }

    #[test]
    fn broadcasting_follows_pytorch() {
        assert_eq!(broadcast(&dims(&[4, 1, 3]), &dims(&[5, 1])), Some(dims(&[4, 5, 3])));
        assert_eq!(broadcast(&dims(&[4]), &Dims::SCALAR), Some(dims(&[4])));
        assert_eq!(broadcast(&dims(&[0, 3]), &dims(&[1, 3])), Some(dims(&[0, 3])));
        assert_eq!(broadcast(&dims(&[2]), &dims(&[3])), None);
        assert_eq!(dims(&[5, 1]).broadcast_strides(&dims(&[4, 5, 3])).unwrap()[..3], [0, 1, 0]);
        assert_eq!(dims(&[2]).broadcast_strides(&dims(&[3])), None);
    }
}
