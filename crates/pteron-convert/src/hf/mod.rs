//! Checkpoints as Hugging Face keeps them: a folder with `config.json`, safetensors and a tokenizer.
//!
//! `transformers` decides what a configuration means. What it leaves out has the default of its model class; what would change
//! the answers and cannot be converted is refused by its name.

mod architecture;
mod config;
mod facts;
mod fields;
mod folder;
mod names;
mod rotary;
mod shards;
#[cfg(test)]
mod tests;
mod weights;

use std::path::Path;

use crate::decoder::{Decoder, Weight};
use crate::error::Result;
use crate::source::{Facts, Source};
use config::{Config, Window};
use fields::Fields;
use folder::Folder;
use shards::Shards;
use weights::Weights;

/// A checkpoint in a folder. Its weights are mapped: a row is read when it is asked for.
pub struct HuggingFace {
    decoder: Decoder,
    window: Option<Window>,
    weights: Weights,
    facts: Facts,
}

impl HuggingFace {
    /// Opens a folder and checks that everything in it fits together.
    ///
    /// # Errors
    /// Files that are missing or damaged, a model that cannot be converted, and tensors that are not those of the model.
    pub fn open(folder: &Path) -> Result<Self> {
        Self::read(&Folder::Disk(folder))
    }

    /// The same from files that are in memory, for fuzzers.
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
        let facts = facts::read(folder, &fields, config.architecture, config.decoder.vocabulary)?;
        let weights = Weights::find(Shards::open(folder)?, &config)?;
        Ok(Self { decoder: config.decoder, window: config.window, weights, facts })
    }
}

impl Source for HuggingFace {
    fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    fn check_context(&self, context: u32) -> Result<()> {
        self.window.map_or(Ok(()), |window| window.check(context))
    }

    fn row(&self, weight: Weight, row: u32, out: &mut [f32]) -> Result<()> {
        self.weights.row(weight, row, out)
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }
}
