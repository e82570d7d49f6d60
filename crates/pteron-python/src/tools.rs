//! The command line's library: conversion, inspection and the command itself.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;

use pyo3::prelude::*;

use crate::errors::{Error, FileError};

/// Describes a program as `pteron inspect --json` does.
#[pyfunction]
pub(crate) fn inspect_json(py: Python<'_>, path: PathBuf, data: Vec<PathBuf>) -> PyResult<String> {
    py.detach(|| pteron_cli::embedding::inspect(&path, &data)).map_err(FileError::new_err)
}

/// Runs `pteron convert` and returns its report as JSON. `progress` is called with bytes done and in all; what it raises, or a
/// `KeyboardInterrupt`, stops the conversion and leaves no file.
#[pyfunction]
#[pyo3(signature = (arguments, progress = None))]
pub(crate) fn convert_json(py: Python<'_>, arguments: Vec<OsString>, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let mut stopped = None;
    let mut watch = |done: pteron_convert::Progress| {
        let called = Python::attach(|py| {
            py.check_signals()?;
            match &progress {
                Some(function) => function.call1(py, (done.done, done.total)).map(drop),
                None => Ok(()),
            }
        });
        match called {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                stopped = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    let converted = py.detach(|| pteron_cli::embedding::convert(arguments, &mut watch));
    match stopped {
        Some(error) => Err(error),
        None => converted.map_err(Error::new_err),
    }
}

/// Runs the command of these arguments, the program's name first, and returns its exit status.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| pteron_cli::embedding::run(arguments))
}
