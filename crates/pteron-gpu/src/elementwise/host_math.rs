//! Formulas on the host that several tables share.

use crate::args::Args;
use crate::error::OpError;

/// The error function, by its series near zero and by its continued fraction elsewhere.
pub(crate) fn erf(x: f64) -> f64 {
    let size = x.abs();
    if size < 3.0 {
        let terms = (0..80).scan((size, 1.0), |(term, n), _| {
            let value = *term / (2.0 * *n - 1.0);
            *term *= -size * size / *n;
            *n += 1.0;
            Some(value)
        });
        return x.signum() * terms.sum::<f64>() * 2.0 / std::f64::consts::PI.sqrt();
    }
    let fraction = (1..60).rev().fold(size, |below, k| size + f64::from(k) / 2.0 / below);
    x.signum() * (1.0 - (-size * size).exp() / fraction / std::f64::consts::PI.sqrt())
}

/// PyTorch's integer powers wrap at 32 bits.
pub(crate) fn int_pow(x: i64, y: i64) -> i64 {
    #[allow(clippy::cast_possible_truncation, reason = "the operands are 32-bit integers")]
    let x = x as i32;
    match u32::try_from(y) {
        Ok(y) => x.wrapping_pow(y).into(),
        Err(_) => match x {
            1 => 1,
            -1 if y % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        },
    }
}

/// The rounding mode as the expressions number it: 0 none, 1 floor, 2 trunc. Without rounding the quotient of integers is a float.
pub(crate) fn rounding_mode(args: &mut Args<'_>) -> Result<(f64, bool), OpError> {
    match args.optional_text("rounding_mode")? {
        None => Ok((0.0, true)),
        Some("floor") => Ok((1.0, false)),
        Some("trunc") => Ok((2.0, false)),
        Some(other) => Err(OpError::new("rounding_mode", format!("is {other:?}, supported: None, \"floor\", \"trunc\""))),
    }
}

/// In double precision the quotient of two floats is never rounded up to an integer, so its floor equals
/// PyTorch's, which corrects by the remainder. Truncation uses the 32-bit quotient.
pub(crate) fn div_rounded(x: f64, y: f64, mode: f64) -> f64 {
    let apart = x != 0.0 && (x < 0.0) != (y < 0.0);
    match mode {
        1.0 if x.is_infinite() && y != 0.0 => f64::NAN,
        1.0 if y.is_infinite() && !x.is_nan() => -f64::from(u8::from(apart)),
        1.0 => (x / y).floor(),
        #[allow(clippy::cast_possible_truncation, reason = "the quotient of 32-bit floats")]
        2.0 => f64::from((x as f32 / y as f32).trunc()),
        _ => x / y,
    }
}

pub(crate) fn int_div_rounded(x: i64, y: i64, mode: i64) -> i64 {
    if y == 0 {
        return x;
    }
    if mode == 1 { x.div_euclid(y) - i64::from(y < 0 && x.rem_euclid(y) != 0) } else { x / y }
}

/// The remainder with the divisor's sign, as in Python.
pub(crate) fn remainder(x: f64, y: f64) -> f64 {
    let rest = x % y;
    if rest != 0.0 && (rest < 0.0) != (y < 0.0) { rest + y } else { rest }
}

/// The remainder with the dividend's sign. As in the kernels, division by zero leaves the dividend.
pub(crate) fn int_fmod(x: i64, y: i64) -> i64 {
    x.checked_rem(y).unwrap_or(x)
}

pub(crate) fn int_remainder(x: i64, y: i64) -> i64 {
    let rest = int_fmod(x, y);
    if rest != 0 && (rest < 0) != (y < 0) { rest + y } else { rest }
}

/// Shifts by more than the width, or by a negative number, leave nothing.
pub(crate) fn shift_left(x: i64, y: i64) -> i64 {
    #[allow(clippy::cast_possible_truncation, reason = "integers have 32 bits")]
    let x = x as i32;
    u32::try_from(y).ok().and_then(|y| x.checked_shl(y)).unwrap_or(0).into()
}

pub(crate) fn shift_right(x: i64, y: i64) -> i64 {
    x >> u32::try_from(y).map_or(31, |y| y.min(31))
}
