//! Operators and functions on scalars, for all threads at once.

use half::f16;
use naga::{BinaryOperator, MathFunction, Scalar, ScalarKind, UnaryOperator};

use super::values::Column;

/// The nearest number that a type has.
fn rounded(scalar: Scalar, value: f32) -> u32 {
    if scalar.width == 2 { f16::from_f32(value).to_f32().to_bits() } else { value.to_bits() }
}

/// The operator on operands of a type.
pub(super) fn binary(op: BinaryOperator, scalar: Scalar, left: &Column, right: &Column) -> Column {
    match scalar.kind {
        ScalarKind::Float => float_binary(op, scalar, left, right),
        ScalarKind::Sint => signed_binary(op, left, right),
        ScalarKind::Uint | ScalarKind::Bool => unsigned_binary(op, left, right),
        kind => panic!("{kind:?} has no operators"),
    }
}

fn float_binary(op: BinaryOperator, scalar: Scalar, left: &Column, right: &Column) -> Column {
    let number =
        |apply: fn(f32, f32) -> f32| left.zip(right, |a, b| rounded(scalar, apply(f32::from_bits(a), f32::from_bits(b))));
    let truth = |apply: fn(&f32, &f32) -> bool| left.zip(right, |a, b| apply(&f32::from_bits(a), &f32::from_bits(b)).into());
    match op {
        BinaryOperator::Add => number(|a, b| a + b),
        BinaryOperator::Subtract => number(|a, b| a - b),
        BinaryOperator::Multiply => number(|a, b| a * b),
        BinaryOperator::Divide => number(|a, b| a / b),
        BinaryOperator::Modulo => number(|a, b| a % b),
        BinaryOperator::Equal => truth(|a, b| a == b),
        BinaryOperator::NotEqual => truth(|a, b| a != b),
        BinaryOperator::Less => truth(|a, b| a < b),
        BinaryOperator::LessEqual => truth(|a, b| a <= b),
        BinaryOperator::Greater => truth(|a, b| a > b),
        BinaryOperator::GreaterEqual => truth(|a, b| a >= b),
        op => panic!("{op:?} of floats"),
    }
}

fn unsigned_binary(op: BinaryOperator, left: &Column, right: &Column) -> Column {
    let number = |apply: fn(u32, u32) -> u32| left.zip(right, apply);
    let truth = |apply: fn(&u32, &u32) -> bool| left.zip(right, |a, b| apply(&a, &b).into());
    match op {
        BinaryOperator::Add => number(u32::wrapping_add),
        BinaryOperator::Subtract => number(u32::wrapping_sub),
        BinaryOperator::Multiply => number(u32::wrapping_mul),
        // As WGSL defines it.
        BinaryOperator::Divide => number(|a, b| a.checked_div(b).unwrap_or(a)),
        BinaryOperator::Modulo => number(|a, b| a.checked_rem(b).unwrap_or(0)),
        BinaryOperator::And | BinaryOperator::LogicalAnd => number(|a, b| a & b),
        BinaryOperator::InclusiveOr | BinaryOperator::LogicalOr => number(|a, b| a | b),
        BinaryOperator::ExclusiveOr => number(|a, b| a ^ b),
        BinaryOperator::ShiftLeft => number(u32::wrapping_shl),
        BinaryOperator::ShiftRight => number(u32::wrapping_shr),
        BinaryOperator::Equal => truth(u32::eq),
        BinaryOperator::NotEqual => truth(u32::ne),
        BinaryOperator::Less => truth(u32::lt),
        BinaryOperator::LessEqual => truth(u32::le),
        BinaryOperator::Greater => truth(u32::gt),
        BinaryOperator::GreaterEqual => truth(u32::ge),
    }
}

fn signed_binary(op: BinaryOperator, left: &Column, right: &Column) -> Column {
    let number =
        |apply: fn(i32, i32) -> i32| left.zip(right, |a, b| apply(a.cast_signed(), b.cast_signed()).cast_unsigned());
    let truth = |apply: fn(&i32, &i32) -> bool| left.zip(right, |a, b| apply(&a.cast_signed(), &b.cast_signed()).into());
    match op {
        BinaryOperator::Divide => number(|a, b| a.checked_div(b).unwrap_or(a)),
        BinaryOperator::Modulo => number(|a, b| a.checked_rem(b).unwrap_or(0)),
        BinaryOperator::ShiftRight => number(|a, b| a.wrapping_shr(b.cast_unsigned())),
        BinaryOperator::Less => truth(i32::lt),
        BinaryOperator::LessEqual => truth(i32::le),
        BinaryOperator::Greater => truth(i32::gt),
        BinaryOperator::GreaterEqual => truth(i32::ge),
        same => unsigned_binary(same, left, right),
    }
}

pub(super) fn unary(op: UnaryOperator, scalar: Scalar, value: &Column) -> Column {
    match (op, scalar.kind) {
        (UnaryOperator::Negate, ScalarKind::Float) => value.map(|v| (-f32::from_bits(v)).to_bits()),
        (UnaryOperator::Negate, _) => value.map(u32::wrapping_neg),
        (UnaryOperator::LogicalNot, _) => value.map(|v| u32::from(v == 0)),
        (UnaryOperator::BitwiseNot, _) => value.map(|v| !v),
    }
}

/// Converts to another type, or keeps the bits.
pub(super) fn converted(value: &Column, from: Scalar, kind: ScalarKind, width: Option<u8>) -> Column {
    let Some(width) = width else {
        assert_eq!(from.width, 4, "bits of {from:?}");
        return value.clone();
    };
    let to = Scalar { kind, width };
    value.map(|v| match (from.kind, kind) {
        (_, ScalarKind::Bool) => u32::from(if from.kind == ScalarKind::Float { f32::from_bits(v) != 0.0 } else { v != 0 }),
        (ScalarKind::Float, ScalarKind::Float) => rounded(to, f32::from_bits(v)),
        (ScalarKind::Float, _) => truncated(f32::from_bits(v), kind),
        (_, ScalarKind::Float) => rounded(to, widened(v, from.kind)),
        _ => v,
    })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "conversions saturate, in WGSL as in Rust")]
fn truncated(value: f32, kind: ScalarKind) -> u32 {
    if kind == ScalarKind::Sint { (value as i32).cast_unsigned() } else { value as u32 }
}

#[allow(clippy::cast_precision_loss, reason = "conversions round, in WGSL as in Rust")]
fn widened(value: u32, kind: ScalarKind) -> f32 {
    if kind == ScalarKind::Sint { value.cast_signed() as f32 } else { value as f32 }
}

/// A function of scalars, applied to each element of a vector.
pub(super) fn math(function: MathFunction, scalar: Scalar, args: &[&Column]) -> Column {
    match (function, args) {
        (MathFunction::Clamp, [value, low, high]) => {
            math(MathFunction::Min, scalar, &[&math(MathFunction::Max, scalar, &[value, low]), high])
        }
        (MathFunction::Fma, [a, b, c]) => {
            let product = binary(BinaryOperator::Multiply, scalar, a, b);
            binary(BinaryOperator::Add, scalar, &product, c)
        }
        (_, [a, b]) => a.zip(b, |a, b| pair(function, scalar, a, b)),
        (_, [a]) if scalar.kind == ScalarKind::Float => {
            let apply = float_function(function);
            a.map(|v| rounded(scalar, apply(f32::from_bits(v))))
        }
        (MathFunction::Abs, [a]) if scalar.kind == ScalarKind::Sint => {
            a.map(|v| v.cast_signed().wrapping_abs().cast_unsigned())
        }
        _ => panic!("{function:?} of {scalar:?}"),
    }
}

fn pair(function: MathFunction, scalar: Scalar, a: u32, b: u32) -> u32 {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    match (function, scalar.kind) {
        (MathFunction::Min, ScalarKind::Float) => x.min(y).to_bits(),
        (MathFunction::Max, ScalarKind::Float) => x.max(y).to_bits(),
        (MathFunction::Pow, ScalarKind::Float) => rounded(scalar, x.powf(y)),
        (MathFunction::Min, ScalarKind::Sint) => a.cast_signed().min(b.cast_signed()).cast_unsigned(),
        (MathFunction::Max, ScalarKind::Sint) => a.cast_signed().max(b.cast_signed()).cast_unsigned(),
        (MathFunction::Min, ScalarKind::Uint) => a.min(b),
        (MathFunction::Max, ScalarKind::Uint) => a.max(b),
        _ => panic!("{function:?} of two {scalar:?}"),
    }
}

fn float_function(function: MathFunction) -> fn(f32) -> f32 {
    match function {
        MathFunction::Abs => f32::abs,
        MathFunction::Exp => f32::exp,
        MathFunction::Exp2 => f32::exp2,
        MathFunction::Log => f32::ln,
        MathFunction::Log2 => f32::log2,
        MathFunction::Sqrt => f32::sqrt,
        MathFunction::InverseSqrt => |v| 1.0 / v.sqrt(),
        MathFunction::Tanh => f32::tanh,
        MathFunction::Floor => f32::floor,
        MathFunction::Ceil => f32::ceil,
        MathFunction::Trunc => f32::trunc,
        MathFunction::Round => f32::round_ties_even,
        MathFunction::Sign => |v| if v == 0.0 { 0.0 } else { v.signum() },
        MathFunction::Saturate => |v| v.clamp(0.0, 1.0),
        other => panic!("{other:?} of floats"),
    }
}

/// Two 16-bit floats of a word.
pub(super) fn unpacked(word: &Column) -> Vec<Column> {
    let half = |shift: u32| {
        word.map(move |bits| {
            let [low, high] = [0, 1].map(|byte| (bits >> (shift + 8 * byte)).to_le_bytes()[0]);
            f16::from_le_bytes([low, high]).to_f32().to_bits()
        })
    };
    vec![half(0), half(16)]
}
