//! Errors of a conversion.

use std::path::PathBuf;

use pteron_format::EscapedText;

use crate::config::Weight;

/// An error of a conversion. Its text is one sentence that says what to change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// A file is truncated, corrupt, or of another format.
    #[error("{}: {}", EscapedText::name(.file), EscapedText::sentence(.problem))]
    Malformed {
        /// The file's name.
        file: String,
        /// The defect, and where it is.
        problem: String,
    },
    /// The checkpoint uses a feature that cannot be converted.
    #[error("{} is not supported{}", EscapedText::sentence(.what), supported(.alternatives))]
    Unsupported {
        /// The feature: an architecture, a tensor type, sliding-window attention.
        what: String,
        /// The supported alternatives.
        alternatives: Vec<String>,
    },
    /// Tensors are missing, unexpected, or have wrong shapes.
    #[error("the checkpoint's tensors do not fit {}: {}", EscapedText::name(.architecture), .problems)]
    Tensors {
        /// The architecture that the configuration names.
        architecture: String,
        /// The tensors and their problems.
        problems: String,
    },
    /// The configuration of the model cannot be converted.
    #[error("{0}")]
    InvalidModel(String),
    /// An option is invalid, or does not fit the model.
    #[error("{0}")]
    InvalidOption(String),
    /// A weight is infinite or NaN.
    #[error("{weight}: row {row}, column {column} of the checkpoint is {value}; weights must be finite")]
    NotFinite {
        /// The weight.
        weight: Weight,
        /// The row in the checkpoint.
        row: u32,
        /// The column; for 4-bit rows, the group.
        column: usize,
        /// The value.
        value: f32,
    },
    /// The template was built for another model.
    #[error("the program template does not fit the model: {0}")]
    Template(String),
    /// The caller asked to stop.
    #[error("interrupted; nothing was written")]
    Interrupted,
    /// The program cannot be written.
    #[error("the program cannot be written: {0}")]
    Format(#[from] pteron_format::Error),
}

/// The result of a conversion.
pub type Result<T, E = Error> = std::result::Result<T, E>;

fn supported(alternatives: &[String]) -> String {
    if alternatives.is_empty() { String::new() } else { format!(": supported are {}", alternatives.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_file_are_truncated_and_escaped() {
        let (long, line) = ("layer.".repeat(10_000), "a\nb\u{1b}[2J");
        for text in [long.as_str(), line] {
            let text = || text.to_owned();
            for error in [
                Error::Malformed { file: text(), problem: text() },
                Error::Unsupported { what: text(), alternatives: vec!["llama".to_owned()] },
                Error::Tensors { architecture: text(), problems: String::new() },
            ] {
                let shown = error.to_string();
                assert!(shown.len() < 500 && !shown.chars().any(char::is_control), "{shown:?}");
            }
        }
    }
}
