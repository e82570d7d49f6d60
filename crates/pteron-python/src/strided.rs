//! A tensor in another library's memory, and the copy that makes it contiguous where it is not.
#![allow(unsafe_code, reason = "memory of another library is read through a pointer")]

use std::sync::Arc;

use pteron::{ScalarType, Tensor};
use pyo3::prelude::*;

use crate::errors::{self, InputError};

/// Elements at any distance from each other.
pub(crate) struct Strided {
    scalar_type: ScalarType,
    data: *const u8,
    shape: Vec<u32>,
    /// Distances between elements, in elements; `None` if they are contiguous.
    strides: Option<Vec<i64>>,
}

/// Memory that a Python object owns.
struct Borrowed {
    data: *const u8,
    len: usize,
    /// Keeps the memory where it is.
    _owner: Py<PyAny>,
}

// SAFETY: the memory is only read, and its owner lives as long as this. Python programs that write an array while a call reads it get an
// output of old or new elements, as with any library that releases the GIL.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: whoever made this has `len` bytes at `data`, for as long as the owner lives.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

impl Strided {
    /// Describes elements in memory. `strides` are in elements.
    pub(crate) fn new(scalar_type: ScalarType, data: *const u8, shape: &[i64], strides: Option<Vec<i64>>) -> PyResult<Self> {
        let dims = shape.iter().map(|&dim| u32::try_from(dim)).collect::<Result<Vec<u32>, _>>();
        let Ok(shape) = dims else {
            return Err(InputError::new_err(format!("the shape {shape:?} has a size that programs cannot have")));
        };
        let strides = strides.filter(|strides| !is_contiguous(&shape, strides));
        if data.is_null() && !shape.contains(&0) {
            return Err(InputError::new_err("the tensor has no memory"));
        }
        Ok(Self { scalar_type, data, shape, strides })
    }

    /// The tensor, which borrows the memory of `owner` if it is contiguous.
    pub(crate) fn tensor(&self, owner: Py<PyAny>) -> PyResult<Tensor> {
        let too_large = || InputError::new_err(format!("the shape {:?} is too large", self.shape));
        let count = self.shape.iter().try_fold(1usize, |count, &dim| count.checked_mul(usize::try_from(dim).ok()?));
        let size = usize::try_from(self.scalar_type.size()).unwrap_or(1);
        let len = count.and_then(|count| count.checked_mul(size)).ok_or_else(too_large)?;
        let tensor = match &self.strides {
            None => {
                let owner = Arc::new(Borrowed { data: self.data, len, _owner: owner });
                Tensor::from_owner(self.scalar_type, &self.shape, owner)
            }
            Some(strides) => {
                let mut bytes = Vec::with_capacity(len);
                self.gather(self.data, &self.shape, strides, size, &mut bytes);
                Tensor::new(self.scalar_type, &self.shape, bytes)
            }
        };
        tensor.map_err(errors::program)
    }

    /// Appends the elements below `data` in order.
    fn gather(&self, data: *const u8, shape: &[u32], strides: &[i64], size: usize, out: &mut Vec<u8>) {
        let (Some((&dim, inner_shape)), Some((&stride, inner_strides))) = (shape.split_first(), strides.split_first())
        else {
            // SAFETY: the library that made the tensor promises an element at each index within its shape.
            out.extend_from_slice(unsafe { std::slice::from_raw_parts(data, size) });
            return;
        };
        let step = isize::try_from(stride).unwrap_or(0).wrapping_mul(isize::try_from(size).unwrap_or(0));
        let mut at = data;
        for _ in 0..dim {
            self.gather(at, inner_shape, inner_strides, size, out);
            at = at.wrapping_offset(step);
        }
    }
}

fn is_contiguous(shape: &[u32], strides: &[i64]) -> bool {
    let mut expected = 1i64;
    shape.contains(&0)
        || shape.iter().zip(strides).rev().all(|(&dim, &stride)| {
            let fits = dim == 1 || stride == expected;
            expected = expected.saturating_mul(i64::from(dim));
            fits
        })
}
