//! Reductions in plain Rust.

use super::Reduction;
use crate::graph::Elem;
use crate::reference::{HostData, HostTensors, broadcast_offset, indices};
use crate::shape::Dims;

pub(super) fn mean(line: &[f64]) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "lines have fewer numbers than floats tell apart")]
    let count = line.len() as f64;
    line.iter().sum::<f64>() / count
}

/// Where the first number is that none is better than, or the first NaN.
pub(super) fn first(line: &[f64], better: fn(f64, f64) -> bool) -> usize {
    let mut best = 0;
    for (index, &x) in line.iter().enumerate() {
        if !line[best].is_nan() && (x.is_nan() || better(x, line[best])) {
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
    let mut lines = vec![Vec::new(); usize::try_from(out.count()).unwrap_or(0)];
    for (index, x) in indices(dims).zip(x) {
        lines[broadcast_offset(&kept, &index)].push(x);
    }
    let answers = lines.iter().map(|line| (op.row.plain)(line));
    #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits, and sums of integers wrap")]
    let data = match op.out_elem {
        Elem::F32 => HostData::F32(answers.map(|answer| answer as f32).collect()),
        _ => HostData::I32(answers.map(|answer| answer as i64 as i32).collect()),
    };
    tensors.set(op.out, out, data);
}
