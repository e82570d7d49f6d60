//! What a program says about its methods, with ExecuTorch's names.

use pteron_format::ScalarType;
use pteron_format::program::{ExecutionPlan, Tensor, Value, ValueId};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::program::no_index;

/// Metadata about a tensor: its shape, or the largest one, and its element type.
#[pyclass(frozen, module = "pteron.extension.pybindings.portable_lib")]
#[derive(Clone)]
pub(crate) struct TensorInfo {
    sizes: Vec<u32>,
    scalar_type: ScalarType,
    is_memory_planned: bool,
}

impl TensorInfo {
    fn of(tensor: &Tensor) -> Self {
        Self { sizes: tensor.sizes.clone(), scalar_type: tensor.scalar_type, is_memory_planned: tensor.allocation.is_some() }
    }

    fn bytes(&self) -> u64 {
        let count = pteron_format::element_count(self.sizes.iter().copied());
        count.unwrap_or(u64::MAX).saturating_mul(self.scalar_type.size())
    }
}

#[pymethods]
impl TensorInfo {
    /// The shape; of a tensor whose shape varies, the largest one.
    fn sizes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.sizes)
    }

    /// The element type, as PyTorch numbers them: 6 is float32, 4 is int64.
    fn dtype(&self) -> i8 {
        self.scalar_type.to_wire()
    }

    /// Whether the program states where the tensor lies in memory.
    fn is_memory_planned(&self) -> bool {
        self.is_memory_planned
    }

    /// The number of bytes.
    fn nbytes(&self) -> u64 {
        self.bytes()
    }

    fn __repr__(&self) -> String {
        let planned = if self.is_memory_planned { "True" } else { "False" };
        format!(
            "TensorInfo(sizes={:?}, dtype={:?}, is_memory_planned={planned}, nbytes={})",
            self.sizes,
            self.scalar_type,
            self.bytes()
        )
    }
}

/// An input or output: a tensor, or the kind of what it is instead.
type Described = Result<TensorInfo, &'static str>;

/// Metadata about a method: its inputs, outputs and attributes.
#[pyclass(frozen, module = "pteron.extension.pybindings.portable_lib")]
#[derive(Clone)]
pub(crate) struct MethodMeta {
    pub(crate) name: String,
    inputs: Vec<Described>,
    outputs: Vec<Described>,
    attributes: Vec<TensorInfo>,
}

impl MethodMeta {
    pub(crate) fn of(plan: &ExecutionPlan) -> Self {
        let described = |id: &ValueId| match plan.value(*id) {
            Some(Value::Tensor(tensor)) => Ok(TensorInfo::of(tensor)),
            Some(other) => Err(other.kind()),
            None => Err("missing"),
        };
        let named = |tensor: &&Tensor| {
            // Mutable buffers that the exporter was asked to name.
            tensor.allocation.is_some() && tensor.extra.as_ref().is_some_and(|extra| extra.name.is_some())
        };
        Self {
            name: plan.name.clone(),
            inputs: plan.inputs.iter().map(described).collect(),
            outputs: plan.outputs.iter().map(described).collect(),
            attributes: plan.values.iter().filter_map(Value::as_tensor).filter(named).map(TensorInfo::of).collect(),
        }
    }
}

fn tensor(what: &str, list: &[Described], index: usize) -> PyResult<TensorInfo> {
    match list.get(index) {
        Some(Ok(info)) => Ok(info.clone()),
        Some(Err(kind)) => Err(PyRuntimeError::new_err(format!("{what} {index} is no tensor: it is {kind}"))),
        None => Err(no_index(what, index, list.len())),
    }
}

#[pymethods]
impl MethodMeta {
    /// The name of the method, such as `forward`.
    fn name(&self) -> &str {
        &self.name
    }

    /// The number of inputs that a caller passes.
    fn num_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// The number of outputs, without state.
    fn num_outputs(&self) -> usize {
        self.outputs.len()
    }

    /// The number of state tensors that have a name.
    fn num_attributes(&self) -> usize {
        self.attributes.len()
    }

    /// The input at an index. Raises an `IndexError` if there is none.
    fn input_tensor_meta(&self, index: usize) -> PyResult<TensorInfo> {
        tensor("input", &self.inputs, index)
    }

    /// The output at an index. Raises an `IndexError` if there is none.
    fn output_tensor_meta(&self, index: usize) -> PyResult<TensorInfo> {
        tensor("output", &self.outputs, index)
    }

    /// The attribute at an index. Raises an `IndexError` if there is none.
    fn attribute_tensor_meta(&self, index: usize) -> PyResult<TensorInfo> {
        self.attributes.get(index).cloned().ok_or_else(|| no_index("attribute", index, self.attributes.len()))
    }

    fn __repr__(&self) -> String {
        let list = |described: &[Described]| {
            let texts = described.iter().map(|one| match one {
                Ok(info) => format!("'{}'", info.__repr__()),
                Err(kind) => format!("'{kind}'"),
            });
            texts.collect::<Vec<_>>().join(", ")
        };
        format!(
            "MethodMeta(name='{}', num_inputs={}, input_tensor_meta=[{}], num_outputs={}, output_tensor_meta=[{}])",
            self.name,
            self.inputs.len(),
            list(&self.inputs),
            self.outputs.len(),
            list(&self.outputs)
        )
    }
}
