//! Symbolic integers: sizes, elements of inputs, arithmetic on them and comparisons. They are computed while planning and dispatch nothing.

#[cfg(test)]
mod tests;

use crate::args::{Args, normalise};
use crate::error::OpError;
use crate::live::{Scalar, ScalarId, TensorId};
use crate::ops::{OpDef, names};
use crate::plan::{BoundsCx, Op, Plan, PlanCx, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::HostTensors;

/// The operators of the family.
const TABLE: &[(&str, Row)] = &[
    ("sym_size.int", Row::Size),
    ("et_vk.select_as_symint.default", Row::Element),
    ("add", Row::Binary("add", i64::checked_add)),
    ("sub", Row::Binary("sub", i64::checked_sub)),
    ("mul", Row::Binary("mul", i64::checked_mul)),
    ("floordiv", Row::Binary("floordiv", floor_div)),
    ("mod", Row::Binary("mod", modulo)),
    ("sym_max", Row::Binary("sym_max", |a, b| Some(a.max(b)))),
    ("sym_min", Row::Binary("sym_min", |a, b| Some(a.min(b)))),
    ("lt", Row::Binary("lt", |a, b| Some((a < b).into()))),
    ("le", Row::Binary("le", |a, b| Some((a <= b).into()))),
    ("gt", Row::Binary("gt", |a, b| Some((a > b).into()))),
    ("ge", Row::Binary("ge", |a, b| Some((a >= b).into()))),
    ("eq", Row::Binary("eq", |a, b| Some((a == b).into()))),
];

#[derive(Clone, Copy)]
enum Row {
    Size,
    Element,
    /// Python's operators on integers, `None` where the result exceeds 64 bits. Comparisons result in 0 or 1.
    Binary(&'static str, Compute),
}

pub(crate) type Compute = fn(i64, i64) -> Option<i64>;

fn floor_div(a: i64, b: i64) -> Option<i64> {
    let inexact = a.checked_rem(b)? != 0;
    a.checked_div(b)?.checked_sub(i64::from(inexact && (a < 0) != (b < 0)))
}

/// Python's remainder, which has the sign of the divisor.
fn modulo(a: i64, b: i64) -> Option<i64> {
    let rest = a.checked_rem(b)?;
    Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
}

/// The result of an operator on literals; `None` if there is none, or no such operator.
pub(crate) fn compute(name: &str, a: i64, b: i64) -> Option<i64> {
    let row = TABLE.iter().find(|(own, _)| *own == name)?;
    match row.1 {
        Row::Binary(_, compute) => compute(a, b),
        Row::Size | Row::Element => None,
    }
}

static NAMES: [&str; TABLE.len()] = names!(TABLE, 0);

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef { names: &NAMES, internal: &[], kernels: &[], decode };

#[derive(Debug)]
pub(crate) struct SymInt {
    pub(crate) source: Source,
    pub(crate) out: ScalarId,
}

#[derive(Debug)]
pub(crate) enum Source {
    /// A live dim of a tensor.
    Size { x: TensorId, axis: usize },
    /// An element of an integer input.
    Element { x: TensorId, axis: usize, index: Scalar },
    /// An arithmetic operator or a comparison.
    Binary { name: &'static str, compute: Compute, a: Scalar, b: Scalar },
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let source = match args.row(TABLE).1 {
        Row::Size => {
            let x = args.tensor("self")?;
            Source::Size { x, axis: axis(args, x)? }
        }
        Row::Element => {
            let x = args.host_tensor("x")?;
            // A single number is one element of one dimension.
            let axis = args.axis("dim", args.info(x).bound.len().max(1))?;
            Source::Element { x, axis, index: args.scalar("index")? }
        }
        Row::Binary(name, compute) => Source::Binary { name, compute, a: args.scalar("a")?, b: args.scalar("b")? },
    };
    Ok(Box::new(SymInt { source, out: args.output_scalar("out")? }))
}

fn axis(args: &mut Args<'_>, x: TensorId) -> Result<usize, OpError> {
    let rank = args.info(x).bound.len();
    if rank == 0 {
        return Err(OpError::new("dim", "names a dimension of a single number, which has none"));
    }
    args.axis("dim", rank)
}

/// The element at an index of the only dimension longer than 1.
fn element(cx: &PlanCx<'_>, x: TensorId, axis: usize, index: i64) -> Result<i64, OpError> {
    let dims = cx.dims(x);
    let len = dims.get(axis).copied().unwrap_or(1);
    if dims.count() != u64::from(len) {
        return Err(OpError::new("x", format!("is {dims}: an index in dimension {axis} does not name one number")));
    }
    if len == 0 {
        return Err(OpError::new("index", format!("is {index}, but `x` has zero elements")));
    }
    let at = normalise(index, len as usize);
    let Some(at) = at else { return Err(OpError::new("index", format!("is {index}, but `x` has {len} elements"))) };
    // While loading, before any call, inputs have no values.
    let Some(values) = cx.host_values(x) else { return Ok(0) };
    let value = values.get(at).copied().map(i64::from);
    value.ok_or_else(|| OpError::new("x", format!("is {dims}, but came with {} integers", values.len())))
}

impl SymInt {
    fn value(&self, cx: &PlanCx<'_>) -> Result<i64, OpError> {
        match self.source {
            Source::Size { x, axis } => Ok(cx.dims(x)[axis].into()),
            Source::Element { x, axis, index } => element(cx, x, axis, cx.scalar(index)),
            Source::Binary { name, compute, a, b } => {
                let (a, b) = (cx.scalar(a), cx.scalar(b));
                if matches!(name, "floordiv" | "mod") && b == 0 {
                    return Err(OpError::new("b", format!("is zero, and {a} cannot be divided by it")));
                }
                compute(a, b).ok_or_else(|| OpError::new("out", format!("is {name} of {a} and {b}, which leaves 64 bits")))
            }
        }
    }
}

impl Op for SymInt {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        Ok(Recipes::default())
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        Ok(Plan { scalars: vec![(self.out, self.value(cx)?)], ..Plan::default() })
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, _: &PlanCx<'_>, _: &mut HostTensors) -> Result<(), OpError> {
        // The plan has set the scalar; there is no tensor.
        Ok(())
    }
}
