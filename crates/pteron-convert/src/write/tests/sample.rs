//! Checkpoints and templates for tests: all constants that a decoder's program has, and nothing that computes with them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use pteron_format::Program;
use pteron_format::program::{DataRef, Delegate, ExecutionPlan, SegmentId, SubsegmentOffsets};
use pteron_format::vulkan::{Constant, ConstantSource, Graph};

use crate::config::{ModelConfig, RopeStyle, Weight};
use crate::error::Result;
use crate::source::{CheckpointMetadata, Source};
use crate::synthetic;
use crate::template::{ConstantData, ProgramTemplate, ScaleOrder};

pub(super) const CONTEXT: u64 = 2048;

/// A small tied decoder whose rows of queries and keys the checkpoint has in another order than the program.
pub(super) fn config() -> ModelConfig {
    let mut config = synthetic::parse("layers=2,width=64,heads=4,kv=2,head=16,hidden=128,vocab=96,tied=true").unwrap();
    config.rope.style = RopeStyle::HalfSplit;
    config
}

/// A program of the decoder's constants: matrices in groups, vectors as floats, caches, and the tables of rotary embedding.
pub(super) fn template(config: &ModelConfig, group: u32) -> ProgramTemplate {
    let mut constant_data = Vec::new();
    let mut four_bits = |weight, order| {
        constant_data.push(ConstantData::Int4 { weight, group });
        constant_data.push(ConstantData::Scales { weight, group, order });
    };
    let (vectors, matrices): (Vec<_>, Vec<_>) = config.weights().partition(|&weight| config.shape(weight).columns == 1);
    for weight in matrices.into_iter().filter(|&weight| weight != Weight::Embedding) {
        four_bits(weight, ScaleOrder::GroupMajor);
    }
    if config.tied_embeddings {
        four_bits(Weight::Embedding, ScaleOrder::GroupMajor);
    }
    four_bits(Weight::Embedding, ScaleOrder::RowMajor);
    constant_data.extend(vectors.into_iter().map(ConstantData::Float));
    constant_data.extend([ConstantData::RopeCos, ConstantData::RopeSin]);
    constant_data.extend((0..config.num_layers * 2).map(|_| ConstantData::Zeros));
    with_contents(config, constant_data)
}

/// A program of these constants.
pub(super) fn with_contents(config: &ModelConfig, constant_data: Vec<ConstantData>) -> ProgramTemplate {
    let constant =
        |&content: &ConstantData| Constant { len: byte_len(config, content), source: ConstantSource::Named(String::new()) };
    let constants = constant_data.iter().map(constant).collect();
    let data = DataRef::Segment(SegmentId(1));
    let plan =
        ExecutionPlan { name: "forward".to_owned(), delegates: vec![Delegate::vulkan(data)], ..ExecutionPlan::default() };
    let constants_of = SubsegmentOffsets { segment: SegmentId(0), offsets: Vec::new() };
    let program = Program { plans: vec![plan], constants: Some(constants_of), ..Program::default() };
    ProgramTemplate { program, graph: Graph { version: "0".to_owned(), constants, ..Graph::default() }, constant_data }
}

fn byte_len(config: &ModelConfig, content: ConstantData) -> u64 {
    let count = |weight| config.shape(weight).count();
    match content {
        ConstantData::Int4 { weight, .. } => count(weight) / 2,
        ConstantData::Scales { weight, group, .. } | ConstantData::Sums { weight, group } => {
            count(weight) * 4 / u64::from(group)
        }
        ConstantData::Float(weight) => count(weight) * 4,
        ConstantData::RopeCos | ConstantData::RopeSin => CONTEXT * u64::from(config.head_dim) * 2,
        ConstantData::Zeros => CONTEXT * u64::from(config.kv_dim()) * 4,
    }
}

/// Runs when a row is read, and may fail or change it.
pub(super) type Accident = fn(Weight, u32, &mut [f32]) -> Result<()>;

/// A checkpoint of float32 numbers. Norms are ones.
pub(super) struct Checkpoint {
    pub(super) config: ModelConfig,
    pub(super) accident: Accident,
    /// Rows that were asked for.
    pub(super) asked: AtomicU64,
}

impl Checkpoint {
    pub(super) fn new(config: ModelConfig) -> Self {
        Self::with_accident(config, |_, _, _| Ok(()))
    }

    pub(super) fn with_accident(config: ModelConfig, accident: Accident) -> Self {
        Self { config, accident, asked: AtomicU64::new(0) }
    }
}

impl Source for Checkpoint {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn row(&self, weight: Weight, row: u32, out: &mut [f32]) -> Result<()> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if let [one] = out {
            *one = 1.0;
        }
        let salt = weight.to_string().bytes().fold(row, |salt, byte| salt.wrapping_mul(31).wrapping_add(byte.into()));
        for (column, number) in (0u32..).zip(out.iter_mut()).filter(|_| self.config.shape(weight).columns > 1) {
            let hash = (salt ^ column.wrapping_mul(0x9E37_79B9)).wrapping_mul(0x85EB_CA6B);
            *number = f32::from(i16::from_le_bytes([hash.to_le_bytes()[2], hash.to_le_bytes()[3]])) / 65536.0;
        }
        (self.accident)(weight, row, out)
    }

    fn metadata(&self) -> CheckpointMetadata {
        CheckpointMetadata::default()
    }
}

/// A folder of its own for a test, removed at the end.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("pteron-convert-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The names of the files in it, sorted.
    pub(super) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
