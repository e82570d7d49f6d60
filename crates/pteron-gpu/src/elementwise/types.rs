//! Element types in memory and in registers: storage types, compute types, conversions between them, and the same on the host.

use crate::graph::Elem;
#[cfg(any(test, feature = "reference"))]
use crate::live::TensorId;
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};

/// The type that an expression computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Float,
    Integer,
}

/// The type of an expression's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Computed {
    Number(Number),
    Bool,
}

impl Number {
    pub(super) fn vector(self) -> &'static str {
        match self {
            Self::Float => "vec4<f32>",
            Self::Integer => "vec4<i32>",
        }
    }
}

impl Computed {
    pub(super) fn vector(self) -> &'static str {
        match self {
            Self::Number(number) => number.vector(),
            Self::Bool => "vec4<bool>",
        }
    }
}

/// The kernels' names for the types and functions of one input.
pub(super) struct Slot {
    pub(super) stored: &'static str,
    pub(super) computed: &'static str,
    pub(super) widen: &'static str,
    pub(super) gather: &'static str,
    gather_words: &'static str,
    gather_bytes: &'static str,
}

/// Names for the input of a letter, with its storage type and its compute type.
macro_rules! slot {
    ($letter:literal, $stored:literal, $computed:literal) => {
        Slot {
            stored: $stored,
            computed: $computed,
            widen: concat!("fn widen_", $letter, "(v: ", $stored, ") -> ", $computed),
            gather: concat!("fn gather_", $letter, "(p: vec4<u32>) -> ", $stored),
            gather_words: concat!(
                $stored,
                "(input_",
                $letter,
                "[p.x / 4u][p.x % 4u], input_",
                $letter,
                "[p.y / 4u][p.y % 4u], input_",
                $letter,
                "[p.z / 4u][p.z % 4u], input_",
                $letter,
                "[p.w / 4u][p.w % 4u])"
            ),
            gather_bytes: concat!(
                "byte(input_",
                $letter,
                "[p.x / 4u], p.x, 0u) | byte(input_",
                $letter,
                "[p.y / 4u], p.y, 1u) | byte(input_",
                $letter,
                "[p.z / 4u], p.z, 2u) | byte(input_",
                $letter,
                "[p.w / 4u], p.w, 3u)"
            ),
        }
    };
}

pub(super) const SLOTS: [Slot; 3] = [slot!("x", "A", "X"), slot!("y", "B", "Y"), slot!("z", "C", "Z")];

/// The signature of the expression's function, by number of inputs.
pub(super) const HEADS: [&str; 3] = ["fn apply(x: X) -> R", "fn apply(x: X, y: Y) -> R", "fn apply(x: X, y: Y, z: Z) -> R"];

/// The storage type of four elements.
pub(super) fn stored(elem: Elem) -> &'static str {
    match elem {
        Elem::F32 => "vec4<f32>",
        Elem::F16 => "vec4<f16>",
        Elem::I32 => "vec4<i32>",
        Elem::U8 | Elem::I8 | Elem::Bool => "u32",
    }
}

/// The expression that gathers elements at four offsets into one stored vector.
pub(super) fn gather(slot: &Slot, elem: Elem) -> &'static str {
    if stored(elem) == "u32" { slot.gather_bytes } else { slot.gather_words }
}

/// The expression that converts a stored vector to the compute type.
pub(super) fn widen(elem: Elem, number: Number) -> &'static str {
    match (elem, number) {
        (Elem::F32, Number::Float) | (Elem::I32, Number::Integer) => "v",
        (Elem::F32 | Elem::F16, Number::Integer) => "vec4<i32>(v)",
        (Elem::I32 | Elem::F16, Number::Float) => "vec4<f32>(v)",
        (Elem::U8 | Elem::Bool, Number::Integer) => {
            "vec4<i32>((vec4<u32>(v) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u))"
        }
        (Elem::U8 | Elem::Bool, Number::Float) => {
            "vec4<f32>((vec4<u32>(v) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u))"
        }
        (Elem::I8, Number::Integer) => "bitcast<vec4<i32>>(vec4<u32>(v) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u)",
        (Elem::I8, Number::Float) => {
            "vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(v) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u))"
        }
    }
}

/// The expression that converts results to the storage type.
pub(super) fn narrow(result: Computed, elem: Elem) -> &'static str {
    use Number::{Float, Integer};
    match (result, elem) {
        (Computed::Number(Float), Elem::F32) | (Computed::Number(Integer), Elem::I32) => "v",
        (Computed::Number(Integer), Elem::F32) => "vec4<f32>(v)",
        (Computed::Number(_), Elem::F16) => "vec4<f16>(v)",
        (Computed::Number(Float), Elem::I32) => "vec4<i32>(v)",
        (Computed::Number(Float), Elem::U8 | Elem::I8) => {
            "dot((bitcast<vec4<u32>>(vec4<i32>(v)) & vec4<u32>(255u)) << vec4<u32>(0u, 8u, 16u, 24u), vec4<u32>(1u))"
        }
        (Computed::Number(Integer), Elem::U8 | Elem::I8) => {
            "dot((bitcast<vec4<u32>>(v) & vec4<u32>(255u)) << vec4<u32>(0u, 8u, 16u, 24u), vec4<u32>(1u))"
        }
        // NaN is true: everything but zero is.
        (Computed::Number(Float), Elem::Bool) => {
            "dot(select(vec4<u32>(0x1u, 0x100u, 0x10000u, 0x1000000u), vec4<u32>(), v == vec4<f32>()), vec4<u32>(1u))"
        }
        (Computed::Number(Integer), Elem::Bool) => {
            "dot(select(vec4<u32>(0x1u, 0x100u, 0x10000u, 0x1000000u), vec4<u32>(), v == vec4<i32>()), vec4<u32>(1u))"
        }
        (Computed::Bool, Elem::F32) => "select(vec4<f32>(), vec4<f32>(1.0), v)",
        (Computed::Bool, Elem::F16) => "select(vec4<f16>(), vec4<f16>(1.0), v)",
        (Computed::Bool, Elem::I32) => "select(vec4<i32>(), vec4<i32>(1), v)",
        (Computed::Bool, Elem::U8 | Elem::I8 | Elem::Bool) => {
            "dot(select(vec4<u32>(), vec4<u32>(0x1u, 0x100u, 0x10000u, 0x1000000u), v), vec4<u32>(1u))"
        }
    }
}

/// The type that PyTorch promotes two types to.
pub(super) fn promote(a: Elem, b: Elem) -> Elem {
    let rank = |elem| match elem {
        Elem::Bool => 0,
        Elem::U8 | Elem::I8 => 1,
        Elem::I32 => 2,
        Elem::F16 => 3,
        Elem::F32 => 4,
    };
    match (a, b) {
        // PyTorch promotes these to 16-bit integers, which kernels do not have.
        (Elem::U8, Elem::I8) | (Elem::I8, Elem::U8) => Elem::I32,
        _ if rank(a) >= rank(b) => a,
        _ => b,
    }
}

/// Whether PyTorch stores results of a type in a tensor of another: floats do not become integers, and numbers no Booleans.
pub(super) fn can_cast(from: Elem, to: Elem) -> bool {
    let is_float = |elem| matches!(elem, Elem::F32 | Elem::F16);
    from == to || is_float(to) || (!is_float(from) && to != Elem::Bool)
}

/// Reads a host tensor as integers.
#[cfg(any(test, feature = "reference"))]
pub(super) fn integers(elem: Elem, tensors: &HostTensors, tensor: TensorId) -> Vec<i64> {
    match elem {
        #[allow(clippy::cast_possible_truncation, reason = "as the conversion truncates")]
        Elem::F32 | Elem::F16 => tensors.f32(tensor).iter().map(|&value| value as i64).collect(),
        Elem::I32 => tensors.i32(tensor).iter().map(|&value| value.into()).collect(),
        Elem::I8 => tensors.u8(tensor).iter().map(|&value| value.cast_signed().into()).collect(),
        Elem::U8 | Elem::Bool => tensors.u8(tensor).iter().map(|&value| value.into()).collect(),
    }
}

/// Reads a host tensor as floats.
#[cfg(any(test, feature = "reference"))]
pub(super) fn floats(elem: Elem, tensors: &HostTensors, tensor: TensorId) -> Vec<f64> {
    tensors.numbers(elem, tensor)
}

/// Converts floats to elements of a host tensor.
#[cfg(any(test, feature = "reference"))]
pub(super) fn host_floats(elem: Elem, values: impl Iterator<Item = f64>) -> HostData {
    HostData::from_numbers(elem, values)
}

/// Converts integers to elements of a host tensor, wrapping as PyTorch does.
#[cfg(any(test, feature = "reference"))]
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "elements wrap")]
pub(super) fn host_integers(elem: Elem, values: impl Iterator<Item = i64>) -> HostData {
    match elem {
        Elem::F32 | Elem::F16 => HostData::F32(values.map(|value| value as f32).collect()),
        Elem::I32 => HostData::I32(values.map(|value| value as i32).collect()),
        Elem::Bool => HostData::U8(values.map(|value| u8::from(value != 0)).collect()),
        Elem::U8 | Elem::I8 => HostData::U8(values.map(|value| value as u8).collect()),
    }
}
