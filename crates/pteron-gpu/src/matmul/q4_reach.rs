//! Largest indices of the `linear_q4gsw` kernels. They bind activations, weights, scales, bias and output.

use super::Params;
use crate::kernel::reach::{Counts, DispatchView, Reached, count};

/// Weights of any layout (`q4_weights.wgsl`): two bytes at a time, which may be in two words.
pub(crate) fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    let params = checked(call)?;
    let [n, k] = [params.n, params.k].map(count);
    let last_byte = (n - count(1)) * count(params.weight_stride) + (k - count(1)) / count(2);
    // Bytes are indexed one by one, and 32 bits must hold the index.
    let bytes = last_byte + count(4);
    let words = if bytes.get() > 1 << 32 { bytes } else { (last_byte / count(4)).max(count(params.last_word)) + count(1) };
    let scales = (k - count(1)) / count(params.group) * count(params.scale_stride) + n;
    let read = activations(call, &params)?.array_if(params.k > 0, words, 4).array_if(params.k > 0, scales, 4);
    Some(finished(read, &params))
}

/// Weights whose rows are whole vectors, and scales in vectors (`q4_gemv_wide.wgsl`).
pub(crate) fn reach_in_vectors(call: &DispatchView<'_>) -> Option<Reached> {
    let params = checked(call)?;
    let vectors = count(params.k / 32);
    let weights = (count(params.n) - count(1)) * count(params.weight_stride / 16) + vectors;
    let group = (vectors - count(1)) * count(32) / count(params.group);
    let scales = group * count(params.scale_stride / 4) + (count(params.n) - count(1)) / count(4) + count(1);
    let any = vectors.get() > 0;
    Some(finished(activations(call, &params)?.array_if(any, weights, 16).array_if(any, scales, 16), &params))
}

/// Shaders clamp to the last row and column, so there must be one of each.
fn checked(call: &DispatchView<'_>) -> Option<Params> {
    call.params::<Params>().filter(|params| params.m > 0 && params.n > 0 && params.group > 0)
}

fn activations(call: &DispatchView<'_>, params: &Params) -> Option<Reached> {
    let all: Counts = count(params.m) * count(params.k);
    let read = Reached::new();
    Some(if call.flag("WIDE") { read.fours(all, call.type_bytes("X")?) } else { read.array(all, call.type_bytes("X")?) })
}

fn finished(read: Reached, params: &Params) -> Reached {
    read.array_if(params.has_bias == 1, count(params.n), 4).array(count(params.m) * count(params.n), 4)
}
