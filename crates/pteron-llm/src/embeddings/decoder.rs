//! Decoders: rows of many texts per step, with a KV cache for texts that take several.

use std::collections::VecDeque;

use pteron::{BLOCK_POSITIONS, Gpu, Program};

use super::USUAL_TOKENS;
use super::pooling::{Pool, Pooling};
use crate::batch::blocks_for;
use crate::decode_step::GpuSampling;
use crate::error::{Error, Result};
use crate::model::ModelOptions;
use crate::paged_model::{Limits, PagedModel, PagedSizes, PagedToken};
use crate::paged_rows::PagedRows;
use crate::tokenizer::{Format, TokenId, Tokenizer};

/// The output of logits, in the place of which hidden states are returned.
const LOGITS: usize = 0;

/// A decoder whose steps return hidden states.
pub(super) struct Decoder {
    model: PagedModel,
}

/// A text of which some tokens have been computed.
struct Running {
    /// Its number.
    text: usize,
    position: usize,
    blocks: Vec<u32>,
    pool: Pool,
}

impl Decoder {
    pub(super) async fn load(
        gpu: &Gpu,
        program: &Program,
        options: &ModelOptions,
        max_tokens: Option<u32>,
        tokenizer: &Tokenizer,
    ) -> Result<Self> {
        let Limits { context, longest, vocabulary } = Limits::of(program, options)?;
        let (rows, texts) = if gpu.adapter().software { (64, 8) } else { (512, 32) };
        let rows = rows.min(longest).max(1);
        let context = context.min(max_tokens.unwrap_or(USUAL_TOKENS)).max(1);
        // One text as long as can be, or as many short ones as a step has.
        let blocks = context.div_ceil(BLOCK_POSITIONS).max(rows / BLOCK_POSITIONS + texts);
        let sizes = PagedSizes::new(rows, blocks).with_max_sequences(texts);
        let mut options = options.clone();
        options.metadata.context_length = Some(context);
        // A program with fewer columns than tokens returns hidden states already.
        let known = (tokenizer.format() != Format::IdsOnly).then(|| tokenizer.vocab_size());
        let hidden = known.is_none_or(|known| known <= vocabulary).then_some(LOGITS);
        if let Some(known) = known.filter(|_| hidden.is_none()) {
            options.metadata.vocab_size = Some(known);
        }
        let model = PagedModel::load_for(gpu, program, sizes, &options, hidden).await.map_err(|error| match error {
            Error::Unsupported(reason) => Error::NoHiddenStates(reason.to_string()),
            other => other,
        })?;
        Ok(Self { model })
    }

    pub(super) fn max_tokens(&self) -> u32 {
        self.model.context_length()
    }

    pub(super) fn vocabulary(&self) -> u32 {
        self.model.vocab_size()
    }

    /// Returns the vector of each text.
    pub(super) fn run(&mut self, texts: &[&[TokenId]], pooling: Pooling) -> Result<Vec<Vec<f32>>> {
        let mut vectors = vec![Vec::new(); texts.len()];
        let mut waiting: VecDeque<usize> = (0..texts.len()).collect();
        let mut running: Vec<Running> = Vec::new();
        let mut free: Vec<u32> = (0..self.model.sizes().blocks).rev().collect();
        while !(waiting.is_empty() && running.is_empty()) {
            self.admit(texts, pooling, &mut waiting, &mut running, &mut free);
            let mut rows = self.plan(texts, &mut running);
            if rows.is_empty() {
                return Err(Error::Misuse("a text does not fit the KV cache".to_owned()));
            }
            let (_, hidden) = pteron::block_on(self.model.run_with_logits(&rows.step()))?;
            for (owner, row) in rows.owners.iter().zip(&hidden) {
                running[*owner].pool.add(row);
            }
            let (done, left): (Vec<_>, Vec<_>) = running.into_iter().partition(|own| own.position == texts[own.text].len());
            running = left;
            for own in done {
                free.extend(own.blocks);
                vectors[own.text] = own.pool.finish();
            }
        }
        Ok(vectors)
    }

    /// Gives blocks to texts that wait, in their order.
    fn admit(
        &self,
        texts: &[&[TokenId]],
        pooling: Pooling,
        waiting: &mut VecDeque<usize>,
        running: &mut Vec<Running>,
        free: &mut Vec<u32>,
    ) {
        let sizes = self.model.sizes();
        while let Some(&text) = waiting.front() {
            let tokens = texts[text].len();
            let planned: usize = running.iter().map(|own| texts[own.text].len() - own.position).sum();
            let needed = blocks_for(tokens);
            let is_full = running.len() >= sizes.max_sequences as usize || planned >= sizes.max_rows as usize;
            if is_full || needed > free.len() {
                return;
            }
            waiting.pop_front();
            let blocks = free.split_off(free.len() - needed);
            running.push(Running { text, position: 0, blocks, pool: Pool::new(pooling, tokens) });
        }
    }

    /// The next rows of the running texts, which count as computed from here on.
    fn plan(&self, texts: &[&[TokenId]], running: &mut [Running]) -> PagedRows {
        let mut rows = PagedRows::default();
        let PagedSizes { max_rows, max_samples, .. } = self.model.sizes();
        for (owner, own) in running.iter_mut().enumerate() {
            let tokens = &texts[own.text][own.position..];
            let room = (max_rows as usize - rows.len()).min(max_samples as usize - rows.owners.len());
            let count = tokens.len().min(room);
            if count == 0 {
                break;
            }
            rows.begin(&own.blocks, own.position, count);
            for &token in &tokens[..count] {
                rows.push(PagedToken::Known(token));
                if own.pool.needs(own.position) {
                    rows.sample(owner, GpuSampling::GREEDY);
                }
                own.position += 1;
            }
        }
        rows
    }
}
