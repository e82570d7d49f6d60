//! Reductions on the host, for tests.

use super::Reduction;
use crate::graph::Elem;
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors, broadcast_offset, indices};
use crate::shape::Dims;

pub(super) fn mean(row: &[f64]) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "rows have fewer elements than f64 counts exactly")]
    let count = row.len() as f64;
    row.iter().sum::<f64>() / count
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
    let x: Vec<f64> = match op.elem {
        Elem::F32 => tensors.f32(op.x).iter().map(|&x| f64::from(x)).collect(),
        _ => tensors.i32(op.x).iter().map(|&x| f64::from(x)).collect(),
    };
    let (kept, out) = (op.kept(dims), op.out_dims(dims));
    let mut rows = vec![Vec::new(); usize::try_from(out.count()).unwrap_or(0)];
    for (index, x) in indices(dims).zip(x) {
        rows[broadcast_offset(&kept, &index)].push(x);
    }
    let results = rows.iter().map(|row| (op.row.host)(row));
    #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits, and sums of integers wrap")]
    let data = match op.out_elem {
        Elem::F32 => HostData::F32(results.map(|result| result as f32).collect()),
        _ => HostData::I32(results.map(|result| result as i64 as i32).collect()),
    };
    tensors.set(op.out, out, data);
}
