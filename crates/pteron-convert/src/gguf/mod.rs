//! GGUF checkpoints: Llama, Mistral and `SmolLM` (`llama`), Qwen 2 (`qwen2`) and Qwen 3 (`qwen3`).
//!
//! Opening parses the header, checks every count, length and offset against the file, finds all weights, and converts the
//! tokenizer to `tokenizer.json`. Rows are read on demand.

mod blocks;
mod cursor;
mod file;
mod metadata;
mod model;
mod shards;
mod tensor_types;
#[cfg(test)]
mod tests;
mod tokenizer;
mod weights;

use std::collections::HashMap;
use std::path::Path;

use file::File;
use weights::{Stored, Tensors};

use crate::config::{ModelConfig, Weight};
use crate::error::{Error, Result};
use crate::map::Mapped;
use crate::source::{CheckpointMetadata, Int4Row, Source};

/// The group size of `Q4_0`, which is passed through without quantising again.
const FOUR_BIT_GROUP: u32 = 32;

type Bytes = Box<dyn AsRef<[u8]> + Send + Sync>;

/// A model from GGUF files.
pub struct Gguf {
    files: Vec<Bytes>,
    architecture: &'static str,
    config: ModelConfig,
    weights: HashMap<Weight, Stored>,
    metadata: CheckpointMetadata,
}

impl Gguf {
    /// Opens a file, and the other shards if it is the first of several.
    ///
    /// # Errors
    /// A file that cannot be read, is corrupt, or uses features that are not supported.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let first = Mapped::open(path)?;
        let name = path.display().to_string();
        let others = shards::others(path, &File::read(&name, first.as_ref())?)?;
        let mut names = vec![name];
        let mut files: Vec<Bytes> = vec![Box::new(first)];
        for other in others {
            files.push(Box::new(Mapped::open(&other)?));
            names.push(other.display().to_string());
        }
        Self::read(&names, files)
    }

    /// Opens a checkpoint from bytes; errors use `name` for the file.
    ///
    /// # Errors
    /// As for [`open`](Self::open); a model in several files is not supported here.
    pub fn from_bytes(name: &str, bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<Self> {
        Self::read(&[name.to_owned()], vec![Box::new(bytes)])
    }

    fn read(names: &[String], files: Vec<Bytes>) -> Result<Self> {
        let bytes: Vec<&[u8]> = files.iter().map(|file| (**file).as_ref()).collect();
        let heads = names.iter().zip(&bytes).map(|(name, bytes)| File::read(name, bytes));
        let heads: Vec<File<'_>> = heads.collect::<Result<_>>()?;
        shards::check(names, &heads)?;
        let Some(first) = heads.first() else {
            return Err(Error::InvalidOption("there is no file to read".to_owned()));
        };
        let (architecture, mut config) = model::config(&first.metadata)?;
        let tensors = all_tensors(names, &heads)?;
        weights::complete(&mut config, &tensors);
        let weights = weights::find(architecture, &config, &tensors)?;
        config.rope.scaling = weights::scaling(architecture, &config, &tensors, &bytes)?;
        let metadata = tokenizer::checkpoint_metadata(&first.metadata, config.vocab_size)?;
        let architecture = architecture.name;
        Ok(Self { architecture, config, weights, metadata, files })
    }

    /// Returns the tensor of a weight and the bytes of a row.
    fn stored(&self, weight: Weight, row: u32) -> Option<(&Stored, &[u8])> {
        let stored = self.weights.get(&weight)?;
        let file = (**self.files.get(stored.file)?).as_ref();
        Some((stored, file.get(stored.row(row)?)?))
    }
}

/// Collects the tensors of all files.
fn all_tensors<'a>(names: &[String], heads: &[File<'a>]) -> Result<Tensors<'a>> {
    let mut tensors = Tensors::new();
    for (index, (name, head)) in names.iter().zip(heads).enumerate() {
        for (tensor, placed) in head.place()? {
            if let Some((other, _)) = tensors.insert(tensor, (index, placed)) {
                let problem = format!("the tensor {} is in {}, too", cursor::shown(tensor), names[other]);
                return Err(Error::Malformed { file: name.clone(), problem });
            }
        }
    }
    Ok(tensors)
}

impl Source for Gguf {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn row(&self, weight: Weight, row: u32, out: &mut [f32]) -> Result<()> {
        match self.stored(weight, row) {
            Some((stored, bytes)) if stored.matrix.columns as usize == out.len() => {
                (stored.kind.unpack)(bytes, out);
                Ok(())
            }
            _ => Err(Error::Tensors {
                architecture: self.architecture.to_owned(),
                problems: format!("there is no row {row} of {} numbers in {}", out.len(), weights::name(weight)),
            }),
        }
    }

    fn int4_row(&self, weight: Weight, row: u32, group: u32) -> Option<Int4Row<'_>> {
        let (stored, bytes) = self.stored(weight, row)?;
        if stored.kind.id != tensor_types::Q4_0 || group != FOUR_BIT_GROUP {
            return None;
        }
        let blocks = bytes.as_chunks().0.iter().map(blocks::q4_0_interleaved);
        let (scales, nibbles): (Vec<f32>, Vec<[u8; 16]>) = blocks.unzip();
        Some(Int4Row { nibbles: nibbles.into_flattened().into(), scales })
    }

    fn metadata(&self) -> CheckpointMetadata {
        self.metadata.clone()
    }
}
