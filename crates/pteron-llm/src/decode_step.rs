//! Steps of a language model that sample their next token on the GPU: each step feeds its token back to the next one, and the host
//! reads tokens while later steps are in flight.

use pteron::{
    AppendedOp, CallInput, LoadOptions, Method, PendingCall, ScalarType, State, StreamingMethod, Tensor, TensorSpec,
};

use crate::error::{Error, Result};
use crate::sampling::SamplingError;
use crate::step_pipeline::StepPipeline;
use crate::tokenizer::TokenId;

/// The operator that samples a token from the last row of logits.
const SAMPLE_ROW: &str = "pteron.sample_row";
/// The operator that samples a token from each row of logits.
pub(crate) const SAMPLE_ROWS: &str = "pteron.sample_rows";
/// Steps that may be in flight on one model, of all its sessions.
const MAX_IN_FLIGHT: usize = 32;
/// Indices of the method's inputs and outputs, those of the appended operator last.
const TOKENS: usize = 0;
const POSITION: usize = 1;
const LOGITS: usize = 0;
const SAMPLED: usize = 1;

/// The tokens that a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepTokens<'a> {
    /// The given tokens.
    Given(&'a [TokenId]),
    /// The token that the state's last step sampled, which the host need not have read.
    Sampled,
}

/// How a step samples its token on the GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuSampling {
    /// 0 for argmax; otherwise the token is drawn from the softmax of the logits divided by this.
    pub temperature: f32,
    /// One seed draws the same tokens every time on one adapter.
    pub seed: u64,
    /// The number of the draw within the seed, such as the position; it must differ from draw to draw.
    pub draw: u32,
}

impl GpuSampling {
    /// Argmax.
    pub const GREEDY: Self = Self { temperature: 0.0, seed: 0, draw: 0 };

    pub(crate) fn words(&self) -> [i32; 4] {
        let scale = if self.temperature > 0.0 { self.temperature.recip() } else { 0.0 };
        #[expect(clippy::cast_possible_truncation, reason = "the two halves of the seed")]
        let [low, high] = [self.seed as u32, (self.seed >> 32) as u32];
        [scale.to_bits(), low, high, self.draw].map(u32::cast_signed)
    }
}

/// Adds token sampling and feedback to the options of a method that takes tokens `[1, n]` and a position `[1]` or `[n]` and returns
/// logits.
///
/// # Errors
/// No memory.
pub fn with_token_sampling(options: LoadOptions) -> Result<LoadOptions> {
    let greedy = integers(ScalarType::Int, &[4], GpuSampling::GREEDY.words().into_iter().map(i64::from))?;
    let sample = AppendedOp::new(SAMPLE_ROW, LOGITS).input(greedy).output(ScalarType::Int, &[1, 1]);
    Ok(options.last_row(LOGITS).append(sample).feed_back(SAMPLED, TOKENS).with_max_in_flight(MAX_IN_FLIGHT))
}

/// Whether a method was loaded [with token sampling](with_token_sampling).
pub(crate) fn samples_tokens(method: &Method) -> bool {
    method.appended().iter().any(|operator| operator == SAMPLE_ROW)
}

/// A token that a step in flight samples. Dropping it gives the token up; the step runs all the same.
#[derive(Debug)]
pub struct PendingToken(PendingCall);

/// A token that a step sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepToken {
    /// Its id.
    pub id: TokenId,
    /// Seconds that the GPU took for the step, if the device has timestamps.
    pub gpu_seconds: Option<f64>,
}

impl PendingToken {
    /// Waits for the token; steps started later may still be in flight. Natively the future blocks the thread that polls it.
    ///
    /// # Errors
    /// A device that fails, or logits that are not numbers.
    pub async fn wait(self) -> Result<StepToken> {
        let output = self.0.wait().await?;
        let token = output.tensor.to_i64().and_then(|tokens| tokens.first().copied());
        match token.and_then(|token| TokenId::try_from(token).ok()) {
            Some(id) => Ok(StepToken { id, gpu_seconds: output.gpu_seconds }),
            None => Err(SamplingError::NoToken("the model's logits are not numbers").into()),
        }
    }
}

/// Whether the state's last step sampled a token that the next step can start from.
#[must_use]
pub fn has_sampled(method: &Method, state: &State) -> bool {
    method.has_feedback(state, TOKENS)
}

/// Starts a step: runs tokens at a position and samples the next one, all on the GPU, and returns at once.
///
/// # Errors
/// A method loaded without [token sampling](with_token_sampling), tokens or a position that it does not take, 32 steps in flight, or
/// [`StepTokens::Sampled`] on a state that has run no step.
pub fn start_step(
    method: &Method,
    state: &mut State,
    tokens: StepTokens<'_>,
    position: u32,
    sampling: GpuSampling,
) -> Result<PendingToken> {
    let inputs = StepInputs::new(method.inputs(), tokens, position, sampling)?;
    Ok(PendingToken(method.start(state, &inputs.views(), SAMPLED)?))
}

/// Starts up to `count` steps on the token that the state's last step sampled, each on the token of the one before, with one submission.
/// Returns the steps that were started, in order: at least one, and fewer than asked where a step does not follow from the one
/// before or where a group would be too large.
///
/// # Errors
/// As [`start_step`], for the first one.
pub fn start_sampled_steps(
    method: &Method,
    state: &mut State,
    position: u32,
    count: u32,
    sampling: impl Fn(u32) -> GpuSampling,
) -> Result<Vec<PendingToken>> {
    let positions = (0..count.max(1)).map(|step| position.saturating_add(step));
    let inputs = positions.map(|at| StepInputs::new(method.inputs(), StepTokens::Sampled, at, sampling(at)));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let calls: Vec<Vec<CallInput<'_>>> = inputs.iter().map(|inputs| inputs.views().to_vec()).collect();
    Ok(method.start_group(state, &calls, SAMPLED)?.into_iter().map(PendingToken).collect())
}

/// The inputs of a step.
struct StepInputs {
    tokens: Option<Tensor>,
    position: Tensor,
    sampling: Tensor,
}

impl StepInputs {
    fn new(specs: &[TensorSpec], tokens: StepTokens<'_>, position: u32, sampling: GpuSampling) -> Result<Self> {
        let scalar_type = |index: usize| specs.get(index).map_or(ScalarType::Long, |spec| spec.scalar_type);
        let tokens = match tokens {
            StepTokens::Given(tokens) => {
                let count = u32::try_from(tokens.len())
                    .map_err(|_| Error::PromptTooLong { tokens: tokens.len(), context: u32::MAX })?;
                Some(integers(scalar_type(TOKENS), &[1, count], tokens.iter().map(|&token| token.into()))?)
            }
            StepTokens::Sampled => None,
        };
        let count = tokens.as_ref().and_then(|tokens| tokens.shape().last().copied()).unwrap_or(1);
        let position = positions(specs, position, count)?;
        let sampling = integers(ScalarType::Int, &[4], sampling.words().into_iter().map(i64::from))?;
        Ok(Self { tokens, position, sampling })
    }

    fn views(&self) -> [CallInput<'_>; 3] {
        let tokens = self.tokens.as_ref().map_or(CallInput::Feedback(&[1, 1]), CallInput::Tensor);
        [tokens, CallInput::Tensor(&self.position), CallInput::Tensor(&self.sampling)]
    }
}

/// The inputs of a call without sampling: tokens, and the position of the first one or of each, as the method takes it.
///
/// # Errors
/// More tokens than 32 bits count, or no memory.
pub fn token_inputs(specs: &[TensorSpec], tokens: &[TokenId], position: u32) -> Result<[Tensor; 2]> {
    let inputs = StepInputs::new(specs, StepTokens::Given(tokens), position, GpuSampling::GREEDY)?;
    let tokens = inputs.tokens.ok_or(Error::EmptyPrompt)?;
    Ok([tokens, inputs.position])
}

/// The position input: `[1]` with the position of the first token, or one position per token, which Hugging Face's exporter calls
/// `cache_position`.
pub(crate) fn positions(specs: &[TensorSpec], first: u32, count: u32) -> Result<Tensor> {
    let spec = specs.get(POSITION);
    let scalar_type = spec.map_or(ScalarType::Long, |spec| spec.scalar_type);
    let per_token = spec.is_some_and(|spec| spec.shape.first().is_some_and(|&most| most > 1));
    let count = if per_token { count } else { 1 };
    integers(scalar_type, &[count], (0..count).map(|token| i64::from(first) + i64::from(token)))
}

/// Integers of the width that a method takes. Values that do not fit into 32 bits stay 64-bit, which the method rejects.
pub(crate) fn integers(scalar_type: ScalarType, shape: &[u32], values: impl IntoIterator<Item = i64>) -> Result<Tensor> {
    let values: Vec<i64> = values.into_iter().collect();
    let narrow: Option<Vec<i32>> = values.iter().map(|&value| i32::try_from(value).ok()).collect();
    match narrow.filter(|_| scalar_type == ScalarType::Int) {
        Some(narrow) => {
            let bytes = narrow.iter().flat_map(|value| value.to_le_bytes()).collect();
            Ok(Tensor::new(ScalarType::Int, shape, bytes)?)
        }
        None => Ok(Tensor::from_i64(shape, &values)?),
    }
}

/// Benchmarks decode steps of a model, which may still be in its streaming load. Runs them in a [`StepPipeline`], as generation does,
/// until `go_on` returns false for the number of steps that have run. Returns how many ran.
///
/// # Errors
/// A method loaded without [token sampling](with_token_sampling), or a device that fails.
pub async fn benchmark_decode(method: &StreamingMethod, context: u32, mut go_on: impl FnMut(u32) -> bool) -> Result<u32> {
    let mut state = method.new_state()?;
    let mut start = |step: u32| -> Result<PendingToken> {
        let inputs = StepInputs::new(method.inputs(), StepTokens::Given(&[0]), step % context.max(1), GpuSampling::GREEDY)?;
        Ok(PendingToken(method.start(&mut state, &inputs.views(), SAMPLED)?))
    };
    let mut pipeline = StepPipeline::new();
    let (mut started, mut ended, mut goes_on) = (0, 0, true);
    loop {
        while goes_on && !pipeline.is_full() {
            pipeline.push(start(started)?);
            started += 1;
        }
        // Every step ends before its state is dropped.
        match pipeline.read_oldest().await {
            // Weights that have not arrived need not give numbers.
            Some(Ok(_) | Err(Error::Sampling(SamplingError::NoToken(_)))) => ended += 1,
            Some(Err(error)) => return Err(error),
            None => return Ok(ended),
        }
        goes_on = goes_on && go_on(ended);
    }
}
