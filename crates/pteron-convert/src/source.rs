//! Sources of weights.

use std::borrow::Cow;

use crate::config::{ModelConfig, Weight};
use crate::error::Result;

/// A checkpoint: its configuration, its weights row by row, and its metadata.
///
/// Rows are read in any order and from several threads, in the checkpoint's own row order; [`ModelConfig::checkpoint_row`] maps the
/// rows of a program to it.
pub trait Source: Sync {
    /// Returns the configuration of the model.
    fn config(&self) -> &ModelConfig;

    /// Checks that a program with this context length computes what the checkpoint does.
    ///
    /// # Errors
    /// A context that is longer than the model's sliding window, with the longest allowed.
    fn check_context(&self, context: u32) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Reads a row of a weight as float32 into `out`, which has the row's length.
    ///
    /// # Errors
    /// Bytes that cannot be read. Opening the source has checked that all weights exist with the right shapes.
    fn row(&self, weight: Weight, row: u32, out: &mut [f32]) -> Result<()>;

    /// Returns the row as stored, if it is quantised to symmetric 4-bit groups of this size; it is then not quantised again.
    fn int4_row(&self, weight: Weight, row: u32, group: u32) -> Option<Int4Row<'_>> {
        let _ = (weight, row, group);
        None
    }

    /// Returns the metadata and the sidecar files.
    fn metadata(&self) -> CheckpointMetadata;
}

/// A row of 4-bit values with a scale per group: value = (nibble − 8) · scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Int4Row<'a> {
    /// Two values per byte, the first in the low nibble; 8 is zero.
    pub nibbles: Cow<'a, [u8]>,
    /// The scale of each group.
    pub scales: Vec<f32>,
}

/// Metadata of a checkpoint, and files to put beside the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointMetadata {
    /// The beginning-of-sequence token.
    pub bos_token: Option<u32>,
    /// The end-of-sequence tokens.
    pub eos_tokens: Vec<u32>,
    /// The tokenizer and the chat template.
    pub sidecars: Vec<Sidecar>,
}

/// A file to put beside the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidecar {
    /// Its name, `tokenizer.json`.
    pub name: String,
    /// Its contents.
    pub bytes: Vec<u8>,
}
