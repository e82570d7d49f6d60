//! An output: memory that `NumPy`, `PyTorch` and others read without a copy.
#![allow(unsafe_code, reason = "Python programs write to the memory through pointers of other libraries")]

use std::cell::UnsafeCell;
use std::sync::Arc;

use pteron::{ScalarType, Tensor};
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyCapsule, PyDict, PyList};

use crate::dlpack;
use crate::errors;

/// The bytes of an output. Other libraries hold pointers to them and write to them.
pub(crate) struct Memory(UnsafeCell<Vec<u8>>);

// SAFETY: the vector itself never changes, only its elements do, which are bytes; programs that write and read an array in two threads
// at once synchronise them, as with any array in Python.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn pointer(&self) -> *mut u8 {
        // SAFETY: no reference to the vector outlives a call of these functions.
        unsafe { (*self.0.get()).as_mut_ptr() }
    }

    fn copy(&self) -> Vec<u8> {
        // SAFETY: as above.
        unsafe { (*self.0.get()).clone() }
    }
}

/// A tensor that a method returned, where neither torch nor numpy takes it: `numpy.asarray(array)`, `torch.from_dlpack(array)` and
/// `memoryview(array.tobytearray())` work, and `tolist()` needs nothing.
#[pyclass(frozen, module = "pteron", name = "Array")]
pub(crate) struct Array {
    scalar_type: ScalarType,
    shape: Vec<u32>,
    memory: Arc<Memory>,
}

impl Array {
    pub(crate) fn new(tensor: Tensor) -> PyResult<Self> {
        let (scalar_type, shape) = (tensor.scalar_type(), tensor.shape().to_vec());
        let bytes = tensor.into_bytes().map_err(errors::program)?;
        Ok(Self { scalar_type, shape, memory: Arc::new(Memory(UnsafeCell::new(bytes))) })
    }

    pub(crate) fn capsule<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        dlpack::capsule(py, self.scalar_type, &self.shape, Arc::clone(&self.memory))
    }

    /// Whether numpy has the element type.
    pub(crate) fn is_for_numpy(&self) -> bool {
        type_string(self.scalar_type).is_some()
    }

    fn tensor(&self) -> PyResult<Tensor> {
        Tensor::new(self.scalar_type, &self.shape, self.memory.copy()).map_err(errors::program)
    }
}

#[pymethods]
impl Array {
    /// The sizes of the dimensions.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyTuple>> {
        pyo3::types::PyTuple::new(py, &self.shape)
    }

    /// The name of the element type, as in PyTorch.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.scalar_type.name()
    }

    /// The number of bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        let count: u64 = self.shape.iter().map(|&dim| u64::from(dim)).product();
        count * self.scalar_type.size()
    }

    /// A copy of the elements in memory order.
    fn tobytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.memory.copy())
    }

    /// A copy that can be changed.
    fn tobytearray<'py>(&self, py: Python<'py>) -> Bound<'py, PyByteArray> {
        PyByteArray::new(py, &self.memory.copy())
    }

    /// The elements as nested lists of numbers; a number for a tensor without dimensions.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let tensor = self.tensor()?;
        let mut numbers = numbers(py, &tensor)?;
        for &dim in self.shape.iter().skip(1).rev() {
            let len = usize::try_from(dim).unwrap_or(0).max(1);
            let rows = numbers.chunks(len).map(|row| Ok(PyList::new(py, row)?.into_any()));
            numbers = rows.collect::<PyResult<_>>()?;
        }
        match (self.shape.is_empty(), numbers.pop()) {
            (true, Some(number)) => Ok(number),
            (_, last) => {
                numbers.extend(last);
                Ok(PyList::new(py, numbers)?.into_any())
            }
        }
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.shape.first().ok_or_else(|| PyTypeError::new_err("a tensor without dimensions has no length"))?;
        Ok(usize::try_from(*first)?)
    }

    fn __repr__(&self) -> String {
        format!("pteron.Array(shape={:?}, dtype={})", self.shape, self.scalar_type.name())
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Some(kind) = type_string(self.scalar_type) else {
            return Err(PyAttributeError::new_err(format!("numpy has no type for {}", self.scalar_type.name())));
        };
        let dict = PyDict::new(py);
        dict.set_item("version", 3)?;
        dict.set_item("typestr", kind)?;
        dict.set_item("shape", self.shape(py)?)?;
        dict.set_item("data", (self.memory.pointer().expose_provenance(), false))?;
        Ok(dict)
    }

    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    #[allow(clippy::needless_pass_by_value, reason = "the signature of the protocol")]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Py<PyAny>>,
        max_version: Option<Py<PyAny>>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = (stream, max_version);
        if dl_device.is_some_and(|(kind, _)| kind != dlpack::CPU) {
            return Err(pyo3::exceptions::PyBufferError::new_err("outputs are in the memory of the host"));
        }
        if copy == Some(true) {
            return Self::new(self.tensor()?)?.capsule(py);
        }
        self.capsule(py)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (dlpack::CPU, 0)
    }
}

/// The elements of a tensor as Python's numbers.
fn numbers<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let any = |list: Bound<'py, PyList>| list.iter().collect();
    if tensor.scalar_type() == ScalarType::Bool {
        return Ok(any(PyList::new(py, tensor.bytes().iter().map(|&byte| byte != 0))?));
    }
    if tensor.scalar_type() == ScalarType::Double {
        let (chunks, _) = tensor.bytes().as_chunks::<8>();
        return Ok(any(PyList::new(py, chunks.iter().map(|&chunk| f64::from_le_bytes(chunk)))?));
    }
    if let Some(integers) = tensor.to_i64() {
        return Ok(any(PyList::new(py, integers)?));
    }
    match tensor.to_f32() {
        Some(floats) => Ok(any(PyList::new(py, floats)?)),
        None => Err(PyTypeError::new_err(format!("Python has no numbers of type {}", tensor.scalar_type().name()))),
    }
}

/// The element types of `numpy`, in the notation of its array interface.
const TYPES: &[(ScalarType, &str)] = &[
    (ScalarType::Byte, "|u1"),
    (ScalarType::Char, "|i1"),
    (ScalarType::Bool, "|b1"),
    (ScalarType::Short, "<i2"),
    (ScalarType::UInt16, "<u2"),
    (ScalarType::Half, "<f2"),
    (ScalarType::Int, "<i4"),
    (ScalarType::UInt32, "<u4"),
    (ScalarType::Float, "<f4"),
    (ScalarType::Long, "<i8"),
    (ScalarType::UInt64, "<u8"),
    (ScalarType::Double, "<f8"),
];

fn type_string(scalar: ScalarType) -> Option<&'static str> {
    TYPES.iter().find(|(own, _)| *own == scalar).map(|(_, kind)| *kind)
}

/// The element type that numpy's array interface names.
pub(crate) fn of_type_string(kind: &str) -> Option<ScalarType> {
    TYPES.iter().find(|(_, own)| *own == kind).map(|(scalar, _)| *scalar)
}
