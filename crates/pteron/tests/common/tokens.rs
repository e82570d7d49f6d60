//! A language model's steps through the hooks of this crate: sampling appended to the graph, its token fed back.

use pteron::{AppendedOp, CallInput, CallOutput, LoadOptions, Method, PendingCall, Result, ScalarType, State, Tensor};

/// The tokens of a step.
#[derive(Clone, Copy)]
pub(crate) enum Tokens<'a> {
    Given(&'a [i64]),
    Sampled,
}

/// One over the temperature (0 for argmax), two words of seed, the number of the draw.
pub(crate) type Sampling = [i32; 4];
pub(crate) const GREEDY: Sampling = [0; 4];

/// Options of a method that samples its next token.
pub(crate) fn sampling() -> LoadOptions {
    let operator = AppendedOp::new("pteron.sample_row", 0).input(words(GREEDY)).output(ScalarType::Int, &[1, 1]);
    LoadOptions::default().append(operator).feed_back(1, 0).with_max_in_flight(32)
}

fn words(sampling: Sampling) -> Tensor {
    Tensor::new(ScalarType::Int, &[4], sampling.iter().flat_map(|word| word.to_le_bytes()).collect()).unwrap()
}

/// Starts a step at a position.
pub(crate) fn start(
    method: &Method,
    state: &mut State,
    tokens: Tokens<'_>,
    position: i64,
    how: Sampling,
) -> Result<PendingCall> {
    let given = match tokens {
        Tokens::Given(tokens) => Some(Tensor::from_i64(&[1, u32::try_from(tokens.len()).unwrap()], tokens)?),
        Tokens::Sampled => None,
    };
    let tokens = given.as_ref().map_or(CallInput::Feedback(&[1, 1]), CallInput::Tensor);
    let (position, how) = (Tensor::from_i64(&[1], &[position])?, words(how));
    method.start(state, &[tokens, CallInput::Tensor(&position), CallInput::Tensor(&how)], 1)
}

/// Starts steps on the token sampled last, the first at a position, as a group; returns those that were started.
#[allow(dead_code, reason = "not every test file that shares this module starts groups")]
pub(crate) fn start_group(method: &Method, state: &mut State, position: i64, how: &[Sampling]) -> Result<Vec<PendingCall>> {
    let numbers = (position..).zip(how).map(|(at, how)| Ok((Tensor::from_i64(&[1], &[at])?, words(*how))));
    let numbers = numbers.collect::<Result<Vec<_>>>()?;
    let inputs = |(position, how)| vec![CallInput::Feedback(&[1, 1]), CallInput::Tensor(position), CallInput::Tensor(how)];
    let calls: Vec<Vec<CallInput<'_>>> = numbers.iter().map(|(position, how)| inputs((position, how))).collect();
    method.start_group(state, &calls, 1)
}

/// The token of a step.
pub(crate) fn token(output: &CallOutput) -> i64 {
    output.tensor.to_i64().unwrap()[0]
}
