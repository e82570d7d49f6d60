//! Counts that cannot wrap.

use std::ops::{Add, Div, Mul, Sub};

/// A number of elements in 64 bits. Overflow saturates to the largest number, which exceeds any buffer; a negative
/// difference is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Counts(u64);

/// A count from a parameter.
pub(crate) fn count(value: u32) -> Counts {
    Counts(value.into())
}

impl Counts {
    pub(crate) fn get(self) -> u64 {
        self.0
    }

    pub(crate) fn div_ceil(self, by: u32) -> Self {
        if by == 0 { Self(u64::MAX) } else { Self(self.0.div_ceil(by.into())) }
    }

    pub(crate) fn next_multiple_of(self, of: u32) -> Self {
        self.div_ceil(of) * count(of)
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Mul for Counts {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self(self.0.saturating_mul(other.0))
    }
}

impl Div for Counts {
    type Output = Self;

    /// Rounds down; division by zero gives the largest number.
    fn div(self, by: Self) -> Self {
        Self(self.0.checked_div(by.0).unwrap_or(u64::MAX))
    }
}
