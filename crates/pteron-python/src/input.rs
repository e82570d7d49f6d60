//! Inputs of a call: arrays of any library, buffers and numbers, borrowed where their elements are contiguous.
//!
//! | object | way | copied |
//! |---|---|---|
//! | `torch.Tensor` | DLPack, through torch's own function | if strided, or on a GPU |
//! | anything with `__dlpack__` | DLPack | if strided |
//! | read-only arrays, which numpy exports to no DLPack capsule | `__array_interface__` | if strided |
//! | `bytes`, and writable buffers | the buffer's memory | if strided |
//! | other read-only buffers | | always |
//! | `bool`, `int`, `float` | one element of the type that the method takes | |

use pteron::{ScalarType, Tensor, TensorSpec};
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyCapsule, PyDict, PyFloat, PyInt, PyMemoryView, PyString, PyTuple};

use crate::array::{self, Array};
use crate::dlpack;
use crate::errors::{self, InputError};
use crate::strided::Strided;

/// The library whose arrays a call returns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Library {
    Torch,
    Numpy,
}

/// What this module calls of torch, once a program has imported it.
struct Torch {
    tensor: Py<PyAny>,
    to_dlpack: Py<PyAny>,
    from_dlpack: Py<PyAny>,
}

static TORCH: PyOnceLock<Torch> = PyOnceLock::new();
static NUMPY_ASARRAY: PyOnceLock<Option<Py<PyAny>>> = PyOnceLock::new();

/// Torch, if the program has imported it. Importing it here would take seconds.
fn torch(py: Python<'_>) -> PyResult<Option<&Torch>> {
    if let Some(torch) = TORCH.get(py) {
        return Ok(Some(torch));
    }
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?.cast_into::<PyDict>()?;
    if modules.get_item(intern!(py, "torch"))?.is_none() {
        return Ok(None);
    }
    let load = || -> PyResult<Torch> {
        let tensor = py.import("torch")?.getattr("Tensor")?.unbind();
        let functions = py.import("torch.utils.dlpack")?;
        let function = |name: &str| functions.getattr(name).map(Bound::unbind);
        Ok(Torch { tensor, to_dlpack: function("to_dlpack")?, from_dlpack: function("from_dlpack")? })
    };
    TORCH.get_or_try_init(py, load).map(Some)
}

/// Converts the inputs of a call, and says which library the outputs are for: torch if any input is one of its tensors.
pub(crate) fn tensors(inputs: &[Bound<'_, PyAny>], specs: &[TensorSpec], method: &str) -> PyResult<(Vec<Tensor>, Library)> {
    let mut library = Library::Numpy;
    let mut tensors = Vec::with_capacity(inputs.len());
    for (index, input) in inputs.iter().enumerate() {
        let named = |error: PyErr| in_input(input.py(), method, index, error);
        let tensor = if is_torch(input)? {
            library = Library::Torch;
            of_torch(input)
        } else {
            of_any(input, specs.get(index))
        };
        tensors.push(tensor.map_err(named)?);
    }
    Ok((tensors, library))
}

/// An error with the input that it is about.
fn in_input(py: Python<'_>, method: &str, index: usize, error: PyErr) -> PyErr {
    if !error.is_instance_of::<InputError>(py) {
        return error;
    }
    InputError::new_err(format!("input {index} of {method:?}: {}", error.value(py)))
}

fn is_torch(input: &Bound<'_, PyAny>) -> PyResult<bool> {
    match torch(input.py())? {
        Some(torch) => input.is_instance(torch.tensor.bind(input.py())),
        None => Ok(false),
    }
}

fn of_torch(input: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let py = input.py();
    let Some(torch) = torch(py)? else { return Err(PyTypeError::new_err("torch is not imported")) };
    let capsule = match torch.to_dlpack.bind(py).call1((input,)) {
        Ok(capsule) => capsule.cast_into::<PyCapsule>()?,
        Err(error) => return of_other_device(input, error),
    };
    match dlpack::tensor_in(&capsule)? {
        Ok(strided) => strided.tensor(capsule.into_any().unbind()),
        // CUDA and other GPUs: through the host.
        Err(_) => of_torch(&input.call_method0(intern!(py, "cpu"))?),
    }
}

/// A tensor that torch does not export: on the meta device, or of a layout that is not strided.
fn of_other_device(input: &Bound<'_, PyAny>, error: PyErr) -> PyResult<Tensor> {
    let py = input.py();
    let device = input.getattr(intern!(py, "device"))?;
    let kind: String = device.getattr(intern!(py, "type"))?.extract()?;
    if matches!(kind.as_str(), "cpu" | "cuda") {
        return Err(InputError::new_err(format!("torch cannot export it: {}", error.value(py))));
    }
    Err(InputError::new_err(format!(
        "it is on device {device}; only CPU and CUDA tensors have elements that a call can read"
    )))
}

fn of_any(input: &Bound<'_, PyAny>, spec: Option<&TensorSpec>) -> PyResult<Tensor> {
    let py = input.py();
    if let Ok(dlpack) = input.getattr(intern!(py, "__dlpack__")) {
        match dlpack.call0() {
            Ok(capsule) => {
                let capsule = capsule.cast_into::<PyCapsule>()?;
                return match dlpack::tensor_in(&capsule)? {
                    Ok(strided) => strided.tensor(capsule.into_any().unbind()),
                    Err(kind) => of_device(input, kind),
                };
            }
            // A read-only array, or a type that DLPack does not have.
            Err(error) if error.is_instance_of::<PyBufferError>(py) => {}
            Err(error) => return Err(error),
        }
    }
    match input.getattr(intern!(py, "__array_interface__")) {
        Ok(interface) => return of_interface(input, &interface),
        Err(error) if error.is_instance_of::<PyAttributeError>(py) => {}
        Err(error) => return Err(error),
    }
    if let Some(tensor) = of_number(input, spec)? {
        return Ok(tensor);
    }
    match PyMemoryView::from(input) {
        Ok(view) => of_buffer(input, &view),
        Err(_) => Err(not_a_tensor(input)),
    }
}

fn not_a_tensor(input: &Bound<'_, PyAny>) -> PyErr {
    let name = input.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    InputError::new_err(format!(
        "it is of type {name}; pass a tensor (anything with __dlpack__ or the buffer protocol) or a number"
    ))
}

/// An array on a GPU: numpy knows how to fetch it.
fn of_device(input: &Bound<'_, PyAny>, kind: i32) -> PyResult<Tensor> {
    match numpy_asarray(input.py()) {
        Some(asarray) => of_any(&asarray.call1((input,))?, None),
        None => Err(InputError::new_err(format!("it is on a device of DLPack's kind {kind}: copy it to the host"))),
    }
}

/// `numpy.asarray`, where numpy is installed.
fn numpy_asarray(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    let load = || py.import("numpy").and_then(|numpy| numpy.getattr("asarray")).ok().map(Bound::unbind);
    NUMPY_ASARRAY.get_or_init(py, load).as_ref().map(|function| function.bind(py).clone())
}

fn of_interface(input: &Bound<'_, PyAny>, interface: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let py = input.py();
    let kind: String = interface.get_item(intern!(py, "typestr"))?.extract()?;
    let Some(scalar_type) = array::of_type_string(&kind) else {
        return Err(InputError::new_err(format!("elements of numpy's type {kind:?} are of no type that programs have")));
    };
    let shape: Vec<i64> = interface.get_item(intern!(py, "shape"))?.extract()?;
    let strides = match interface.get_item(intern!(py, "strides")) {
        Ok(strides) if !strides.is_none() => Some(elements(&strides.extract::<Vec<i64>>()?, scalar_type)?),
        _ => None,
    };
    let (address, _): (usize, bool) = match interface.get_item(intern!(py, "data")) {
        Ok(data) if data.is_instance_of::<PyTuple>() => data.extract()?,
        _ => return Err(not_a_tensor(input)),
    };
    let data = std::ptr::with_exposed_provenance(address);
    // The interface keeps what the array made for it alive, such as a scalar's copy.
    let owner = PyTuple::new(py, [input, interface])?;
    Strided::new(scalar_type, data, &shape, strides)?.tensor(owner.into_any().unbind())
}

/// Strides in elements, of strides in bytes.
fn elements(strides: &[i64], scalar_type: ScalarType) -> PyResult<Vec<i64>> {
    let size = i64::try_from(scalar_type.size()).unwrap_or(1);
    if strides.iter().any(|stride| stride % size != 0) {
        return Err(InputError::new_err("its elements are not at multiples of their size"));
    }
    Ok(strides.iter().map(|stride| stride / size).collect())
}

/// A tensor with one element of the type that the method takes; `None` for what is no number.
fn of_number(input: &Bound<'_, PyAny>, spec: Option<&TensorSpec>) -> PyResult<Option<Tensor>> {
    let is_integer = input.is_instance_of::<PyInt>() || input.is_instance_of::<PyBool>();
    if !is_integer && !input.is_instance_of::<PyFloat>() {
        return Ok(None);
    }
    let (scalar_type, shape) = match spec {
        Some(spec) => (spec.scalar_type, vec![1; spec.shape.len()]),
        // The call says that there are too many inputs.
        None => (ScalarType::Long, Vec::new()),
    };
    let name = scalar_type.name();
    let out_of_range = |_| InputError::new_err(format!("{input} is out of the range of {name}"));
    let integer = || input.extract::<i64>().map_err(out_of_range);
    #[allow(clippy::cast_possible_truncation, reason = "the method takes 32-bit floats")]
    let bytes = match scalar_type {
        ScalarType::Float => (input.extract::<f64>()? as f32).to_le_bytes().to_vec(),
        ScalarType::Double => input.extract::<f64>()?.to_le_bytes().to_vec(),
        _ if !is_integer => return Err(InputError::new_err(format!("{input} is a float, but the method takes {name}"))),
        ScalarType::Long => integer()?.to_le_bytes().to_vec(),
        ScalarType::Int => input.extract::<i32>().map_err(out_of_range)?.to_le_bytes().to_vec(),
        ScalarType::Short => input.extract::<i16>().map_err(out_of_range)?.to_le_bytes().to_vec(),
        ScalarType::Char => input.extract::<i8>().map_err(out_of_range)?.to_le_bytes().to_vec(),
        ScalarType::Byte => input.extract::<u8>().map_err(out_of_range)?.to_le_bytes().to_vec(),
        ScalarType::Bool => vec![u8::from(input.is_truthy()?)],
        _ => return Err(InputError::new_err(format!("a number cannot be passed as {name}; pass a tensor"))),
    };
    Tensor::new(scalar_type, &shape, bytes).map(Some).map_err(errors::program)
}

fn of_buffer(input: &Bound<'_, PyAny>, view: &Bound<'_, PyMemoryView>) -> PyResult<Tensor> {
    let py = input.py();
    let format: String = view.getattr(intern!(py, "format"))?.extract()?;
    let item_size: u64 = view.getattr(intern!(py, "itemsize"))?.extract()?;
    let shape: Vec<i64> = view.getattr(intern!(py, "shape"))?.extract()?;
    let Some(scalar_type) = of_format(format.trim_start_matches(['@', '=', '<']), item_size) else {
        return Err(InputError::new_err(format!(
            "elements of the buffer format {format:?} are of no type that programs have"
        )));
    };
    if let Ok(bytes) = input.cast::<PyBytes>() {
        let strided = Strided::new(scalar_type, bytes.as_bytes().as_ptr(), &shape, None)?;
        return strided.tensor(input.clone().unbind());
    }
    let is = |name: &Bound<'_, PyString>| view.getattr(name)?.extract::<bool>();
    let whole = is(intern!(py, "c_contiguous"))? && view.getattr(intern!(py, "nbytes"))?.extract::<u64>()? > 0;
    if whole && !is(intern!(py, "readonly"))? {
        // The stable interface of Python 3.10 has no function for a buffer's address; ctypes has one for those that can be written.
        let ctypes = py.import(intern!(py, "ctypes"))?;
        let bytes = view.call_method1(intern!(py, "cast"), ("B",))?;
        let first = ctypes.getattr(intern!(py, "c_char"))?.call_method1(intern!(py, "from_buffer"), (bytes,))?;
        let address: usize = ctypes.call_method1(intern!(py, "addressof"), (&first,))?.extract()?;
        let data = std::ptr::with_exposed_provenance(address);
        return Strided::new(scalar_type, data, &shape, None)?.tensor(first.unbind());
    }
    let bytes: Vec<u8> = view.call_method0(intern!(py, "tobytes"))?.cast_into::<PyBytes>()?.as_bytes().to_vec();
    let dims = shape.iter().map(|&dim| u32::try_from(dim)).collect::<Result<Vec<_>, _>>();
    let dims = dims.map_err(|_| InputError::new_err("its shape has a size that programs cannot have"))?;
    Tensor::new(scalar_type, &dims, bytes).map_err(errors::program)
}

/// The element type of a buffer's format, as the module `struct` writes it.
fn of_format(format: &str, item_size: u64) -> Option<ScalarType> {
    use ScalarType as T;
    let scalar = match (format, item_size) {
        ("?", 1) => T::Bool,
        ("b", 1) => T::Char,
        ("B" | "c", 1) => T::Byte,
        ("h", 2) => T::Short,
        ("H", 2) => T::UInt16,
        ("e", 2) => T::Half,
        ("f", 4) => T::Float,
        ("d", 8) => T::Double,
        ("i" | "l" | "q", 4) => T::Int,
        ("i" | "l" | "q", 8) => T::Long,
        ("I" | "L" | "Q", 4) => T::UInt32,
        ("I" | "L" | "Q", 8) => T::UInt64,
        _ => return None,
    };
    Some(scalar)
}

/// An output for a library: `numpy.ndarray` or `torch.Tensor` over the output's own memory, or an [`Array`] where numpy is missing or has
/// no such type.
pub(crate) fn output<'py>(py: Python<'py>, tensor: Tensor, library: Library) -> PyResult<Bound<'py, PyAny>> {
    let array = Array::new(tensor)?;
    match (library, torch(py)?, numpy_asarray(py)) {
        (Library::Torch, Some(torch), _) => torch.from_dlpack.bind(py).call1((array.capsule(py)?,)),
        (Library::Numpy, _, Some(asarray)) if array.is_for_numpy() => asarray.call1((Bound::new(py, array)?,)),
        _ => Ok(Bound::new(py, array)?.into_any()),
    }
}
