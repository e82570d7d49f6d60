//! Kernels that run on the host, between two graphs.
//!
//! Memory and kernels of a graph are planned from shapes, so a kernel whose output's shape depends on data cannot be part of one.
//! Such kernels are plain loops here, and so is arithmetic on numbers that decide a jump. A kernel that a graph can compute never
//! runs here.

mod collect;
mod index;
mod numbers;
mod select;
mod sort;

#[cfg(test)]
mod tests;

use pteron_format::program::{ExecutionPlan, Operator, Value, ValueId};

use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// An argument of a kernel.
#[derive(Debug)]
pub(crate) enum Argument<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A whole number, or a Boolean.
    Int(i64),
    /// Another number.
    Float(f64),
    /// A list of tensors, some of which may be None.
    List(Vec<Option<&'a Tensor>>),
    /// Anything else.
    Other,
}

impl<'a> Argument<'a> {
    fn tensor(&self) -> Result<&'a Tensor, String> {
        match self {
            Self::Tensor(tensor) => Ok(tensor),
            _ => Err("takes a tensor, but got another value".to_owned()),
        }
    }

    fn number(&self) -> Result<f64, String> {
        #[allow(clippy::cast_precision_loss, reason = "numbers that steer are sizes and positions")]
        match self {
            Self::Float(value) => Ok(*value),
            other => other.int().map(|value| value as f64),
        }
    }

    fn int(&self) -> Result<i64, String> {
        match self {
            Self::Int(value) => Ok(*value),
            // Python merges equal constants.
            #[allow(clippy::cast_possible_truncation, reason = "a whole number that was merged with an equal float")]
            Self::Float(value) if value.fract() == 0.0 && value.abs() < 9.0e15 => Ok(*value as i64),
            _ => Err("takes an integer, but got another value".to_owned()),
        }
    }
}

/// Computes the outputs of a kernel, or says why it cannot.
type Kernel = fn(&[Argument<'_>]) -> Result<Vec<Tensor>, String>;

/// The kernels.
const KERNELS: &[(&str, Kernel)] = &[
    ("aten::index.Tensor_out", index::index),
    ("aten::index_put.out", index::index_put),
    ("aten::nonzero.out", select::nonzero),
    ("aten::masked_select.out", select::masked_select),
    ("aten::repeat_interleave.Tensor_out", select::repeat_interleave),
    ("aten::sort.values", sort::sort),
    ("aten::sort.values_stable", sort::sort_stable),
    ("aten::topk.values", sort::topk),
    ("aten::_local_scalar_dense", numbers::item),
    ("aten::sym_size.int", numbers::size),
    ("aten::sym_numel", numbers::count),
    ("executorch_prim::add.Scalar", |args| numbers::whole(args, i64::checked_add)),
    ("executorch_prim::sub.Scalar", |args| numbers::whole(args, i64::checked_sub)),
    ("executorch_prim::mul.Scalar", |args| numbers::whole(args, i64::checked_mul)),
    ("executorch_prim::floordiv.Scalar", |args| numbers::whole(args, numbers::floor_div)),
    ("executorch_prim::floordiv.int", |args| numbers::whole(args, numbers::floor_div)),
    ("executorch_prim::mod.Scalar", |args| numbers::whole(args, numbers::modulo)),
    ("executorch_prim::mod.int", |args| numbers::whole(args, numbers::modulo)),
    ("executorch_prim::sym_max.Scalar", |args| numbers::whole(args, |a, b| Some(a.max(b)))),
    ("executorch_prim::sym_min.Scalar", |args| numbers::whole(args, |a, b| Some(a.min(b)))),
    ("executorch_prim::lt.Scalar", |args| numbers::compare(args, |a, b| a < b)),
    ("executorch_prim::le.Scalar", |args| numbers::compare(args, |a, b| a <= b)),
    ("executorch_prim::gt.Scalar", |args| numbers::compare(args, |a, b| a > b)),
    ("executorch_prim::ge.Scalar", |args| numbers::compare(args, |a, b| a >= b)),
    ("executorch_prim::eq.Scalar", |args| numbers::compare(args, |a, b| a == b)),
    ("executorch_prim::sym_not.Scalar", numbers::not),
    ("executorch_prim::neg.Scalar", numbers::negate),
    ("executorch_prim::truediv.Scalar", numbers::divide),
    ("executorch_prim::sym_float.Scalar", |args| numbers::float(at(args, 0)?.number()?)),
    ("executorch_prim::sym_int.Scalar", |args| numbers::rounded(args, f64::trunc)),
    ("executorch_prim::trunc.Scalar", |args| numbers::rounded(args, f64::trunc)),
    ("executorch_prim::ceil.Scalar", |args| numbers::rounded(args, f64::ceil)),
    ("executorch_prim::round.Scalar", |args| numbers::rounded(args, f64::round_ties_even)),
    ("executorch_prim::sym_ite.Scalar", numbers::choose),
    ("executorch_prim::et_copy_index.tensor", collect::copy_index),
];

/// Whether the host can run a kernel.
pub(crate) fn is_known(kernel: &Operator) -> bool {
    find(kernel).is_some()
}

/// The names of the kernels that run on the host.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    KERNELS.iter().map(|(name, _)| *name)
}

fn find(kernel: &Operator) -> Option<Kernel> {
    let full = kernel.to_string();
    KERNELS.iter().find(|(name, _)| *name == full).map(|(_, kernel)| *kernel)
}

/// The values that a kernel reads: its inputs, and the items of those that are lists.
pub(crate) fn reads(plan: &ExecutionPlan, inputs: &[ValueId]) -> Vec<ValueId> {
    let items = inputs.iter().filter_map(|&id| match plan.value(id)? {
        Value::OptionalTensorList(items) => Some(items.iter().flatten()),
        _ => None,
    });
    inputs.iter().chain(items.flatten()).copied().collect()
}

/// Runs a kernel. `tensor` returns the tensors and numbers that have been computed; numbers are tensors of one element.
pub(crate) fn run<'a>(
    plan: &ExecutionPlan,
    kernel: &Operator,
    inputs: &[ValueId],
    tensor: impl Fn(ValueId) -> Option<&'a Tensor>,
) -> Result<Vec<Tensor>> {
    let fail = |reason: String| Error::Unsupported { method: plan.name.clone(), reason: format!("{kernel} {reason}") };
    let Some(run) = find(kernel) else { return Err(fail("does not run on the host".to_owned())) };
    let argument = |&id: &ValueId| match (plan.value(id), tensor(id)) {
        (Some(Value::Tensor(_)), Some(tensor)) => Ok(Argument::Tensor(tensor)),
        (Some(Value::Tensor(_)), None) => Err(fail(format!("reads value {id}, which nothing has computed"))),
        (_, Some(number)) => Ok(numbers::argument(number)),
        (Some(Value::OptionalTensorList(items)), _) => {
            let computed =
                |id: ValueId| tensor(id).ok_or_else(|| fail(format!("reads value {id}, which nothing has computed")));
            items.iter().map(|id| id.map(computed).transpose()).collect::<Result<_>>().map(Argument::List)
        }
        (Some(Value::Int(value)), None) => Ok(Argument::Int(*value)),
        (Some(Value::Bool(value)), None) => Ok(Argument::Int((*value).into())),
        (Some(Value::Double(value)), None) => Ok(Argument::Float(value.0)),
        _ => Ok(Argument::Other),
    };
    let arguments = inputs.iter().map(argument).collect::<Result<Vec<_>>>()?;
    run(&arguments).map_err(fail)
}

/// An argument of a kernel by position.
fn at<'k, 'a>(args: &'k [Argument<'a>], index: usize) -> Result<&'k Argument<'a>, String> {
    args.get(index).ok_or_else(|| format!("has no argument {index}"))
}

/// A dimension counted from the end if negative.
fn axis(dim: i64, rank: usize) -> Result<usize, String> {
    pteron_gpu::args::normalise(dim, rank).ok_or_else(|| format!("takes dimension {dim}, but the tensor has {rank}"))
}

fn created(tensor: Result<Tensor>) -> Result<Tensor, String> {
    tensor.map_err(|error| error.to_string())
}
