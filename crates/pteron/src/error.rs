//! Errors of opening, loading and calling a program.

use pteron_format::alloc::OutOfMemory;
use pteron_format::{EscapedText, escaped_names};
use pteron_gpu::sequences::AdapterMisfit;

/// An error of this crate. `Display` is one sentence that says how a user can fix it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
    /// A file that is broken, or of another format than expected.
    #[error("{path}: {source}")]
    Format {
        /// The file, or a name that identifies it.
        path: String,
        /// The position and the fault.
        source: Box<pteron_format::Error>,
    },
    /// A part of a file that is needed and has not been supplied; see [`PartialProgram`](crate::PartialProgram).
    #[error("bytes {} to {} of file {} have not been read", .0.start, .0.end(), .0.file)]
    NotRead(crate::FileRange),
    /// A file that was written or truncated while it was in use.
    #[error("file {file} of the program has changed since it was opened; open it again")]
    Changed {
        /// 0 for the program, then the external data in order.
        file: usize,
    },
    /// A method the program does not have.
    #[error("there is no method {:?}; the program has {}", EscapedText::name(.name), escaped_names(.methods.iter().map(String::as_str)))]
    NoMethod {
        /// The name that was asked for.
        name: String,
        /// The names there are.
        methods: Vec<String>,
    },
    /// A part of the program that this runtime cannot run.
    #[error("method {:?}: {}", EscapedText::name(.method), EscapedText::sentence(.reason))]
    Unsupported {
        /// The method.
        method: String,
        /// The unsupported part.
        reason: String,
    },
    /// A tensor whose type, shape and bytes are inconsistent.
    #[error("tensor: {}", EscapedText::sentence(.0))]
    Tensor(String),
    /// Constants that overlap, which no exporter writes.
    #[error("constants overlap at bytes {} and {} of file {}: it is damaged", .first.start, .second.start, .first.file)]
    Overlap {
        /// One of them.
        first: crate::FileRange,
        /// The one that begins inside it.
        second: crate::FileRange,
    },
    /// An input the method does not take.
    #[error("input {index} of {:?} {}", EscapedText::name(.method), EscapedText::sentence(.reason))]
    Input {
        /// The method.
        method: String,
        /// Which input.
        index: usize,
        /// The input that was passed, and what is allowed.
        reason: String,
    },
    /// A call that this API does not allow, whatever the program and the inputs are.
    #[error("{}", EscapedText::sentence(.0))]
    Misuse(String),
    /// More host memory than the budget allows.
    #[error(
        "method {:?}: {what} needs {need} bytes of host memory, but {limit} are allowed; raise the host memory budget if that is right",
        EscapedText::name(.method)
    )]
    HostMemory {
        /// The method.
        method: String,
        /// The part of the method that needs it.
        what: &'static str,
        /// Bytes needed.
        need: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The host has no memory left.
    #[error("{0}; close other programs, or load a smaller one")]
    OutOfMemory(#[from] OutOfMemory),
    /// Operators, kernels and delegates that this build does not have, by name, with the number of their calls.
    #[error("{}", pteron_gpu::Error::UnsupportedOperators(.0.clone()))]
    UnsupportedOperators(Vec<(String, usize)>),
    /// More GPU memory than the device, or the budget given to the loader, allows. Nothing was created.
    #[error("{what} needs {need} bytes, but {limit} are allowed by {by}")]
    TooLarge {
        /// The allocation that is too large.
        what: String,
        /// Bytes needed.
        need: u64,
        /// Bytes allowed.
        limit: u64,
        /// Who sets the limit.
        by: &'static str,
    },
    /// The GPU has no memory left.
    #[error("the GPU has not enough memory: {}", EscapedText::sentence(.0))]
    GpuOutOfMemory(String),
    /// The device was lost. Programs loaded on it can be loaded again on a new one.
    #[error("the GPU device was lost: {}", EscapedText::sentence(.0))]
    DeviceLost(String),
    /// A low-rank adapter that does not fit the method.
    #[error("{0}")]
    Adapter(#[from] AdapterMisfit),
    /// Another error of the graph or the GPU.
    #[error("{0}")]
    Gpu(pteron_gpu::Error),
}

impl From<pteron_gpu::Error> for Error {
    fn from(error: pteron_gpu::Error) -> Self {
        use pteron_gpu::Error as E;
        match error {
            E::Misuse(reason) => Self::Misuse(reason),
            E::UnknownOperator { name, .. } => Self::UnsupportedOperators(vec![(name, 1)]),
            E::UnsupportedOperators(names) => Self::UnsupportedOperators(names),
            E::TooLarge { what, need, limit, by } => Self::TooLarge { what, need, limit, by },
            E::Adapter(misfit) => Self::Adapter(misfit),
            E::OutOfMemory(reason) => Self::GpuOutOfMemory(reason),
            E::HostMemory(error) => Self::OutOfMemory(error),
            E::Lost(reason) => Self::DeviceLost(reason),
            other => Self::Gpu(other),
        }
    }
}

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    /// The sentences of these variants stand in both crates.
    #[test]
    fn errors_of_the_gpu_keep_their_sentence() {
        use pteron_gpu::Error as E;
        let errors: [fn() -> E; 6] = [
            || E::Misuse("one state is used by two methods".to_owned()),
            || E::UnsupportedOperators(vec![("aten.\nmystery".to_owned(), 3), ("aten.other".to_owned(), 1)]),
            || E::TooLarge { what: "the model".to_owned(), need: 9, limit: 8, by: "the budget" },
            || E::OutOfMemory("a buffer of 9 bytes".to_owned()),
            || E::Lost("it was destroyed".to_owned()),
            || E::NoAdapter("was found".to_owned()),
        ];
        for error in errors {
            assert_eq!(Error::from(error()).to_string(), error().to_string());
        }
    }
}
