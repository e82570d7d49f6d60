//! Where weights come from.

use std::borrow::Cow;

use crate::config::{ModelConfig, Weight};
use crate::error::Result;

/// A checkpoint: the weights of a decoder, row by row.
///
/// Rows are asked for in any order and from several threads. What is handed out is as the checkpoint has it: the order of rows
/// in a program is [`ModelConfig::checkpoint_row`]'s business.
pub trait Source: Sync {
    /// What the weights make up.
    fn config(&self) -> &ModelConfig;

    /// Whether a program with room for this many tokens answers as the checkpoint means to.
    ///
    /// # Errors
    /// A context that is too long, with the longest that is not.
    fn check_context(&self, context: u32) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// One row of a weight, as float32. `out` has the row's columns.
    ///
    /// # Errors
    /// Bytes that cannot be read. That all weights are there, with the right shapes, was checked when the source was opened.
    fn row(&self, weight: Weight, row: u32, out: &mut [f32]) -> Result<()>;

    /// The row as it is stored, if that is symmetric 4-bit groups of this many numbers: then nothing is rounded again.
    fn int4_row(&self, weight: Weight, row: u32, group: u32) -> Option<Int4Row<'_>> {
        let _ = (weight, row, group);
        None
    }

    /// What a runtime needs to know beside the weights.
    fn metadata(&self) -> CheckpointMetadata;
}

/// A row of 4-bit numbers, each group with its scale: number = (nibble − 8) · scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Int4Row<'a> {
    /// Two numbers a byte, the earlier one in the lower half; 8 stands for zero.
    pub nibbles: Cow<'a, [u8]>,
    /// One for each group.
    pub scales: Vec<f32>,
}

/// What a checkpoint says beside its weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointMetadata {
    /// The token that texts begin with.
    pub bos_token: Option<u32>,
    /// Tokens that end a text.
    pub eos_tokens: Vec<u32>,
    /// Files to put beside the program: the tokenizer, and what holds the chat template.
    pub sidecars: Vec<Sidecar>,
}

/// A file to put beside the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidecar {
    /// Its name, `tokenizer.json`.
    pub name: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}
