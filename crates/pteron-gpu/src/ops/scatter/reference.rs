//! Scatters on the host, one source element after the other.

use super::{Index, Scatter, Source};
use crate::error::OpError;
use crate::plan::PlanCx;
use crate::reference::{HostData, HostTensors, indices};

pub(super) fn run(op: &Scatter, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
    let layout = op.layout(cx)?;
    let mut values = tensors.numbers(op.elem, op.x);
    let targets: Vec<usize> = match (&op.index, &layout.indexed) {
        (Index::List(list), Some(indexed)) => list.reference(cx, indexed, tensors),
        (Index::Along { index, axis }, _) => {
            let index = tensors.i32(*index);
            let target = |(at, place): (usize, Vec<u32>)| {
                let chosen = i64::from(index[at]).clamp(0, i64::from(layout.limit) - 1);
                let other = layout.axes.iter().zip(&place).enumerate().filter(|(at, _)| at != axis);
                let other: i64 = other.map(|(_, (axis, &at))| axis.strides[0] * i64::from(at)).sum();
                usize::try_from(chosen * i64::from(layout.index_stride) + other).unwrap_or(0)
            };
            indices(&layout.sources).enumerate().map(target).collect()
        }
        (Index::List(_), None) => Vec::new(),
    };
    for (place, target) in indices(&layout.sources).zip(targets) {
        let new = match op.source {
            Source::Number(value) => value,
            Source::Tensor(source) => {
                let at: usize = place.iter().zip(layout.strides).map(|(&at, stride)| at as usize * stride as usize).sum();
                tensors.numbers(op.elem, source)[at]
            }
        };
        values[target] = if op.adds { values[target] + new } else { new };
    }
    let data = HostData::from_numbers(op.elem, values);
    tensors.set(op.out, cx.dims(op.x), data);
    Ok(())
}
