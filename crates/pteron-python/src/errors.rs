//! Errors of the Rust crates as Python exceptions, with the same sentences.
//!
//! The classes are Python's own, in `pteron/errors.py`: each is a `RuntimeError`, as ExecuTorch raises, and the built-in exception that
//! says the same (`ValueError`, `MemoryError`).

use pyo3::prelude::*;

mod classes {
    #![allow(missing_docs, reason = "documented in errors.py")]
    pyo3::import_exception!(pteron.errors, Error);
    pyo3::import_exception!(pteron.errors, FileError);
    pyo3::import_exception!(pteron.errors, UnsupportedError);
    pyo3::import_exception!(pteron.errors, InputError);
    pyo3::import_exception!(pteron.errors, OutOfMemoryError);
    pyo3::import_exception!(pteron.errors, DeviceLostError);
    pyo3::import_exception!(pteron.errors, ForkError);
}

pub(crate) use classes::{DeviceLostError, Error, FileError, ForkError, InputError, OutOfMemoryError, UnsupportedError};

/// An exception for an error of `pteron`.
pub(crate) fn program(error: pteron::Error) -> PyErr {
    use pteron::Error as E;
    let sentence = error.to_string();
    match error {
        E::File { .. } | E::Format { .. } | E::Changed { .. } => FileError::new_err(sentence),
        E::Unsupported { .. } | E::UnsupportedOperators(_) => UnsupportedError::new_err(sentence),
        E::Input { .. } | E::Tensor(_) => InputError::new_err(sentence),
        E::TooLarge { .. } | E::GpuOutOfMemory(_) | E::OutOfMemory(_) | E::HostMemory { .. } => {
            OutOfMemoryError::new_err(sentence)
        }
        E::DeviceLost(_) => DeviceLostError::new_err(sentence),
        _ => Error::new_err(sentence),
    }
}

/// An exception for an error of `pteron-llm`.
pub(crate) fn model(error: pteron_llm::Error) -> PyErr {
    use pteron_llm::Error as E;
    let sentence = error.to_string();
    match error {
        E::Program(error) => program(error),
        E::DeviceLost(_) => DeviceLostError::new_err(sentence),
        E::OutOfMemory(_) => OutOfMemoryError::new_err(sentence),
        E::Unsupported(_) | E::NotALanguageModel(_) | E::NoHiddenStates(_) | E::NoChatTemplate => {
            UnsupportedError::new_err(sentence)
        }
        E::File { .. } | E::NoTokenizer { .. } | E::AmbiguousFolder { .. } | E::Read(_) => FileError::new_err(sentence),
        E::Misuse(_) => Error::new_err(sentence),
        // What remains is about a text, a token, an option or a template.
        _ => InputError::new_err(sentence),
    }
}
