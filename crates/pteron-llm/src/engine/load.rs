//! Loading of an engine: how large its steps and its KV cache are.

use std::path::Path;
use std::sync::Arc;

use pteron::{Gpu, Program, Tuning};

use super::draft::{self, Drafter};
use super::options::EngineOptions;
use super::shared::Shared;
use super::worker::Worker;
use super::{Engine, Handle};
use crate::assets::ModelAssets;
use crate::batch::{BLOCK_POSITIONS, MemoryBudget, Scheduler, SchedulerConfig, blocks_for, pool_blocks};
use crate::error::{Error, Result};
use crate::metadata::{Metadata, PartialMetadata};
use crate::model::ModelOptions;
use crate::open::program_in;
use crate::paged_model::{Limits, PagedModel, PagedSizes};
use crate::prompt::PromptEncoder;

/// Steps in flight: one runs while the next one is encoded.
const STEPS_IN_FLIGHT: usize = 2;
/// Positions per sequence for which the KV cache has room where the device does not report its memory.
const USUAL_POSITIONS: u32 = 2048;

impl Engine {
    /// Opens a model as [`Model::open_blocking`](crate::Model::open_blocking) does, a folder or a `.pte` file, for many texts at once.
    ///
    /// # Errors
    /// As [`load`](Self::load); a file is missing or malformed, or there is no GPU.
    pub fn open_blocking(path: impl AsRef<Path>, options: EngineOptions) -> Result<Self> {
        let gpu = pteron::block_on(Gpu::open(&options.gpu)).map_err(pteron::Error::from)?;
        pteron::block_on(Self::open_on(&gpu, path, options))
    }

    /// Opens a model as [`open_blocking`](Self::open_blocking) does, on a GPU of the caller. The future blocks its thread while files are
    /// read and weights are uploaded.
    ///
    /// # Errors
    /// As [`open_blocking`](Self::open_blocking).
    pub async fn open_on(gpu: &Gpu, path: impl AsRef<Path>, options: EngineOptions) -> Result<Self> {
        let path = program_in(path.as_ref())?;
        let program = Program::open(&path)?;
        let assets = ModelAssets::beside(&path)?;
        Self::load(gpu, &program, assets, options).await
    }

    /// Loads a program as a language model for many texts at once, and starts the engine's thread. The future blocks its thread while
    /// weights are uploaded.
    ///
    /// # Errors
    /// A program that is no language model with a KV cache, or has an operator that is not row-wise, by name; a tokenizer that does not
    /// fit it; a memory budget that does not hold weights, activations and the KV cache of one full context.
    pub async fn load(gpu: &Gpu, program: &Program, assets: ModelAssets, options: EngineOptions) -> Result<Self> {
        let assets = assets.with_metadata(options.model.metadata.clone());
        let budget = options.memory_budget.or(options.model.memory_budget);
        let model_options =
            ModelOptions { metadata: assets.metadata.clone(), memory_budget: budget, ..options.model.clone() };
        let draft =
            options.draft_model.as_ref().map(|draft| DraftPlan::new(gpu, draft, program, &model_options)).transpose()?;
        let reserved = draft.as_ref().map_or(0, |draft| draft.bytes);
        let sizes = pool_sizes(gpu, program, &options, &model_options, budget, reserved)?;
        let model = PagedModel::load(gpu, program, sizes, &model_options).await?;
        let drafter = match draft {
            Some(draft) => Some(Drafter::new(PagedModel::load(gpu, draft.program, draft.sizes, &draft.options).await?)),
            None => None,
        };
        let ModelAssets { tokenizer, metadata, .. } = &assets;
        let mut metadata = Metadata::of(program, model.method(), metadata.clone(), Some(tokenizer))?;
        metadata.check_tokenizer(tokenizer)?;
        metadata.context_length = metadata.context_length.min(model.context_length());
        let sizes = model.sizes();
        let config = SchedulerConfig {
            max_sequences: sizes.max_sequences,
            max_rows: sizes.max_rows as usize,
            max_queued: options.max_queue,
            aging: options.aging,
            max_in_flight: STEPS_IN_FLIGHT,
            // A sequence ends with a token that no step runs, as the text of a session does.
            ..SchedulerConfig::new(sizes.blocks, metadata.context_length.saturating_add(1), metadata.vocab_size)
        };
        let encoder = PromptEncoder {
            tokenizer: assets.tokenizer,
            #[cfg(feature = "templates")]
            chat_template: assets.chat_template,
            metadata,
        };
        let shared = Arc::new(Shared::new(Scheduler::new(config), encoder, options.speculation, drafter.is_some()));
        let worker = Worker::new(Arc::clone(&shared), model, drafter);
        let thread = std::thread::Builder::new().name("pteron engine".to_owned());
        let thread = thread.spawn(move || worker.run()).map_err(Error::Read)?;
        Ok(Self { handle: Arc::new(Handle { shared, thread: Some(thread) }) })
    }
}

/// How a draft model is loaded.
struct DraftPlan<'a> {
    program: &'a Program,
    options: ModelOptions,
    sizes: PagedSizes,
    /// Bytes of GPU memory.
    bytes: u64,
}

impl<'a> DraftPlan<'a> {
    fn new(gpu: &Gpu, program: &'a Program, model: &Program, options: &ModelOptions) -> Result<Self> {
        let target = Limits::of(model, options)?;
        let options = ModelOptions {
            metadata: PartialMetadata::default(),
            memory_budget: None,
            progress: None,
            tuning: Tuning::default(),
            ..options.clone()
        };
        let own = Limits::of(program, &options)?;
        if own.vocabulary != target.vocabulary {
            return Err(Error::DraftVocabulary { draft: own.vocabulary, model: target.vocabulary });
        }
        let rows = if gpu.adapter().software { 64 } else { 512 };
        let sizes = PagedSizes::new(rows, draft::blocks(own.context.min(target.context)))
            .with_max_sequences(draft::MAX_DRAFTED)
            .with_max_samples(draft::MAX_DRAFTED);
        let (_, memory) = PagedModel::plan_memory(gpu, program, sizes, &options)?;
        Ok(Self { program, options, sizes, bytes: memory.total_bytes.saturating_add(memory.state_bytes) })
    }
}

/// Sizes steps by the adapter, and the KV cache by the memory that weights and activations leave.
fn pool_sizes(
    gpu: &Gpu,
    program: &Program,
    options: &EngineOptions,
    model: &ModelOptions,
    budget: Option<u64>,
    reserved: u64,
) -> Result<PagedSizes> {
    let summary = gpu.adapter();
    let (sequences, rows) = if summary.software { (8, 64) } else { (128, 512) };
    let max_sequences = options.max_sequences.unwrap_or(sequences).max(1);
    let max_rows = options.max_rows.unwrap_or(rows);
    let draft_rows = u32::try_from(SchedulerConfig::new(1, 1, 1).max_draft_rows).unwrap_or(0);
    let sizes = |blocks| {
        let sizes = PagedSizes::new(max_rows, blocks).with_max_sequences(max_sequences).with_adapters(options.adapters);
        sizes.with_max_samples(sizes.max_samples.min(max_sequences.saturating_add(draft_rows)))
    };
    // Two plans tell how the memory of a state grows with its blocks.
    let (Limits { vocabulary, context, .. }, one) = PagedModel::plan_memory(gpu, program, sizes(1), model)?;
    let (_, two) = PagedModel::plan_memory(gpu, program, sizes(2), model)?;
    let block = two.state_bytes.saturating_sub(one.state_bytes).max(1);
    let largest = two.largest_state_bytes.saturating_sub(one.largest_state_bytes).max(1);
    let limits = &summary.limits;
    // Kernels bind the keys or the values of a layer at once.
    let bound = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size) / largest;
    let context_blocks = u32::try_from(blocks_for(context as usize)).unwrap_or(u32::MAX).max(1);
    let useful = max_sequences.saturating_mul(context_blocks);
    let most = useful.min(u32::try_from(bound).unwrap_or(u32::MAX)).max(1);
    let Some(budget) = budget.or_else(|| Some(device_budget(summary.memory_bytes?, &summary.kind))) else {
        let usual = max_sequences.saturating_mul(USUAL_POSITIONS / BLOCK_POSITIONS);
        return Ok(sizes(usual.max(context_blocks).min(most)));
    };
    // Logits are read back into memory that the GPU reaches.
    let logits = STEPS_IN_FLIGHT as u64 * u64::from(sizes(1).max_samples) * 4 * u64::from(vocabulary);
    let others = one.total_bytes.saturating_sub(one.needed.constant_bytes).saturating_add(one.state_bytes - block);
    let memory = MemoryBudget {
        budget,
        weights: one.needed.constant_bytes,
        activations: others.saturating_add(logits).saturating_add(reserved),
        position: block.div_ceil(u64::from(BLOCK_POSITIONS)),
        context,
    };
    Ok(sizes(pool_blocks(&memory)?.min(most)))
}

/// The memory of a device less a reserve for the system and other programs.
fn device_budget(bytes: u64, kind: &str) -> u64 {
    // Other adapters share the memory of the machine.
    if kind == "DiscreteGpu" { bytes - bytes / 8 } else { bytes / 2 }
}
