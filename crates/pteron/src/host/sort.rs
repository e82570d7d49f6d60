//! Sorting along a dimension.

use std::cmp::Ordering;

use super::{Argument, at, axis, created};
use crate::tensor::Tensor;

/// `sort(self, dim, descending)`.
pub(super) fn sort(args: &[Argument<'_>]) -> Result<Vec<Tensor>, String> {
    sorted(at(args, 0)?.tensor()?, at(args, 1)?.int()?, at(args, 2)?.int()? != 0, None)
}

/// `sort(self, stable, dim, descending)`.
pub(super) fn sort_stable(args: &[Argument<'_>]) -> Result<Vec<Tensor>, String> {
    sorted(at(args, 0)?.tensor()?, at(args, 2)?.int()?, at(args, 3)?.int()? != 0, None)
}

/// `topk(self, k, dim, largest, sorted)`; the result is sorted in any case.
pub(super) fn topk(args: &[Argument<'_>]) -> Result<Vec<Tensor>, String> {
    let k = usize::try_from(at(args, 1)?.int()?).map_err(|_| "takes a negative number of elements".to_owned())?;
    sorted(at(args, 0)?.tensor()?, at(args, 2)?.int()?, at(args, 3)?.int()? != 0, Some(k))
}

/// Numbers in PyTorch's order: NaN is the largest.
fn order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The first `k` elements along a dim in order, and their indices. Equal elements keep their order.
fn sorted(tensor: &Tensor, dim: i64, descending: bool, k: Option<usize>) -> Result<Vec<Tensor>, String> {
    #[allow(clippy::cast_precision_loss, reason = "integers beyond 2^53 sort as equal to their neighbours")]
    let keys: Vec<f64> = match (tensor.to_i64(), tensor.to_f32()) {
        (Some(values), _) => values.iter().map(|&value| value as f64).collect(),
        (None, Some(values)) => values.iter().map(|&value| value.into()).collect(),
        _ => return Err(format!("does not take {}", tensor.scalar_type().name())),
    };
    let shape = tensor.shape();
    let along = axis(dim, shape.len())?;
    let len = shape.get(along).map_or(1, |&size| size as usize);
    let k = k.unwrap_or(len);
    if k > len {
        return Err(format!("takes {k} elements of a dimension of {len}"));
    }
    let inner: usize = shape.iter().skip(along + 1).map(|&size| size as usize).product();
    let outer: usize = shape.iter().take(along).map(|&size| size as usize).product();
    let width = usize::try_from(tensor.scalar_type().size()).unwrap_or(1);
    let mut values = vec![0; outer * k * inner * width];
    let mut indices = vec![0i64; outer * k * inner];
    let mut row: Vec<usize> = Vec::with_capacity(len);
    for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
        let flat = |index: usize| (o * len + index) * inner + i;
        row.clear();
        row.extend(0..len);
        row.sort_by(|&a, &b| {
            let ordering = order(keys[flat(a)], keys[flat(b)]);
            if descending { ordering.reverse() } else { ordering }
        });
        for (rank, &index) in row.iter().take(k).enumerate() {
            let to = (o * k + rank) * inner + i;
            let from = flat(index) * width;
            values[to * width..][..width].copy_from_slice(&tensor.bytes()[from..from + width]);
            indices[to] = i64::try_from(index).unwrap_or(i64::MAX);
        }
    }
    let mut out = shape.to_vec();
    if let Some(size) = out.get_mut(along) {
        *size = u32::try_from(k).unwrap_or(u32::MAX);
    }
    Ok(vec![created(Tensor::new(tensor.scalar_type(), &out, values))?, created(Tensor::from_i64(&out, &indices))?])
}
