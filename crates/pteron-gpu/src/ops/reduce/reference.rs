//! Reductions on the host, for tests.

use super::Reduction;
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors, broadcast_offset, indices};
use crate::shape::Dims;

pub(super) fn mean(row: &[f64], _: f64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "rows have fewer elements than f64 counts exactly")]
    let count = row.len() as f64;
    row.iter().sum::<f64>() / count
}

pub(super) fn variance(row: &[f64], correction: f64) -> f64 {
    let mean = mean(row, 0.0);
    #[allow(clippy::cast_precision_loss, reason = "rows have fewer elements than f64 counts exactly")]
    let divisor = (row.len() as f64 - correction).max(0.0);
    row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / divisor
}

/// The index of the first NaN, or of the first best element.
pub(super) fn first(row: &[f64], better: fn(f64, f64) -> bool) -> usize {
    let mut best = 0;
    for (index, &x) in row.iter().enumerate() {
        if !row[best].is_nan() && (x.is_nan() || better(x, row[best])) {
            best = index;
        }
    }
    best
}

pub(super) fn run(op: &Reduction, dims: &Dims, tensors: &mut HostTensors) {
    let x = tensors.numbers(op.elem, op.x);
    let (kept, out) = (op.kept(dims), op.out_dims(dims));
    let mut rows = vec![Vec::new(); usize::try_from(out.count()).unwrap_or(0)];
    for (index, x) in indices(dims).zip(x) {
        rows[broadcast_offset(&kept, &index)].push(x);
    }
    let results = rows.iter().map(|row| (op.row.host)(row, op.correction));
    let data = HostData::from_numbers(op.out_elem, results);
    tensors.set(op.out, out, data);
}
