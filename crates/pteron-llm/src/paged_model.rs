//! A language model that runs rows of many sequences in one step, with a paged KV cache.
//!
//! The program is any decoder that [`Model`](crate::Model) takes: its graph is rewritten at load
//! ([`LoadOptions::with_sequences`]). The caller owns the blocks: a step says which rows belong to which sequence, and which blocks hold
//! the sequence's positions. Sequences may share blocks that no row of the step writes.
//!
//! A model loaded [with room for them](PagedSizes::with_adapters) takes LoRA adapters while steps run: a step says which sequences use which.
//! Keys and values depend on the adapter, so only sequences of one adapter may share blocks.

use pteron::{
    AdapterOptions, AppendedOp, CallInput, Gpu, LoadOptions, LoraAdapter, Method, PendingCall, Program, ScalarType,
    SequenceInputs, SequenceOptions, SequenceRows, State, Tensor,
};

use crate::adapters::{AdapterId, AdapterTable};
use crate::decode_step::{GpuSampling, SAMPLE_ROWS, integers, positions};
use crate::error::{Error, Result};
use crate::metadata::PartialMetadata;
use crate::model::ModelOptions;
use crate::sampling::SamplingError;
use crate::tokenizer::TokenId;

/// Indices of the method's inputs and outputs, those of the appended operator last.
const TOKENS: usize = 0;
const POSITION: usize = 1;
const INPUTS: usize = 2;
const LOGITS: usize = 0;
const SAMPLED: usize = 1;
/// Steps that may be in flight.
const MAX_IN_FLIGHT: usize = 4;
/// The most samples of a step: their tokens are read back together.
const MAX_SAMPLES: u32 = 1024;
/// Words of a row's sampling parameters.
const SAMPLING_WORDS: u32 = 4;

/// The sizes of steps and of the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PagedSizes {
    /// The most rows of a step, decode rows and rows of prompts together.
    pub max_rows: u32,
    /// The most sequences of a step.
    pub max_sequences: u32,
    /// The most samples of a step.
    pub max_samples: u32,
    /// Blocks of the KV cache, [`BLOCK_POSITIONS`](pteron::BLOCK_POSITIONS) positions each.
    pub blocks: u32,
    /// Room for LoRA adapters.
    pub adapters: Option<AdapterOptions>,
}

impl PagedSizes {
    /// Creates sizes for steps of up to `max_rows` rows and a KV cache of `blocks` blocks. Each row may be a sequence, and sampled.
    #[must_use]
    pub fn new(max_rows: u32, blocks: u32) -> Self {
        Self { max_rows, max_sequences: max_rows, max_samples: max_rows.min(MAX_SAMPLES), blocks, adapters: None }
    }

    /// Limits the sequences of a step.
    #[must_use]
    pub fn with_max_sequences(self, max_sequences: u32) -> Self {
        Self { max_sequences, ..self }
    }

    /// Makes room for LoRA adapters. It takes GPU memory for each slot, and where adapters may update the factors of SwiGLU, a step runs one
    /// more dispatch per layer; otherwise rows without an adapter cost nothing.
    #[must_use]
    pub fn with_adapters(self, adapters: impl Into<Option<AdapterOptions>>) -> Self {
        Self { adapters: adapters.into(), ..self }
    }

    /// Limits the samples of a step.
    #[must_use]
    pub fn with_max_samples(self, max_samples: u32) -> Self {
        Self { max_samples, ..self }
    }
}

/// The token of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagedToken {
    /// A token that the host knows.
    Known(TokenId),
    /// The token of a sample of the previous step, by index, which the host need not have read.
    Sampled(u32),
}

/// A row whose logits are sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PagedSample {
    /// The row.
    pub row: u32,
    /// How its token is sampled.
    pub sampling: GpuSampling,
}

/// Rows of many sequences.
#[derive(Clone, Copy, Debug, Default)]
pub struct PagedStep<'a> {
    /// The token of each row.
    pub tokens: &'a [PagedToken],
    /// The sequences, in the order of their rows.
    pub sequences: &'a [SequenceRows],
    /// Physical blocks. Those of a sequence start at its offset and cover every position up to its last row.
    pub block_tables: &'a [u32],
    /// The rows whose logits are sampled.
    pub samples: &'a [PagedSample],
    /// Blocks to copy before anything else, source and destination. No destination is a source.
    pub copies: &'a [[u32; 2]],
    /// The adapter of each sequence, or none at all.
    pub adapters: &'a [Option<AdapterId>],
}

/// A decoder with a paged KV cache.
#[derive(Debug)]
pub struct PagedModel {
    method: Method,
    inputs: SequenceInputs,
    state: State,
    sizes: PagedSizes,
    vocabulary: u32,
    context: u32,
    /// Samples of the last step.
    sampled: u32,
    adapters: AdapterTable,
}

/// The samples of a step in flight. Dropping it gives the tokens up; the step runs all the same.
#[derive(Debug)]
pub struct PendingSamples(PendingCall);

/// What a step sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledRows {
    /// The token of each sample, in order; `None` where the logits are not numbers.
    pub tokens: Vec<Option<TokenId>>,
    /// The logits of the first samples, one row after the other, as many as the step was started for.
    pub logits: Vec<f32>,
    /// Seconds that the GPU took for the step, if the device has timestamps.
    pub gpu_seconds: Option<f64>,
}

impl PendingSamples {
    /// Waits for the tokens; steps started later may still be in flight. Natively the future blocks the thread that polls it.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn wait(self) -> Result<SampledRows> {
        let output = self.0.wait().await?;
        let logits = output.first_elements.as_ref().and_then(Tensor::to_f32).unwrap_or_default();
        Ok(SampledRows { tokens: tokens(&output.tensor), logits, gpu_seconds: output.gpu_seconds })
    }
}

fn tokens(sampled: &Tensor) -> Vec<Option<TokenId>> {
    sampled.to_i64().unwrap_or_default().into_iter().map(|token| TokenId::try_from(token).ok()).collect()
}

impl PagedModel {
    /// Loads a program for steps of many sequences.
    ///
    /// # Errors
    /// A program that is no language model or has an operator that is not row-wise, by name; sizes that it does not take, or for which
    /// there is too little GPU memory.
    pub async fn load(gpu: &Gpu, program: &Program, sizes: PagedSizes, options: &ModelOptions) -> Result<Self> {
        Self::load_for(gpu, program, sizes, options, None).await
    }

    /// Loads a program as [`load`](Self::load) does. With the index of the logits as `hidden`, their rows are hidden states.
    pub(crate) async fn load_for(
        gpu: &Gpu,
        program: &Program,
        sizes: PagedSizes,
        options: &ModelOptions,
        hidden: Option<usize>,
    ) -> Result<Self> {
        let Limits { vocabulary, context, longest } = Limits::of(program, options)?;
        let sizes = PagedSizes { max_rows: sizes.max_rows.min(longest), ..sizes };
        if sizes.max_rows == 0 || sizes.blocks == 0 || sizes.max_samples == 0 || sizes.max_samples > MAX_SAMPLES {
            let PagedSizes { max_rows, max_samples, blocks, .. } = sizes;
            let given = format!("{max_rows} rows, {max_samples} samples and {blocks} blocks");
            return Err(Error::Misuse(format!(
                "a step needs at least one of each and at most {MAX_SAMPLES} samples: {given}"
            )));
        }
        let load = load_options(program, sizes, context, options)?.with_hidden_states(hidden);
        let method = program.load(gpu, &options.method, &load).await?;
        let inputs = method.sequence_inputs();
        let inputs = inputs.ok_or_else(|| Error::Misuse("the method takes no rows of sequences".to_owned()))?;
        let (state, context) = (method.new_state()?, context.min(method.sequence_positions()?));
        let adapters = AdapterTable::new(sizes.adapters.map_or(0, |adapters| adapters.slots));
        Ok(Self { method, inputs, state, sizes, vocabulary, context, sampled: 0, adapters })
    }

    /// Loads a LoRA adapter into a free slot. Steps in flight are not disturbed.
    ///
    /// # Errors
    /// No free slot; an adapter whose rank is too large, or that updates linears which the model does not have, has in another shape, or was
    /// not loaded to update.
    pub fn load_adapter(&mut self, adapter: &LoraAdapter) -> Result<AdapterId> {
        let slot = self.adapters.free_slot()?;
        self.fill(slot, adapter)
    }

    /// Replaces an adapter. Steps in flight still use the old one; its id is not valid any more.
    ///
    /// # Errors
    /// As [`load_adapter`](Self::load_adapter), or an adapter that was unloaded. The old adapter stays then, unless the device failed.
    pub fn replace_adapter(&mut self, id: AdapterId, adapter: &LoraAdapter) -> Result<AdapterId> {
        let slot = self.adapters.slot(id)?;
        self.fill(slot, adapter)
    }

    fn fill(&mut self, slot: u32, adapter: &LoraAdapter) -> Result<AdapterId> {
        self.method.write_adapter(slot, adapter)?;
        Ok(self.adapters.fill(slot, adapter.rank()))
    }

    /// Unloads an adapter. Steps in flight still use it.
    ///
    /// # Errors
    /// An adapter that was unloaded already.
    pub fn unload_adapter(&mut self, id: AdapterId) -> Result<()> {
        let slot = self.adapters.slot(id)?;
        self.adapters.clear(slot);
        Ok(())
    }

    /// Returns the GPU memory that [`load`](Self::load) would take, and the model's limits. Loads nothing.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn plan_memory(
        gpu: &Gpu,
        program: &Program,
        sizes: PagedSizes,
        options: &ModelOptions,
    ) -> Result<(Limits, pteron::MethodMemory)> {
        let limits = Limits::of(program, options)?;
        let sizes = PagedSizes { max_rows: sizes.max_rows.min(limits.longest), ..sizes };
        let load = load_options(program, sizes, limits.context, options)?.with_memory_budget(None);
        Ok((limits, program.plan_memory(gpu, &options.method, &load)?))
    }

    /// The sizes of steps and of the KV cache.
    #[must_use]
    pub fn sizes(&self) -> PagedSizes {
        self.sizes
    }

    /// The most positions of a sequence.
    #[must_use]
    pub fn context_length(&self) -> u32 {
        self.context
    }

    /// The number of tokens that the model knows.
    #[must_use]
    pub fn vocab_size(&self) -> u32 {
        self.vocabulary
    }

    /// The loaded method.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Starts a step and returns at once. Steps run in the order in which they are started.
    ///
    /// # Errors
    /// Rows, positions, blocks or tokens that the model does not have, or four steps in flight. Nothing is started then.
    pub fn start(&mut self, step: &PagedStep<'_>) -> Result<PendingSamples> {
        let inputs = self.step_inputs(step)?;
        let fed_back = [self.sampled];
        let pending = self.method.start(&mut self.state, &inputs.views(self.inputs, &fed_back), SAMPLED)?;
        self.sampled = inputs.samples;
        Ok(PendingSamples(pending))
    }

    /// Starts a step as [`start`](Self::start) does, and reads back also the logits of its first `rows` samples.
    ///
    /// # Errors
    /// As [`start`](Self::start), or more rows than samples.
    pub fn start_with_logits(&mut self, step: &PagedStep<'_>, rows: u32) -> Result<PendingSamples> {
        if rows == 0 {
            return self.start(step);
        }
        let inputs = self.step_inputs(step)?;
        let fed_back = [self.sampled];
        let logits = (LOGITS, u64::from(rows) * u64::from(self.vocabulary));
        let views = inputs.views(self.inputs, &fed_back);
        let pending = self.method.start_with_first(&mut self.state, &views, SAMPLED, logits)?;
        self.sampled = inputs.samples;
        Ok(PendingSamples(pending))
    }

    /// Runs a step and returns its tokens and the logits of each sample.
    ///
    /// # Errors
    /// As [`start`](Self::start), or a device that fails.
    pub async fn run_with_logits(&mut self, step: &PagedStep<'_>) -> Result<(SampledRows, Vec<Vec<f32>>)> {
        let inputs = self.step_inputs(step)?;
        let fed_back = [self.sampled];
        self.sampled = inputs.samples;
        let outputs = self.method.call_with(&mut self.state, &inputs.views(self.inputs, &fed_back)).await?;
        let columns = outputs.get(LOGITS).and_then(|rows| rows.shape().last()).map_or(0, |&columns| columns as usize);
        let (Some(logits), Some(sampled)) = (outputs.get(LOGITS).and_then(Tensor::to_f32), outputs.get(SAMPLED)) else {
            return Err(SamplingError::NoToken("the model's logits are not floats").into());
        };
        let rows = logits.chunks_exact(columns.max(1)).map(<[f32]>::to_vec).collect();
        Ok((SampledRows { tokens: tokens(sampled), logits: Vec::new(), gpu_seconds: None }, rows))
    }

    fn step_inputs(&self, step: &PagedStep<'_>) -> Result<StepInputs> {
        let rows = self.check(step)?;
        let specs = self.method.inputs();
        let token_type = specs.get(TOKENS).map_or(ScalarType::Long, |spec| spec.scalar_type);
        let feeds_back = step.tokens.iter().any(|token| matches!(token, PagedToken::Sampled(_)));
        // Where no row takes a token that was fed back, one that nothing reads stands in their place.
        let before = if feeds_back { self.sampled } else { 1 };
        let known = |token: &PagedToken| match token {
            PagedToken::Known(token) => i64::from(*token),
            PagedToken::Sampled(_) => 0,
        };
        let source = |(row, token): (u32, &PagedToken)| match token {
            PagedToken::Known(_) => i64::from(before) + i64::from(row),
            PagedToken::Sampled(sample) => i64::from(*sample),
        };
        let samples = u32::try_from(step.samples.len()).unwrap_or(u32::MAX);
        let copies = u32::try_from(step.copies.len()).unwrap_or(u32::MAX);
        let int = ScalarType::Int;
        let words = step.samples.iter().flat_map(|sample| sample.sampling.words()).map(i64::from);
        Ok(StepInputs {
            tokens: integers(token_type, &[1, rows], step.tokens.iter().map(known))?,
            position: positions(specs, 0, rows)?,
            fed_back: if feeds_back { None } else { Some(integers(token_type, &[1], [0])?) },
            sources: integers(int, &[rows], (0..).zip(step.tokens).map(source))?,
            work: self.method.work_list(rows, step.sequences, step.block_tables)?,
            copies: integers(int, &[copies, 2], step.copies.iter().flatten().map(|&block| block.into()))?,
            selected: integers(int, &[samples], step.samples.iter().map(|sample| sample.row.into()))?,
            sampling: integers(int, &[samples, SAMPLING_WORDS], words)?,
            samples,
            adapters: self.inputs.adapters.map(|_| self.adapter_tiles(rows, step)).transpose()?,
        })
    }

    /// Which rows have which adapter.
    fn adapter_tiles(&self, rows: u32, step: &PagedStep<'_>) -> Result<Tensor> {
        let mut slots = vec![None; rows as usize];
        for (own, adapter) in step.sequences.iter().zip(step.adapters) {
            let Some(slot) = adapter.map(|id| self.adapters.slot(id)).transpose()? else { continue };
            let (first, count) = (own.first_row as usize, own.row_count as usize);
            slots.iter_mut().skip(first).take(count).for_each(|row| *row = Some(slot));
        }
        Ok(self.method.adapter_tiles(&slots, &self.adapters.ranks())?)
    }

    /// Checks a step as far as the method does not. Returns its rows.
    fn check(&self, step: &PagedStep<'_>) -> Result<u32> {
        let misuse = |reason: String| Err(Error::Misuse(reason));
        let PagedSizes { max_rows, max_sequences, max_samples, .. } = self.sizes;
        for (name, count, most) in [
            ("rows", step.tokens.len(), max_rows),
            ("sequences", step.sequences.len(), max_sequences),
            ("samples", step.samples.len(), max_samples),
        ] {
            if count > most as usize {
                return misuse(format!("a step has {count} {name}, but the model was loaded for {most}"));
            }
        }
        for token in step.tokens {
            match *token {
                PagedToken::Known(token) if token >= self.vocabulary => {
                    return Err(Error::TokenOutOfRange { token, vocabulary: self.vocabulary });
                }
                PagedToken::Sampled(sample) if sample >= self.sampled => {
                    return misuse(format!("a row takes sample {sample}, but the previous step had {}", self.sampled));
                }
                _ => {}
            }
        }
        if !step.adapters.is_empty() && step.adapters.len() != step.sequences.len() {
            let (adapters, sequences) = (step.adapters.len(), step.sequences.len());
            return misuse(format!("a step names {adapters} adapters for {sequences} sequences"));
        }
        // Those of the model are looked up where rows are divided into tiles.
        if self.inputs.adapters.is_none() && step.adapters.iter().any(Option::is_some) {
            return misuse("a step names an adapter, but the model was loaded without room for adapters".to_owned());
        }
        let is_target = |block: &u32| step.copies.iter().any(|[_, to]| to == block);
        if let Some([from, _]) = step.copies.iter().find(|[from, _]| is_target(from)) {
            return misuse(format!("block {from} is both copied and overwritten by a copy"));
        }
        Ok(u32::try_from(step.tokens.len()).unwrap_or(u32::MAX))
    }
}

/// Sizes that a program has, or is given.
pub(crate) struct Limits {
    pub(crate) vocabulary: u32,
    pub(crate) context: u32,
    /// The most rows of a call.
    pub(crate) longest: u32,
}

impl Limits {
    pub(crate) fn of(program: &Program, options: &ModelOptions) -> Result<Self> {
        let signature = PartialMetadata::from_signature(program, &options.method)?;
        let metadata = options.metadata.clone().or(signature).or(PartialMetadata::from_program(program)?);
        match (metadata.vocab_size, metadata.context_length, metadata.max_prefill) {
            (Some(vocabulary), Some(context), Some(longest)) => Ok(Self { vocabulary, context, longest }),
            _ => Err(Error::NotALanguageModel("its vocabulary or context length is unknown".to_owned())),
        }
    }
}

fn load_options(program: &Program, sizes: PagedSizes, context: u32, options: &ModelOptions) -> Result<LoadOptions> {
    let PagedSizes { max_rows, max_sequences, max_samples, blocks, adapters } = sizes;
    if adapters.is_some_and(|adapters| adapters.slots == 0 || adapters.max_rank == 0) {
        return Err(Error::Misuse("room for adapters needs at least one slot and a rank of one".to_owned()));
    }
    let (specs, _) = program.signature(&options.method)?;
    let per_token = specs.get(POSITION).is_some_and(|spec| spec.shape.first().is_some_and(|&most| most > 1));
    let bounds = vec![Some(vec![1, max_rows]), per_token.then(|| vec![max_rows])];
    let sequences = SequenceOptions {
        rows_input: TOKENS,
        output: LOGITS,
        max_rows,
        max_sequences,
        max_selected: max_samples,
        blocks,
        max_table_blocks: max_sequences.saturating_mul(context.div_ceil(pteron::BLOCK_POSITIONS)),
        max_copies: max_sequences,
        adapters,
    };
    let greedy = (0..max_samples).flat_map(|_| GpuSampling::GREEDY.words()).map(i64::from);
    let greedy = integers(ScalarType::Int, &[max_samples, SAMPLING_WORDS], greedy)?;
    let sample = AppendedOp::new(SAMPLE_ROWS, LOGITS).input(greedy).with_dynamic_inputs();
    Ok(LoadOptions::default()
        .with_memory_budget(options.memory_budget)
        .with_progress(options.progress.clone())
        .with_precision(options.precision)
        .with_tuning(options.tuning)
        .with_state_dtype(options.kv_dtype)
        .with_input_bounds(bounds)
        .with_sequences(sequences)
        .append(sample.output(ScalarType::Int, &[max_samples]))
        .feed_back(SAMPLED, INPUTS)
        .with_max_in_flight(MAX_IN_FLIGHT))
}

/// The inputs of a step.
struct StepInputs {
    tokens: Tensor,
    position: Tensor,
    /// None where the tokens of the previous step are fed back.
    fed_back: Option<Tensor>,
    sources: Tensor,
    work: Tensor,
    copies: Tensor,
    selected: Tensor,
    sampling: Tensor,
    samples: u32,
    /// Where the model has room for adapters.
    adapters: Option<Tensor>,
}

impl StepInputs {
    fn views<'a>(&'a self, inputs: SequenceInputs, fed_back: &'a [u32; 1]) -> Vec<CallInput<'a>> {
        let mut views = vec![CallInput::Tensor(&self.sampling); INPUTS + inputs.count() + 1];
        for (index, tensor) in [
            (TOKENS, &self.tokens),
            (POSITION, &self.position),
            (inputs.sources, &self.sources),
            (inputs.work, &self.work),
            (inputs.copies, &self.copies),
            (inputs.selected, &self.selected),
        ] {
            views[index] = CallInput::Tensor(tensor);
        }
        if let Some((index, tiles)) = inputs.adapters.zip(self.adapters.as_ref()) {
            views[index] = CallInput::Tensor(tiles);
        }
        views[inputs.fed_back] = self.fed_back.as_ref().map_or(CallInput::Feedback(fed_back), CallInput::Tensor);
        views
    }
}
