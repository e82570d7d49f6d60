//! Programs and methods, as ExecuTorch's bindings have them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use pteron::{ConstantValue, FileBytes, LoadOptions, Program, State, block_on};
use pteron_format::program::ExecutionPlan;
use pteron_format::{Ptd, Pte};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::errors::{self, Error, FileError};
use crate::gpu::{self, OnGpu};
use crate::input;
use crate::meta::MethodMeta;

/// A verified program.
#[pyclass(frozen, module = "pteron._native")]
pub(crate) struct NativeProgram(Opened);

enum Opened {
    Whole(Program),
    /// A program whose external data is missing or damaged: its methods can be described, but not loaded.
    WithoutData {
        pte: Box<Pte<FileBytes>>,
        fault: Fault,
    },
}

struct Fault(String);

impl NativeProgram {
    fn pte(&self) -> &Pte<FileBytes> {
        match &self.0 {
            Opened::Whole(program) => program.pte(),
            Opened::WithoutData { pte, .. } => pte,
        }
    }

    fn plan(&self, name: &str) -> PyResult<&ExecutionPlan> {
        self.pte().program().plan(name).ok_or_else(|| {
            let names = self.method_names();
            errors::program(pteron::Error::NoMethod { name: name.to_owned(), methods: names })
        })
    }

    /// Reads a program and its external data. A fault of the data is kept until a method is loaded, as in ExecuTorch.
    fn read(name: &str, bytes: FileBytes, data: Option<(String, FileBytes)>) -> PyResult<Self> {
        let fault = |name: &str, error: pteron_format::Error| {
            errors::program(pteron::Error::Format { path: name.to_owned(), source: Box::new(error) })
        };
        let pte = Pte::read(bytes).map_err(|error| fault(name, error))?;
        let sentence = |error: &pteron_format::Error, name: &str| Fault(format!("{name}: {error}"));
        let data = match data.map(|(name, bytes)| Ptd::read(bytes).map_err(|error| sentence(&error, &name))).transpose() {
            Ok(data) => data.into_iter().collect::<Vec<_>>(),
            Err(fault) => return Ok(Self(Opened::WithoutData { pte: Box::new(pte), fault })),
        };
        if let Err(error) = pte.verify_external(&data) {
            let fault = sentence(&error, name);
            return Ok(Self(Opened::WithoutData { pte: Box::new(pte), fault }));
        }
        let program = Program::from_files(pte, data).map_err(|error| fault(name, error))?;
        Ok(Self(Opened::Whole(program)))
    }
}

fn mapped(path: &std::path::Path) -> PyResult<(String, FileBytes)> {
    let name = path.display().to_string();
    match FileBytes::map(path) {
        Ok(bytes) => Ok((name, bytes)),
        Err(source) => Err(errors::program(pteron::Error::File { path: name, source })),
    }
}

#[pymethods]
impl NativeProgram {
    /// Maps and verifies a file.
    #[staticmethod]
    #[pyo3(signature = (path, data_path = None))]
    fn open(py: Python<'_>, path: PathBuf, data_path: Option<PathBuf>) -> PyResult<Self> {
        py.detach(|| {
            let (name, bytes) = mapped(&path)?;
            Self::read(&name, bytes, data_path.as_deref().map(mapped).transpose()?)
        })
    }

    /// Verifies a program in memory, of which it keeps a copy.
    #[staticmethod]
    #[pyo3(signature = (program, data = None, data_path = None))]
    fn from_bytes(py: Python<'_>, program: &[u8], data: Option<&[u8]>, data_path: Option<PathBuf>) -> PyResult<Self> {
        let program = program.to_vec();
        let data = data.map(<[u8]>::to_vec);
        py.detach(move || {
            let data = match (data, data_path) {
                (Some(bytes), _) => Some(("external data".to_owned(), FileBytes::Owned(bytes))),
                (None, path) => path.as_deref().map(mapped).transpose()?,
            };
            Self::read("program", FileBytes::Owned(program), data)
        })
    }

    /// The names of all methods, those that return constants included, in the program's order.
    fn method_names(&self) -> Vec<String> {
        self.pte().program().plans.iter().map(|plan| plan.name.clone()).collect()
    }

    fn method_meta(&self, name: &str) -> PyResult<MethodMeta> {
        self.plan(name).map(MethodMeta::of)
    }

    /// Loads a method onto the GPU.
    #[pyo3(signature = (name, adapter = None))]
    fn load_method(&self, py: Python<'_>, name: &str, adapter: Option<String>) -> PyResult<NativeMethod> {
        let meta = MethodMeta::of(self.plan(name)?);
        let program = match &self.0 {
            Opened::Whole(program) => program,
            Opened::WithoutData { fault, .. } => return Err(FileError::new_err(fault.0.clone())),
        };
        if let Some(values) = program.constant_method(name)
            && values.iter().all(|value| !matches!(value, ConstantValue::Other(_)))
        {
            return Ok(NativeMethod { meta, body: Body::Constant(values) });
        }
        let gpu = gpu::open(py, adapter)?;
        let load = || -> pteron::Result<Loaded> {
            let method = block_on(program.load(&gpu, name, &LoadOptions::default()))?;
            let state = Mutex::new(method.new_state()?);
            Ok(Loaded { method, state, nanoseconds: AtomicU64::new(0) })
        };
        let loaded = py.detach(load).map_err(|error| failed(py, error))?;
        Ok(NativeMethod { meta, body: Body::Loaded(Box::new(OnGpu::new(loaded))) })
    }
}

/// An exception for an error of the GPU. After a lost device the next program opens a new one.
fn failed(py: Python<'_>, error: pteron::Error) -> PyErr {
    if matches!(error, pteron::Error::DeviceLost(_)) {
        gpu::forget(py);
    }
    errors::program(error)
}

/// A method on the GPU, with the state that its calls change.
#[pyclass(frozen, module = "pteron._native")]
pub(crate) struct NativeMethod {
    meta: MethodMeta,
    body: Body,
}

enum Body {
    Constant(Vec<ConstantValue>),
    Loaded(Box<OnGpu<Loaded>>),
}

struct Loaded {
    method: pteron::Method,
    state: Mutex<State>,
    /// Nanoseconds of the last call below this border.
    nanoseconds: AtomicU64,
}

#[pymethods]
impl NativeMethod {
    fn method_meta(&self) -> MethodMeta {
        self.meta.clone()
    }

    /// Calls the method. Calls of several threads run one after another.
    fn call<'py>(&self, py: Python<'py>, inputs: Vec<Bound<'py, PyAny>>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let loaded = match &self.body {
            Body::Loaded(loaded) => loaded,
            Body::Constant(values) => {
                if !inputs.is_empty() {
                    return Err(errors::InputError::new_err(format!("{:?} takes no inputs", self.meta.name)));
                }
                return values.iter().map(|value| constant(py, value)).collect();
            }
        };
        gpu::check_fork()?;
        let (tensors, library) = input::tensors(&inputs, loaded.method.inputs(), &self.meta.name)?;
        let run = || {
            let mut state = loaded.state.lock().unwrap_or_else(PoisonError::into_inner);
            let start = Instant::now();
            let outputs = block_on(loaded.method.call(&mut state, &tensors));
            let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            loaded.nanoseconds.store(nanoseconds, Ordering::Relaxed);
            outputs
        };
        let outputs = py.detach(run).map_err(|error| failed(py, error))?;
        // Borrowed inputs are released here, with the GIL.
        drop(tensors);
        outputs.into_iter().map(|output| input::output(py, output, library)).collect()
    }

    /// Checks the inputs of a call, without calling.
    fn check_inputs(&self, inputs: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let Body::Loaded(loaded) = &self.body else { return Ok(()) };
        input::tensors(&inputs, loaded.method.inputs(), &self.meta.name).map(|_| ())
    }

    /// Sets the state back to what the program starts with.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        let Body::Loaded(loaded) = &self.body else { return Ok(()) };
        gpu::check_fork()?;
        let reset = || loaded.method.reset(&mut loaded.state.lock().unwrap_or_else(PoisonError::into_inner));
        py.detach(reset).map_err(|error| failed(py, error))
    }

    /// Seconds that the last call took in Rust: the rest of a call's time is the price of Python.
    #[allow(clippy::cast_precision_loss, reason = "a time for people")]
    fn seconds_in_rust(&self) -> f64 {
        match &self.body {
            Body::Constant(_) => 0.0,
            Body::Loaded(loaded) => loaded.nanoseconds.load(Ordering::Relaxed) as f64 * 1e-9,
        }
    }

    /// Bytes of GPU memory, and of each state.
    fn memory(&self) -> (u64, u64) {
        match &self.body {
            Body::Constant(_) => (0, 0),
            Body::Loaded(loaded) => (loaded.method.memory_bytes(), loaded.method.state_bytes()),
        }
    }

    /// The name of the adapter that it runs on.
    fn adapter(&self) -> Option<String> {
        match &self.body {
            Body::Constant(_) => None,
            Body::Loaded(loaded) => loaded.method.gpu().map(|gpu| gpu.adapter().name.clone()),
        }
    }
}

fn constant<'py>(py: Python<'py>, value: &ConstantValue) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        ConstantValue::None => py.None().into_bound(py),
        ConstantValue::Int(value) => value.into_pyobject(py)?.into_any(),
        ConstantValue::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        ConstantValue::Float(value) => value.into_pyobject(py)?.into_any(),
        ConstantValue::Text(text) => text.into_pyobject(py)?.into_any(),
        ConstantValue::Other(kind) => return Err(Error::new_err(format!("the output is {kind}"))),
    })
}

/// The error for an index that a list does not have.
pub(crate) fn no_index(what: &str, index: usize, count: usize) -> PyErr {
    PyIndexError::new_err(format!("{what} {index} is out of range: there are {count}"))
}

/// The names of the kernels that programs may call outside of delegates.
#[pyfunction]
pub(crate) fn kernel_names() -> Vec<String> {
    pteron::kernel_names()
}

/// Converts an input to an output without a GPU, and returns the address that a call would upload from: for tests.
#[pyfunction]
pub(crate) fn round_trip<'py>(value: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, usize)> {
    let (tensors, library) = input::tensors(std::slice::from_ref(value), &[], "round_trip")?;
    let tensor = tensors.into_iter().next().ok_or_else(|| Error::new_err("there is no tensor"))?;
    let address = tensor.bytes().as_ptr().addr();
    Ok((input::output(value.py(), tensor, library)?, address))
}
