//! Translates the kernel calls of an execution plan.
//!
//! A kernel call names an out variant of an operator (`aten::add.out`); `kernels` finds the operator and its arguments. Kernels
//! that change a buffer in place, compute numbers or only reshape are translated here one by one.

mod antialias;
mod backward;
mod choices;
pub(super) mod flow;
mod kernels;
mod numbers;
mod quantised;
pub(super) mod values;

use pteron_format::program::{self as file, Operator, Value as PlanValue};

use self::flow::{KernelArgs, kernel_args};
use self::kernels::Arg;
pub(super) use self::values::PlanValues;
pub use self::values::data_type;
use crate::error::{Error, OpError, Result};
use crate::graph::Elem;
use crate::ir::{DataType, ValueId};

const SELECT: &str = "aten.select_copy.int";
const VIEW: &str = "aten.view_copy.default";
const PUT: &str = "aten.index_put.default";

/// Whether kernels of this name can be part of a graph.
#[must_use]
pub fn is_known(kernel: &Operator) -> bool {
    let full = flow::full_name(kernel);
    SPECIAL.iter().any(|(name, _)| *name == full) || numbers::is_known(&full) || kernels::find(kernel).is_some()
}

/// The names of the kernels that can be part of a graph, as exporters write them.
#[must_use]
pub fn kernel_names() -> std::collections::BTreeSet<String> {
    let special = SPECIAL.iter().map(|(name, _)| (*name).to_owned());
    kernels::names().into_iter().chain(special).collect()
}

/// Whether a kernel selects or replaces elements by a list of index tensors, its second argument. A mask among them decides how many.
pub(super) fn takes_indices(kernel: &Operator) -> bool {
    kernel.name == "aten::index" || puts_values(kernel)
}

/// Whether a kernel replaces elements by the values of its third argument.
pub(super) fn puts_values(kernel: &Operator) -> bool {
    kernel.name == "aten::index_put"
}

type Translate = fn(&mut PlanValues<'_>, &KernelArgs<'_>) -> Result<()>;

/// Kernels that are more, or less, than one operator.
const SPECIAL: &[(&str, Translate)] = &[
    ("executorch_prim::et_view.default", view),
    ("aten::copy_", copy_in_place),
    ("aten::copy.out", copy),
    ("aten::index_put_", index_put_in_place),
    ("aten::index_put.out", index_put),
    ("aten::embedding.out", embedding),
    ("aten::scatter_add.out", |values, args| sums(values, args, "aten.scatter_add.default", 3)),
    ("llama::update_cache.out", |values, args| in_place(values, args, "update_cache.default", &[1])),
    ("llama::update_cache_with_indices.out", |values, args| {
        in_place(values, args, "llama.update_cache_with_indices.default", &[1])
    }),
    ("llama::sdpa_with_kv_cache.out", |values, args| in_place(values, args, "sdpa_with_kv_cache.default", &[3, 4])),
    ("aten::transpose_copy.int_out", transpose),
    ("aten::unbind_copy.int_out", unbind),
    ("aten::split_copy.Tensor_out", split),
    ("aten::stack.out", stack),
    ("aten::masked_scatter.out", masked_scatter),
    ("aten::_upsample_bilinear2d_aa.out", antialias::upsample),
    ("aten::convolution_backward.out", backward::convolution),
    ("aten::max_pool2d_with_indices_backward.grad_input", backward::max_pool),
    ("quantized_decomposed::add.out", quantised::add),
    ("quantized_decomposed::mixed_linear.out", quantised::mixed_linear),
    ("quantized_decomposed::mixed_mm.out", quantised::mixed_mm),
    ("aten::arange.out", |values, args| arange(values, args, false)),
    ("aten::arange.start_out", |values, args| arange(values, args, true)),
];

impl PlanValues<'_> {
    /// Translates a kernel call.
    pub(super) fn kernel(&mut self, kernel: &Operator, args: &[file::ValueId]) -> Result<()> {
        let plan = self.plan;
        let full = flow::full_name(kernel);
        let Some(sorted) = kernel_args(plan, &full, args) else {
            let error = OpError::new("out", "is not where a kernel call has it, before its result");
            return Err(error.of(&full, self.builder.origin()).into());
        };
        if let Some((_, translate)) = SPECIAL.iter().find(|(name, _)| *name == full) {
            return translate(self, &sorted);
        }
        if numbers::is_known(&full) {
            return numbers::translate(self, &full, &sorted);
        }
        let Some(target) = kernels::find(kernel) else {
            self.builder.unsupported(&full);
            // Calls that read its outputs are translated all the same, to report everything that is missing.
            return sorted.outputs.iter().try_for_each(|&id| self.placeholder(id));
        };
        let mut inputs = self.arguments(&sorted, target.args)?;
        choices::narrow(self, target.operator, &mut inputs)?;
        if choices::of_bytes(self, target.operator, &sorted, &mut inputs)? {
            return Ok(());
        }
        let outputs = self.call(target.operator, &sorted, &inputs)?;
        self.note_elements(target.operator, &inputs, &outputs);
        Ok(())
    }

    fn placeholder(&mut self, id: file::ValueId) -> Result<()> {
        match self.plan.value(id) {
            Some(PlanValue::Tensor(_)) => self.output(id).map(|_| ()),
            _ => {
                let number = self.builder.symint()?;
                self.set(id, number);
                Ok(())
            }
        }
    }

    /// The arguments of an operator before its outputs.
    fn arguments(&mut self, args: &KernelArgs<'_>, map: Option<&'static [Arg]>) -> Result<Vec<ValueId>> {
        let Some(map) = map else { return args.inputs.iter().map(|&id| self.argument(id)).collect() };
        let mut mapped = Vec::with_capacity(map.len());
        for arg in map {
            mapped.push(match *arg {
                Arg::At(index) => self.argument_at(args, index)?,
                Arg::None => self.builder.null()?,
                Arg::ListOf(index) => {
                    let item = self.argument_at(args, index)?;
                    match self.literal(item) {
                        Some(literal) => self.builder.ints(&[literal])?,
                        None => self.builder.list(&[item])?,
                    }
                }
            });
        }
        Ok(mapped)
    }

    fn argument_at(&mut self, args: &KernelArgs<'_>, index: usize) -> Result<ValueId> {
        let id = self.input_at(args, index)?;
        self.argument(id)
    }

    fn input_at(&self, args: &KernelArgs<'_>, index: usize) -> Result<file::ValueId> {
        args.inputs.get(index).copied().ok_or_else(|| self.error("args", format!("has no argument {index}")))
    }

    fn tensor_in(&mut self, args: &KernelArgs<'_>, index: usize) -> Result<ValueId> {
        let id = self.input_at(args, index)?;
        self.tensor(id)
    }

    /// A literal argument.
    fn literal_at(&mut self, args: &KernelArgs<'_>, index: usize, name: &'static str) -> Result<i64> {
        let value = self.argument_at(args, index)?;
        self.literal(value).ok_or_else(|| self.error(name, "is no integer that the program fixes"))
    }

    fn error(&self, argument: &'static str, reason: impl Into<String>) -> Error {
        OpError::new(argument, reason).of("a kernel", self.builder.origin()).into()
    }

    /// Adds a call that writes new tensors for the kernel's outputs.
    fn call(&mut self, operator: &str, args: &KernelArgs<'_>, inputs: &[ValueId]) -> Result<Vec<ValueId>> {
        let outputs = args.outputs.iter().map(|&id| self.output(id)).collect::<Result<Vec<_>>>()?;
        let out = match (outputs.as_slice(), args.listed) {
            (&[out], false) => out,
            (outputs, _) => self.builder.list(outputs)?,
        };
        self.builder.call(operator, &[inputs, &[out]].concat())?;
        Ok(outputs)
    }

    /// Follows elements of integer inputs through selections and reshapes.
    fn note_elements(&mut self, operator: &str, inputs: &[ValueId], outputs: &[ValueId]) {
        let (&[out], Some(&from)) = (outputs, inputs.first()) else { return };
        match (operator, inputs) {
            (SELECT, &[_, dim, index]) => self.selected(from, dim, index, out),
            _ if RESHAPES.contains(&operator) => self.same_elements(from, out),
            _ => {}
        }
    }
}

/// Operators whose output has the elements of their first argument, in order.
const RESHAPES: &[&str] = &[
    VIEW,
    "aten.unsqueeze_copy.default",
    "aten.squeeze_copy.dims",
    "aten.clone.default",
    "aten.alias_copy.default",
    "aten._to_copy.default",
];

/// A reshape.
fn view(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<()> {
    let inputs = [values.tensor_in(args, 0)?, values.argument_at(args, 1)?];
    let outputs = values.call(VIEW, args, &inputs)?;
    outputs.iter().for_each(|&out| values.same_elements(inputs[0], out));
    Ok(())
}

/// `self.copy_(src)`: the buffer's content is that of `src` from now on.
fn copy_in_place(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<()> {
    let (to, from) = (values.input_at(args, 0)?, values.tensor_in(args, 1)?);
    values.assign(to, from)
}

fn copy(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<()> {
    let (to, from) = (first_output(values, args)?, values.tensor_in(args, 1)?);
    values.assign(to, from)
}

fn first_output(values: &PlanValues<'_>, args: &KernelArgs<'_>) -> Result<file::ValueId> {
    args.outputs.first().copied().ok_or_else(|| values.error("out", "is missing"))
}

/// `self.index_put_(indices, values, accumulate)`.
fn index_put_in_place(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<()> {
    let inputs = args.inputs.iter().map(|&id| values.argument(id)).collect::<Result<Vec<_>>>()?;
    let own = args.inputs.get(..1).unwrap_or_default();
    values.call(PUT, &KernelArgs { outputs: own, ..*args }, &inputs).map(|_| ())
}

/// `index_put(self, indices, values, accumulate)`.
fn index_put(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<()> {
    if values.literal_at(args, 3, "accumulate")? != 0 {
        return sums(values, args, PUT, 2);
    }
    let inputs = args.inputs.iter().map(|&id| values.argument(id)).collect::<Result<Vec<_>>>()?;
    values.call(PUT, args, &inputs).map(|_| ())
}

/// `embedding(weight, indices, …)`. Rows of a table without floats are selected as any other elements.
fn embedding(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<()> {
    let [weight, indices] = [values.tensor_in(args, 0)?, values.tensor_in(args, 1)?];
    let floats = values.builder.tensor_at(weight).is_none_or(|weight| Elem::of(weight.dtype) == Some(Elem::F32));
    if floats {
        let inputs = args.inputs.iter().map(|&id| values.argument(id)).collect::<Result<Vec<_>>>()?;
        return values.call("aten.embedding.default", args, &inputs).map(|_| ());
    }
    let list = values.builder.list(&[indices])?;
    values.call("aten.index.Tensor", args, &[weight, list]).map(|_| ())
}

/// An operator that adds elements of the argument `source` to its first one. Bytes are added as words.
fn sums(values: &mut PlanValues<'_>, args: &KernelArgs<'_>, operator: &str, source: usize) -> Result<()> {
    let out = first_output(values, args)?;
    let (dtype, dims) = values.tensor_type(out)?;
    let mut inputs = args.inputs.iter().map(|&id| values.argument(id)).collect::<Result<Vec<_>>>()?;
    if matches!(Elem::of(dtype), Some(Elem::F32 | Elem::I32)) {
        return values.call(operator, args, &inputs).map(|_| ());
    }
    for (index, input) in inputs.iter_mut().enumerate() {
        if [0, source].contains(&index) {
            *input = values.converted(*input, DataType::Int32)?;
        }
    }
    let sums = values.builder.compute(operator, &inputs, DataType::Int32, dims)?;
    values.assign(out, sums)
}

/// An operator that changes some arguments in place. One that is no state is copied first: others may read what it was.
fn in_place(values: &mut PlanValues<'_>, args: &KernelArgs<'_>, operator: &str, changed: &[usize]) -> Result<()> {
    for &index in changed {
        let id = values.input_at(args, index)?;
        if values.state_of(id)?.is_none() {
            let copy = values.private(id)?;
            values.set(id, copy);
        }
    }
    let inputs = args.inputs.iter().map(|&id| values.argument(id)).collect::<Result<Vec<_>>>()?;
    values.call(operator, args, &inputs).map(|_| ())
}

/// `transpose_copy(self, dim0, dim1)` is a permutation.
fn transpose(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<()> {
    let from = values.tensor_in(args, 0)?;
    let rank = values.builder.tensor_at(from).map_or(0, |tensor| tensor.dims.len());
    let mut order: Vec<i64> = (0..).take(rank).collect();
    let dims = [values.literal_at(args, 1, "dim0")?, values.literal_at(args, 2, "dim1")?];
    let [a, b] = dims.map(|dim| crate::args::normalise(dim, rank));
    let (Some(a), Some(b)) = (a, b) else { return Err(values.error("dim0", "is not a dimension of the tensor")) };
    if rank > 0 {
        order.swap(a, b);
    }
    let order = values.builder.ints(&order)?;
    values.call("aten.permute_copy.default", args, &[from, order]).map(|_| ())
}

/// `unbind_copy(self, dim)` selects every index of a dim.
fn unbind(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<()> {
    let (from, dim) = (values.tensor_in(args, 0)?, values.argument_at(args, 1)?);
    for (index, &id) in (0i64..).zip(args.outputs) {
        let index = values.builder.int(index)?;
        let out = values.output(id)?;
        values.builder.call(SELECT, &[from, dim, index, out])?;
    }
    Ok(())
}

/// `split_copy(self, split_size, dim)`: all parts but the last have the same size.
fn split(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<()> {
    let (from, dim) = (values.tensor_in(args, 0)?, values.literal_at(args, 2, "dim")?);
    let dims = values.builder.tensor_at(from).map(|tensor| tensor.dims.clone()).unwrap_or_default();
    let Some(axis) = crate::args::normalise(dim, dims.len()) else {
        return Err(values.error("dim", "is not a dimension of the tensor"));
    };
    let mut sizes = Vec::with_capacity(args.outputs.len());
    for &id in args.outputs {
        let size = values.plan.value(id).and_then(PlanValue::as_tensor).and_then(|tensor| tensor.sizes.get(axis));
        sizes.push(size.map_or(0, |&size| i64::from(size)));
    }
    let (sizes, dim) = (values.builder.ints(&sizes)?, values.builder.int(dim)?);
    values.call("aten.split_with_sizes_copy.default", args, &[from, sizes, dim]).map(|_| ())
}

/// `stack(tensors, dim)` concatenates tensors along a new dim.
fn stack(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<()> {
    let list = values.input_at(args, 0)?;
    let Some(PlanValue::TensorList(ids)) = values.plan.value(list) else {
        return Err(values.error("tensors", "is no list of tensors"));
    };
    let dim = values.literal_at(args, 1, "dim")?;
    let dim_value = values.builder.int(dim)?;
    let mut parts = Vec::with_capacity(ids.len());
    for &id in ids {
        let part = values.tensor(id)?;
        let Some(tensor) = values.builder.tensor_at(part) else { continue };
        let (dtype, mut dims) = (tensor.dtype, tensor.dims.clone());
        let Some(axis) = crate::args::normalise(dim, dims.len() + 1) else {
            return Err(values.error("dim", "is not a place for a dimension"));
        };
        dims.insert(axis, 1);
        parts.push(values.builder.compute("aten.unsqueeze_copy.default", &[part, dim_value], dtype, &dims)?);
    }
    let parts = values.builder.list(&parts)?;
    values.call("aten.cat.default", args, &[parts, dim_value]).map(|_| ())
}

/// `arange([start,] end[, step])`. Bytes are converted from integers.
fn arange(values: &mut PlanValues<'_>, args: &KernelArgs<'_>, started: bool) -> Result<()> {
    let out = first_output(values, args)?;
    let (dtype, dims) = values.tensor_type(out)?;
    let dtype = if matches!(Elem::of(dtype), Some(Elem::F32)) { dtype } else { DataType::Int32 };
    let (zero, one, none) = (values.builder.int(0)?, values.builder.int(1)?, values.builder.null()?);
    let [start, end, step] = match started {
        true => [values.argument_at(args, 0)?, values.argument_at(args, 1)?, values.argument_at(args, 2)?],
        false => [zero, values.argument_at(args, 0)?, one],
    };
    let numbers =
        values.builder.compute("aten.arange.start_step", &[start, end, step, none, none, none, none], dtype, dims)?;
    values.assign(out, numbers)
}

/// `masked_scatter(self, mask, source)`: the elements of `source`, in order, where the mask is true. A running count of the mask's true
/// elements says which one each takes.
fn masked_scatter(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<()> {
    let [own, mask, source] = [values.tensor_in(args, 0)?, values.tensor_in(args, 1)?, values.tensor_in(args, 2)?];
    let out = first_output(values, args)?;
    let (dtype, dims) = values.tensor_type(out)?;
    let (flat, zero, one) = (values.builder.ints(&[-1])?, values.builder.int(0)?, values.builder.int(1)?);
    let none = values.builder.null()?;
    let count = dims.iter().try_fold(1u32, |count, &dim| count.checked_mul(dim)).unwrap_or(u32::MAX);
    let elements = |values: &PlanValues<'_>, id| {
        let tensor = values.builder.tensor_at(id);
        tensor.and_then(crate::ir::Tensor::element_count).and_then(|count| u32::try_from(count).ok()).unwrap_or(u32::MAX)
    };
    // The dims of `self`, live.
    let like =
        values.builder.compute("aten.zeros_like.default", &[own, none, none, none, none, none], DataType::Bool, dims)?;
    let mask = values.builder.compute("aten.logical_or.default", &[like, mask], DataType::Bool, dims)?;
    let row = values.builder.compute(VIEW, &[mask, flat], DataType::Bool, &[count])?;
    let counts = values.builder.compute("aten.cumsum.default", &[row, zero, none], DataType::Int32, &[count])?;
    let before = values.builder.compute("aten.sub.Scalar", &[counts, one, one], DataType::Int32, &[count])?;
    let before = values.builder.compute("aten.clamp.default", &[before, zero, none], DataType::Int32, &[count])?;
    let total = elements(values, source);
    let source_row = values.builder.compute(VIEW, &[source, flat], dtype, &[total])?;
    let chosen = values.builder.compute("aten.index_select.default", &[source_row, zero, before], dtype, &[count])?;
    let own_row = values.builder.compute(VIEW, &[own, flat], dtype, &[count])?;
    let merged = values.builder.compute("aten.where.self", &[row, chosen, own_row], dtype, &[count])?;
    let id = values.input_at(args, 0)?;
    let sizes = numbers::sizes(values, id)?;
    let shaped = values.builder.compute(VIEW, &[merged, sizes], dtype, dims)?;
    values.assign(out, shaped)
}
