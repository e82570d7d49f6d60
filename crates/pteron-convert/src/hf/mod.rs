//! Hugging Face checkpoints: a folder with `config.json`, safetensors and a tokenizer.
//!
//! A configuration is interpreted as `transformers` does. Missing fields have the defaults of the model class; features that would
//! change the output and cannot be converted are rejected by name.

mod adapter;
mod architecture;
mod config;
mod fields;
mod folder;
mod metadata;
mod names;
mod rope;
mod shards;
#[cfg(test)]
mod tests;
mod weights;

use std::path::Path;

#[doc(hidden)]
pub use adapter::adapter_from_files;
pub use adapter::open_adapter;

use crate::config::{ModelConfig, Weight};
use crate::error::Result;
use crate::source::{CheckpointMetadata, Source};
use config::{Config, SlidingWindow};
use fields::Fields;
use folder::Folder;
use shards::Shards;
use weights::Weights;

/// A checkpoint in a folder. Its weights are memory-mapped and read on demand.
pub struct HuggingFace {
    model: ModelConfig,
    window: Option<SlidingWindow>,
    weights: Weights,
    metadata: CheckpointMetadata,
}

impl HuggingFace {
    /// Opens a folder and checks its configuration and tensors.
    ///
    /// # Errors
    /// Files that are missing or damaged, a model that cannot be converted, and tensors that are not those of the model.
    pub fn open(folder: &Path) -> Result<Self> {
        Self::read(&Folder::Disk(folder))
    }

    /// Opens a checkpoint from files in memory, for fuzzers.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    #[doc(hidden)]
    pub fn from_files(files: &std::collections::BTreeMap<String, Vec<u8>>) -> Result<Self> {
        Self::read(&Folder::Memory(files))
    }

    fn read(folder: &Folder<'_>) -> Result<Self> {
        let fields = Fields::parse(config::FILE, folder.map(config::FILE)?.as_ref())?;
        let config = Config::read(&fields)?;
        let metadata = metadata::read(folder, &fields, config.architecture, config.model.vocab_size)?;
        let weights = Weights::find(Shards::open(folder)?, &config)?;
        Ok(Self { model: config.model, window: config.window, weights, metadata })
    }
}

impl Source for HuggingFace {
    fn config(&self) -> &ModelConfig {
        &self.model
    }

    fn check_context(&self, context: u32) -> Result<()> {
        self.window.map_or(Ok(()), |window| window.check(context))
    }

    fn row(&self, weight: Weight, row: u32, out: &mut [f32]) -> Result<()> {
        self.weights.row(weight, row, out)
    }

    fn metadata(&self) -> CheckpointMetadata {
        self.metadata.clone()
    }
}
