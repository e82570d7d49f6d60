//! What can go wrong between a checkpoint and a program.

use std::path::PathBuf;

use pteron_format::EscapedText;

use crate::config::Weight;

/// An error of a conversion. `Display` is one sentence that says what a user can change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A file that cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A file that is not what it should be: cut short, damaged, or of another kind.
    #[error("{}: {}", EscapedText::name(.file), EscapedText::sentence(.problem))]
    Malformed {
        /// The file's name.
        file: String,
        /// What is wrong with it, and where.
        problem: String,
    },
    /// Something the checkpoint has or wants that cannot be converted.
    #[error("{} is not supported{}", EscapedText::sentence(.what), supported(.alternatives))]
    Unsupported {
        /// What it is, by name: an architecture, a tensor's type, sliding-window attention.
        what: String,
        /// What could stand there instead.
        alternatives: Vec<String>,
    },
    /// Weights that are not there, or not needed, or have other shapes.
    #[error("the checkpoint's tensors do not fit {}: {}", EscapedText::name(.architecture), .problems)]
    Tensors {
        /// What the configuration says the model is.
        architecture: String,
        /// Each of them, and what is wrong.
        problems: String,
    },
    /// An option that does not fit the model.
    #[error("{0}")]
    InvalidOption(String),
    /// A weight that is not a number, or infinite.
    #[error("{weight}: row {row}, column {column} of the checkpoint is {value}; weights must be finite")]
    NotFinite {
        /// The weight.
        weight: Weight,
        /// The row, as the checkpoint counts.
        row: u32,
        /// The column, or of 4-bit rows the group.
        column: usize,
        /// What stands there.
        value: f32,
    },
    /// A template that does not fit the decoder it is for.
    #[error("the program was planned for another config: {0}")]
    Template(String),
    /// The caller asked to stop.
    #[error("interrupted; nothing was written")]
    Interrupted,
    /// A program that cannot be written.
    #[error("the program cannot be written: {0}")]
    Format(#[from] pteron_format::Error),
}

/// The result of a conversion's step.
pub type Result<T, E = Error> = std::result::Result<T, E>;

fn supported(alternatives: &[String]) -> String {
    if alternatives.is_empty() { String::new() } else { format!(": supported are {}", alternatives.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_file_are_cut_and_escaped() {
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
