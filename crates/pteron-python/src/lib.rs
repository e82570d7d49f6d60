//! The native module of the Python package `pteron`: what `python/pteron` builds on.
//!
//! Python's own part has the names and types that users see; this library has what needs Rust. Inputs are borrowed and outputs handed over
//! without a copy (`dlpack.rs`, `array.rs`), and the GIL is released while files are read and the GPU works. Of Python it uses the stable
//! interface of 3.10 alone, so that one wheel serves all later versions.

mod array;
mod batch;
mod dlpack;
mod embedder;
mod errors;
mod gpu;
mod grammar;
mod input;
mod llm;
mod meta;
mod program;
mod sampling;
mod source;
mod strided;
mod tools;

use pyo3::prelude::*;

/// The native part of the package `pteron`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::array::Array;
    #[pymodule_export]
    use crate::batch::{NativeEngine, NativeStream};
    #[pymodule_export]
    use crate::embedder::NativeEmbedder;
    #[pymodule_export]
    use crate::grammar::NativeGrammar;
    #[pymodule_export]
    use crate::llm::{NativeGeneration, NativeModel, NativeSession, Token};
    #[pymodule_export]
    use crate::meta::{MethodMeta, TensorInfo};
    #[pymodule_export]
    use crate::program::{NativeMethod, NativeProgram, kernel_names, round_trip};
    #[pymodule_export]
    use crate::sampling::Options;
    #[pymodule_export]
    use crate::tools::{convert_json, inspect_json, run_command};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
