//! Collects the results of a loop's steps in one tensor.

use super::{Argument, at, created};
use crate::tensor::Tensor;

/// `et_copy_index(to, from, index)`: `from` becomes a row of `to`, which then has `index + 1` rows.
pub(super) fn copy_index(args: &[Argument<'_>]) -> Result<Vec<Tensor>, String> {
    let (to, from, index) = (at(args, 0)?.tensor()?, at(args, 1)?.tensor()?, at(args, 2)?.int()?);
    let index = u32::try_from(index).ok().filter(|index| *index < u32::MAX);
    let Some(index) = index else { return Err("copies to an index that is not allowed".to_owned()) };
    if to.scalar_type() != from.scalar_type() || to.shape().get(1..) != Some(from.shape()) {
        return Err(format!("copies {:?} into rows of {:?}", from.shape(), to.shape()));
    }
    let before = (index as usize).checked_mul(from.bytes().len());
    let Some(before) = before.and_then(|before| to.bytes().get(..before)) else {
        return Err(format!("copies to row {index}, but {:?} has no row before it", to.shape()));
    };
    let shape = [&[index + 1], from.shape()].concat();
    let mut bytes = Vec::with_capacity(before.len() + from.bytes().len());
    bytes.extend_from_slice(before);
    bytes.extend_from_slice(from.bytes());
    Ok(vec![created(Tensor::new(to.scalar_type(), &shape, bytes))?])
}
