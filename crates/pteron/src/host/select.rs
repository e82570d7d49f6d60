//! Kernels that select elements by their values, so that their number is known only afterwards.

use pteron_format::ScalarType;

use super::{Argument, at, created};
use crate::tensor::Tensor;

/// Bytes of an element.
pub(super) fn width(tensor: &Tensor) -> usize {
    usize::try_from(tensor.scalar_type().size()).unwrap_or(1)
}

/// Whether each element differs from 0. Negative zero is 0, NaN is not.
pub(super) fn truths(tensor: &Tensor) -> Result<Vec<bool>, String> {
    if let Some(values) = tensor.to_i64() {
        return Ok(values.iter().map(|&value| value != 0).collect());
    }
    match tensor.to_f32() {
        Some(values) => Ok(values.iter().map(|&value| value != 0.0).collect()),
        None => Err(format!("does not take {}", tensor.scalar_type().name())),
    }
}

/// `nonzero(self)`: the indices of elements that are not 0, `[count, rank]`.
pub(super) fn nonzero(args: &[Argument<'_>]) -> Result<Vec<Tensor>, String> {
    let tensor = at(args, 0)?.tensor()?;
    let shape = tensor.shape();
    let (mut indices, mut count) = (Vec::new(), 0u32);
    for (flat, _) in truths(tensor)?.iter().enumerate().filter(|(_, truth)| **truth) {
        count += 1;
        indices.extend(position(flat, shape).into_iter().map(i64::from));
    }
    let rank = u32::try_from(shape.len()).unwrap_or(u32::MAX);
    Ok(vec![created(Tensor::from_i64(&[count, rank], &indices))?])
}

/// The index in each dim of an element.
pub(super) fn position(mut flat: usize, shape: &[u32]) -> Vec<u32> {
    let mut index = vec![0; shape.len()];
    for (at, &size) in index.iter_mut().zip(shape).rev() {
        let size = (size as usize).max(1);
        *at = u32::try_from(flat % size).unwrap_or(u32::MAX);
        flat /= size;
    }
    index
}

/// The broadcast shape of two; `None` if they do not fit.
pub(super) fn broadcast(a: &[u32], b: &[u32]) -> Option<Vec<u32>> {
    let rank = a.len().max(b.len());
    let size = |shape: &[u32], dim: usize| (dim + shape.len()).checked_sub(rank).map_or(1, |dim| shape[dim]);
    let fit = |dim| match (size(a, dim), size(b, dim)) {
        (a, b) if a == b || b == 1 => Some(a),
        (1, b) => Some(b),
        _ => None,
    };
    (0..rank).map(fit).collect()
}

/// The flat index in a tensor of an element of its broadcast shape.
pub(super) fn source(index: &[u32], shape: &[u32]) -> usize {
    let own = &index[index.len() - shape.len()..];
    own.iter().zip(shape).fold(0, |flat, (&at, &size)| flat * size as usize + if size == 1 { 0 } else { at as usize })
}

/// `masked_select(self, mask)`: the elements where the mask is true, in order.
pub(super) fn masked_select(args: &[Argument<'_>]) -> Result<Vec<Tensor>, String> {
    let (tensor, mask) = (at(args, 0)?.tensor()?, at(args, 1)?.tensor()?);
    let Some(shape) = broadcast(tensor.shape(), mask.shape()) else {
        return Err(format!("takes a mask of {:?} for a tensor of {:?}", mask.shape(), tensor.shape()));
    };
    let (mask_truths, width) = (truths(mask)?, width(tensor));
    const MOST: u64 = 1 << 28;
    let elements = shape.iter().fold(1u64, |count, &size| count.saturating_mul(size.into()));
    if elements > MOST {
        return Err(format!("has {elements} elements, allowed are {MOST}"));
    }
    let (mut bytes, mut count) = (Vec::new(), 0u32);
    for flat in 0..usize::try_from(elements).unwrap_or(0) {
        let index = position(flat, &shape);
        if mask_truths.get(source(&index, mask.shape())).copied().unwrap_or_default() {
            let from = source(&index, tensor.shape()) * width;
            bytes.extend_from_slice(tensor.bytes().get(from..from + width).unwrap_or_default());
            count += 1;
        }
    }
    Ok(vec![created(Tensor::new(tensor.scalar_type(), &[count], bytes))?])
}

/// `repeat_interleave(repeats, output_size)`: each index as often as its count says.
pub(super) fn repeat_interleave(args: &[Argument<'_>]) -> Result<Vec<Tensor>, String> {
    const MOST: usize = 1 << 28;
    let repeats = at(args, 0)?.tensor()?;
    let Some(counts) = repeats.to_i64() else { return Err("takes whole numbers".to_owned()) };
    let mut indices: Vec<i64> = Vec::new();
    for (index, &count) in (0i64..).zip(&counts) {
        let Some(count) = usize::try_from(count).ok().filter(|count| indices.len() + count <= MOST) else {
            return Err(format!("repeats an index {count} times, allowed are 0 to {MOST} in total"));
        };
        indices.extend(std::iter::repeat_n(index, count));
    }
    let len = u32::try_from(indices.len()).unwrap_or(u32::MAX);
    let tensor = match repeats.scalar_type() {
        #[allow(clippy::cast_possible_truncation, reason = "an index of a tensor of 32-bit integers")]
        ScalarType::Int => {
            let bytes = indices.iter().flat_map(|&index| (index as i32).to_le_bytes()).collect();
            Tensor::new(ScalarType::Int, &[len], bytes)
        }
        _ => Tensor::from_i64(&[len], &indices),
    };
    Ok(vec![created(tensor)?])
}
