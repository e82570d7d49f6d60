//! Sliding windows along the last dims of a tensor, for convolution and pooling.

pub(crate) mod geometry;

use crate::args::Args;
use crate::error::OpError;

/// The largest size, step or distance: kernels compute positions in signed 32-bit integers.
const LARGEST: u64 = i32::MAX as u64;

/// A window along one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Elements per window.
    pub(crate) kernel: u32,
    /// Elements from one window to the next.
    pub(crate) stride: u32,
    /// Elements before the first of the input.
    pub(crate) padding: u32,
    /// Elements after the last of the input.
    pub(crate) after: u32,
    /// The distance between neighbouring elements of a window.
    pub(crate) dilation: u32,
}

impl Window {
    /// The distance from the first to the last element of a window, plus one.
    pub(crate) fn extent(&self) -> u64 {
        u64::from(self.dilation) * u64::from(self.kernel.saturating_sub(1)) + 1
    }

    /// Elements before and after the input.
    pub(crate) fn paddings(&self) -> u64 {
        u64::from(self.padding) + u64::from(self.after)
    }

    /// The number of windows over `size` elements. `argument` is the input's name in the schema. With `ceil`, a last window may
    /// extend past the padding by less than a stride, if it begins before its end.
    ///
    /// # Errors
    /// A window larger than the padded input.
    pub(crate) fn count(&self, argument: &'static str, size: u32, ceil: bool) -> Result<u32, OpError> {
        let (extent, padding) = (self.extent(), u64::from(self.padding));
        let padded = u64::from(size) + self.paddings();
        if padded > LARGEST || extent > LARGEST {
            let reason =
                format!("has {padded} elements with padding and windows of {extent}, at most {LARGEST} are supported");
            return Err(OpError::new(argument, reason));
        }
        let stride = u64::from(self.stride);
        // What a last window may extend past the padding.
        let beyond = if ceil && size > 0 { stride.saturating_sub(1) } else { 0 };
        if extent > padded + beyond {
            let reason = format!("has {padded} elements with padding, but a window covers {extent}");
            return Err(OpError::new(argument, reason));
        }
        let rest = padded.saturating_sub(extent);
        let count = if ceil { rest.div_ceil(stride) } else { rest / stride } + 1;
        let starts_outside = ceil && (count - 1) * stride >= u64::from(size) + padding;
        let count = if starts_outside { count - 1 } else { count };
        u32::try_from(count).map_err(|_| OpError::new(argument, format!("has {count} windows, more than kernels count")))
    }

    /// The size of the output of a transposed convolution.
    ///
    /// # Errors
    /// An empty input, or an output that no tensor can have.
    pub(crate) fn transposed(&self, argument: &'static str, size: u32, output_padding: u32) -> Result<u32, OpError> {
        let last = u64::from(size).checked_sub(1);
        let Some(last) = last else {
            return Err(OpError::new(argument, "has no elements along a dimension that is convolved"));
        };
        let whole = last.saturating_mul(self.stride.into()).saturating_add(self.extent()) + u64::from(output_padding);
        let cut = self.paddings();
        if whole <= cut || whole > LARGEST {
            let reason = format!("makes {whole} elements less a padding of {cut}, expected 1 to {LARGEST}");
            return Err(OpError::new(argument, reason));
        }
        u32::try_from(whole - cut).map_err(|_| OpError::new(argument, format!("makes {whole} elements")))
    }
}

/// A list with a number per dimension, or one for all. Each must be at least `least`.
///
/// # Errors
/// Another list.
pub(crate) fn sizes(args: &mut Args<'_>, name: &'static str, rank: usize, least: u32) -> Result<Vec<u32>, OpError> {
    let list = args.ints(name)?;
    if list.len() != rank && list.len() != 1 {
        return Err(OpError::new(name, format!("has {} numbers, expected {rank}", list.len())));
    }
    let each = |&value: &i64| match u32::try_from(value) {
        Ok(size) if size >= least && u64::from(size) <= LARGEST => Ok(size),
        _ => Err(OpError::new(name, format!("is {list:?}, expected numbers from {least} to {LARGEST}"))),
    };
    let list = list.iter().map(each).collect::<Result<Vec<_>, _>>()?;
    Ok(if list.len() == rank { list } else { vec![list[0]; rank] })
}

/// Paddings before and after each dimension: a number per dimension or one for all, and where `uneven` is allowed also two per dimension,
/// those before first.
///
/// # Errors
/// Another list.
pub(crate) fn paddings(
    args: &mut Args<'_>,
    name: &'static str,
    rank: usize,
    uneven: bool,
) -> Result<(Vec<u32>, Vec<u32>), OpError> {
    if uneven && args.list_len() == Some(2 * rank) {
        let mut before = sizes(args, name, 2 * rank, 0)?;
        let after = before.split_off(rank);
        return Ok((before, after));
    }
    let both = sizes_or(args, name, &vec![0; rank], 0)?;
    Ok((both.clone(), both))
}

/// As [`sizes`]; an empty list stands for these numbers.
///
/// # Errors
/// Another list.
pub(crate) fn sizes_or(args: &mut Args<'_>, name: &'static str, default: &[u32], least: u32) -> Result<Vec<u32>, OpError> {
    if args.is_empty_list() {
        args.ignore(name)?;
        return Ok(default.to_vec());
    }
    sizes(args, name, default.len(), least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_counted_as_pytorch_counts_them() {
        let window = |kernel, stride, padding, dilation| Window { kernel, stride, padding, after: padding, dilation };
        for (window, size, ceil, expected) in [
            (window(3, 1, 1, 1), 7, false, 7),
            (window(3, 2, 0, 1), 8, false, 3),
            (window(3, 2, 0, 1), 8, true, 4),
            (window(2, 2, 1, 1), 4, true, 3),
            // The last window would begin in the padding after the input.
            (window(2, 2, 1, 1), 5, true, 3),
            (window(3, 1, 0, 4), 9, false, 1),
            // The only window extends past the end.
            (window(3, 2, 0, 1), 2, true, 1),
            (window(4, 3, 0, 1), 2, true, 1),
            (window(1, 1, 0, 1), 5, false, 5),
        ] {
            assert_eq!(window.count("input", size, ceil), Ok(expected), "{window:?} over {size}");
        }
        let error = window(3, 1, 0, 4).count("input", 8, false).unwrap_err();
        assert_eq!(error.reason, "has 8 elements with padding, but a window covers 9");
        for (window, size, ceil) in
            [(window(3, 2, 0, 1), 2, false), (window(3, 2, 0, 1), 1, true), (window(3, 3, 1, 1), 0, true)]
        {
            assert!(window.count("input", size, ceil).is_err(), "{window:?} over {size}");
        }
        assert!(window(1, 1, i32::MAX as u32, 1).count("input", 8, false).is_err());
        let uneven = Window { after: 2, ..window(3, 2, 1, 1) };
        assert_eq!(uneven.count("input", 8, false), Ok(5));
    }

    #[test]
    fn transposed_sizes_invert_strided_ones() {
        let window = Window { kernel: 3, stride: 2, padding: 1, after: 1, dilation: 1 };
        assert_eq!(window.transposed("input", 4, 1), Ok(8));
        assert_eq!(window.count("input", 8, false), Ok(4));
        assert!(window.transposed("input", 0, 0).is_err());
        assert_eq!(Window { after: 2, ..window }.transposed("input", 4, 1), Ok(7));
        assert!(Window { kernel: 1, stride: 1, padding: 3, after: 3, dilation: 1 }.transposed("input", 4, 0).is_err());
        assert!(Window { stride: i32::MAX as u32, ..window }.transposed("input", u32::MAX, 0).is_err());
    }
}
