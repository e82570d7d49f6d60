//! Scalar arguments of elementwise operators, and the arithmetic of quantised tensors.

use crate::args::Args;
use crate::error::OpError;
use crate::live::{Number, ScalarId};
use crate::plan::PlanCx;

/// The scalar arguments of an operator, as numbers of one kind.
pub(crate) type Scalars<N> = [N; 8];

/// The scalar arguments of an operator.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScalarArgs {
    pub(crate) values: Scalars<f64>,
    /// Whether they promote integer tensors to floats.
    pub(crate) floats: bool,
    /// The symbolic integers among them, whose values are known only when the graph runs.
    pub(crate) symbols: [Option<ScalarId>; 2],
}

impl ScalarArgs {
    /// No arguments.
    pub(crate) fn none(_: &mut Args<'_>) -> Result<Self, OpError> {
        Ok(Self::default())
    }

    /// These values, which promote integer tensors to floats if one of them has a fraction or exceeds 32 bits.
    pub(crate) fn of(given: &[f64]) -> Self {
        let mut values = Scalars::default();
        values.iter_mut().zip(given).for_each(|(to, &from)| *to = from);
        let whole = |value: &f64| value.is_infinite() || (value.fract() == 0.0 && value.abs() <= f64::from(i32::MAX));
        Self { values, floats: !given.iter().all(whole), ..Self::default() }
    }

    /// The next argument, a number that may be symbolic.
    pub(crate) fn number(args: &mut Args<'_>, name: &'static str) -> Result<Self, OpError> {
        Ok(match args.number(name)? {
            Number::Fixed(value) => Self::of(&[value]),
            Number::Live(symbol) => Self { symbols: [Some(symbol), None], ..Self::default() },
        })
    }

    /// The same with a second value, which the file fixes.
    pub(crate) fn and(mut self, second: f64) -> Self {
        self.values[1] = second;
        self.floats |= Self::of(&[second]).floats;
        self
    }

    /// The values in the current call.
    pub(super) fn live(&self, cx: &PlanCx<'_>) -> Self {
        let mut live = *self;
        for (value, symbol) in live.values.iter_mut().zip(self.symbols) {
            *value = symbol.map_or(*value, |symbol| cx.number(Number::Live(symbol)));
        }
        live
    }

    /// The first four, which are all that operators of one tensor take, if none is symbolic.
    pub(crate) fn fixed(&self) -> Option<[f64; 4]> {
        let [first @ .., _, _, _, _] = self.values;
        (self.symbols == [None; 2]).then_some(first)
    }

    pub(super) fn integers(&self) -> Scalars<i64> {
        #[allow(clippy::cast_possible_truncation, reason = "an infinite bound of integers is the largest one")]
        self.values.map(|value| (value as i64).clamp(i32::MIN.into(), i32::MAX.into()))
    }

    /// The floats p, the integers q, and further floats r.
    pub(super) fn params(&self) -> ([f32; 4], [i32; 4], [f32; 4]) {
        #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits, and integers were clamped to them")]
        let (floats, integers) = (self.values.map(|value| value as f32), self.integers().map(|value| value as i32));
        let [a, b, c, d, r @ ..] = floats;
        let [e, f, g, h, ..] = integers;
        ([a, b, c, d], [e, f, g, h], r)
    }
}

/// Takes a scale, which must be a positive number, and a zero point that 32-bit floats hold.
pub(crate) fn quantisation(args: &mut Args<'_>, names: [&'static str; 2]) -> Result<(f64, f64), OpError> {
    let scale = args.float(names[0])?;
    if !(scale.is_finite() && scale > 0.0) {
        return Err(OpError::new(names[0], format!("is {scale}, it must be above 0")));
    }
    let zero_point = args.int(names[1])?;
    match i32::try_from(zero_point) {
        Ok(zero_point) if zero_point.unsigned_abs() <= 1 << 24 => Ok((scale, zero_point.into())),
        _ => Err(OpError::new(names[1], format!("is {zero_point}, expected at most {} in magnitude", 1 << 24))),
    }
}

/// Quantises a number to a signed byte, on the host: a scale by its reciprocal, and ties to even.
pub(crate) fn requantised(value: f64, inverse_scale: f64, zero_point: f64) -> f64 {
    // Multiplied in 32 bits as the kernels do: rounding of ties depends on it.
    #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
    let steps = f64::from(value as f32 * inverse_scale as f32).round_ties_even();
    (steps + zero_point).clamp(-128.0, 127.0)
}
