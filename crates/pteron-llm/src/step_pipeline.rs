//! Steps of a model: one call on some tokens, whose next token or logits are read back later.
//!
//! [`StepPipeline`] is the one pipelined decode loop. Generations, benchmarks and the check that a model is fast enough share it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pteron::Tensor;

use crate::decode_step::{PendingToken, token_inputs};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::state_slot::StateLoan;
use crate::tokenizer::TokenId;

/// The output of a step.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StepOutput {
    /// A token that the GPU sampled.
    Token {
        /// The token.
        id: TokenId,
        /// Seconds that the GPU took, if the device has timestamps.
        gpu_seconds: Option<f64>,
    },
    /// The logits after the step's last token.
    Logits(Vec<f32>),
}

#[cfg(not(target_arch = "wasm32"))]
type StepFuture = Pin<Box<dyn Future<Output = Result<StepOutput>> + Send>>;
#[cfg(target_arch = "wasm32")]
type StepFuture = Pin<Box<dyn Future<Output = Result<StepOutput>>>>;

/// Steps in flight, oldest first. The next steps are started before the outputs of the last ones are read, so that the GPU never waits
/// for the host.
///
/// Short steps are started in groups, because every submission takes some time on the GPU. Long steps are started one at a time: a
/// reader sees each token when it is there, and a stop wastes no more than two steps.
pub struct StepPipeline {
    in_flight: VecDeque<StepFuture>,
    group: u32,
}

/// The longest time that the first token of a group waits for the last one, in seconds: one frame of a display.
const GROUP_SECONDS: f64 = 1.0 / 60.0;
/// The most steps of a group.
const MAX_GROUP: u32 = 8;

impl Default for StepPipeline {
    fn default() -> Self {
        Self { in_flight: VecDeque::new(), group: 1 }
    }
}

impl std::fmt::Debug for StepPipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StepPipeline").field("in_flight", &self.in_flight.len()).finish()
    }
}

impl StepPipeline {
    /// The most steps in flight: a group that runs and one that waits for it.
    pub const DEPTH: usize = 2 * MAX_GROUP as usize;

    /// Creates a pipeline without steps.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of steps in flight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether no step is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether a step must be read before the next one is started.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// How many steps to start next, with one submission: a group, if no more than another one is in flight.
    #[must_use]
    pub fn room(&self) -> u32 {
        if self.in_flight.len() <= self.group as usize { self.group } else { 0 }
    }

    /// Sizes the next groups by the time of a step. Groups at most double in size, so that one is encoded while the smaller one before
    /// it runs.
    fn adapt(&mut self, output: &StepOutput) {
        if let StepOutput::Token { gpu_seconds: Some(seconds), .. } = *output {
            let fits = |group: &u32| f64::from(*group) * seconds <= GROUP_SECONDS;
            self.group = (1..=MAX_GROUP.min(2 * self.group)).rev().find(fits).unwrap_or(1);
        }
    }

    /// Adds a step that samples its token on the GPU.
    pub fn push(&mut self, step: PendingToken) {
        self.in_flight.push_back(Box::pin(async move {
            let token = step.wait().await?;
            Ok(StepOutput::Token { id: token.id, gpu_seconds: token.gpu_seconds })
        }));
    }

    /// Adds a call that reads back the logits after a prompt.
    pub(crate) fn push_logits(&mut self, model: Model, state: StateLoan, tokens: Vec<TokenId>, position: usize) {
        self.in_flight.push_back(Box::pin(async move {
            let logits = run_prompt(&model, state, &tokens, position).await?;
            Ok(StepOutput::Logits(logits))
        }));
    }

    /// Polls the oldest step. Its output is `None` if no step is in flight. Nothing is lost if the caller stops polling.
    pub fn poll_oldest(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<StepOutput>>> {
        let Some(oldest) = self.in_flight.front_mut() else { return Poll::Ready(None) };
        let output = ready!(oldest.as_mut().poll(context));
        self.in_flight.pop_front();
        if let Ok(output) = &output {
            self.adapt(output);
        }
        Poll::Ready(Some(output))
    }

    /// Waits for the oldest step. Natively the future blocks its thread until the step has run. Dropping it loses nothing.
    ///
    /// # Errors
    /// The device fails, or the logits are not numbers.
    pub async fn read_oldest(&mut self) -> Option<Result<StepOutput>> {
        poll_fn(|context| self.poll_oldest(context)).await
    }

    /// Gives up the outputs of all steps in flight. The GPU runs them all the same.
    pub fn clear(&mut self) {
        self.in_flight.clear();
    }
}

/// Runs tokens at a position, in chunks that the model takes, and returns the logits after the last one.
async fn run_prompt(model: &Model, mut state: StateLoan, tokens: &[TokenId], position: usize) -> Result<Vec<f32>> {
    let mut logits = Vec::new();
    let mut position = position;
    for chunk in tokens.chunks(model.max_chunk()) {
        logits = run_chunk(model, &mut state, chunk, position).await?;
        position += chunk.len();
    }
    Ok(logits)
}

/// Runs at most as many tokens as the model takes and returns the logits after the last one.
pub(crate) async fn run_chunk(
    model: &Model,
    state: &mut StateLoan,
    tokens: &[TokenId],
    position: usize,
) -> Result<Vec<f32>> {
    let inputs = token_inputs(model.method().inputs(), tokens, u32::try_from(position).unwrap_or(u32::MAX))?;
    let outputs = model.method().call(state.state(), &inputs).await?;
    let logits = outputs.first().and_then(|output| last_row(output, model.metadata().vocab_size as usize));
    logits.ok_or_else(|| Error::NotALanguageModel("it returned no logits".to_owned()))
}

/// The last row of the logits. Some programs return a row for every token; only the last one is converted.
fn last_row(output: &Tensor, row: usize) -> Option<Vec<f32>> {
    if output.scalar_type() != pteron::ScalarType::Float {
        let mut all = output.to_f32()?;
        return Some(all.split_off(all.len().saturating_sub(row)));
    }
    let (values, _) = output.bytes().as_chunks::<4>();
    let last = values.get(values.len().saturating_sub(row)..)?;
    Some(last.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds finished steps that took some time on the GPU, and reads as many.
    fn run(pipeline: &mut StepPipeline, steps: usize, gpu_seconds: Option<f64>) {
        for _ in 0..steps {
            pipeline.in_flight.push_back(Box::pin(async move { Ok(StepOutput::Token { id: 1, gpu_seconds }) }));
        }
        for _ in 0..steps {
            let mut context = Context::from_waker(std::task::Waker::noop());
            assert!(matches!(pipeline.poll_oldest(&mut context), Poll::Ready(Some(Ok(_)))));
        }
    }

    #[test]
    fn short_steps_are_started_in_groups() {
        let mut pipeline = StepPipeline::new();
        for (gpu_seconds, group) in [
            (None, 1),
            (Some(0.0005), 8),
            (Some(0.003), 5),
            (Some(0.008), 2),
            (Some(0.009), 1),
            (Some(0.002), 8),
            (Some(9.0), 1),
        ] {
            run(&mut pipeline, 4, gpu_seconds);
            assert_eq!(pipeline.room(), group, "{gpu_seconds:?}");
        }
    }

    #[test]
    fn groups_at_most_double() {
        let mut pipeline = StepPipeline::new();
        for group in [2, 4, 8, 8] {
            run(&mut pipeline, 1, Some(0.0005));
            assert_eq!(pipeline.room(), group);
        }
    }

    #[test]
    fn two_groups_are_in_flight_at_most() {
        let mut pipeline = StepPipeline::new();
        let pending = |pipeline: &mut StepPipeline, steps: u32| {
            (0..steps).for_each(|_| pipeline.in_flight.push_back(Box::pin(std::future::pending())));
        };
        pending(&mut pipeline, 1);
        assert_eq!((pipeline.room(), pipeline.is_full()), (1, false));
        pending(&mut pipeline, 1);
        assert!(pipeline.is_full());
        pipeline.clear();
        run(&mut pipeline, 3, Some(0.0));
        pending(&mut pipeline, MAX_GROUP);
        assert_eq!(pipeline.room(), MAX_GROUP);
        pending(&mut pipeline, MAX_GROUP);
        assert!(pipeline.is_full());
    }

    #[test]
    fn only_the_last_row_of_logits_is_returned() {
        let output = Tensor::from_f32(&[1, 2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(last_row(&output, 3), Some(vec![3.0, 4.0, 5.0]));
        assert_eq!(last_row(&output, 9).map(|row| row.len()), Some(6));
        let integers = Tensor::from_i64(&[1], &[1]).unwrap();
        assert_eq!(last_row(&integers, 1), None);
    }
}
