//! Symbolic integers: sizes, elements of inputs, and arithmetic on them. They are computed while planning and dispatch nothing.

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
];

#[derive(Clone, Copy)]
enum Row {
    Size,
    Element,
    /// Python's operators on integers, `None` where the result exceeds 64 bits.
    Binary(&'static str, Compute),
}

pub(crate) type Compute = fn(i64, i64) -> Option<i64>;

fn floor_div(a: i64, b: i64) -> Option<i64> {
    let inexact = a.checked_rem(b)? != 0;
    a.checked_div(b)?.checked_sub(i64::from(inexact && (a < 0) != (b < 0)))
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
    /// An arithmetic operator.
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
            Source::Element { x, axis: axis(args, x)?, index: args.scalar("index")? }
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
    let len = dims[axis];
    if dims.without(axis).count() != 1 {
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
                if name == "floordiv" && b == 0 {
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
