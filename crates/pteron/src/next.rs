//! Steps of a language model that choose their next token on the GPU: a step begins with the token the one before chose, and the
//! host reads tokens as they arrive.

use pteron_format::program::ExecutionPlan;
use pteron_gpu::engine::{self, Feedback, Input, LoadedGraph, PendingCall, TensorData};
use pteron_gpu::graph::Graph;
use pteron_gpu::ir::{self, DataType};
use pteron_gpu::ops::sample_row;
use pteron_gpu::shape::Dims;

use crate::error::{Error, Result};
use crate::interpreter::InstructionList;
use crate::method::{Method, State};

/// What a step starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens<'a> {
    /// These, one after the other.
    Given(&'a [u32]),
    /// The one that the step before chose, which need not have been read.
    Chosen,
}

/// How a token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// 0: the likeliest. Otherwise a sample from the softmax of the logits divided by this.
    pub temperature: f32,
    /// Draws with one seed are the same every time on one adapter.
    pub seed: u64,
    /// Which draw of that seed this is, such as the position: each must be another.
    pub draw: u32,
}

impl Choice {
    /// The likeliest token.
    pub const GREEDY: Self = Self { temperature: 0.0, seed: 0, draw: 0 };

    fn words(&self) -> [i32; 4] {
        let scale = if self.temperature > 0.0 { self.temperature.recip() } else { 0.0 };
        #[allow(clippy::cast_possible_truncation, reason = "the two halves of the seed")]
        let [low, high] = [self.seed as u32, (self.seed >> 32) as u32];
        [scale.to_bits(), low, high, self.draw].map(u32::cast_signed)
    }
}

/// Where tokens go in and come out of a method's delegate.
#[derive(Debug)]
pub(crate) struct TokenLoop {
    /// Indices of the delegate's inputs, by what they are.
    tokens: usize,
    position: usize,
    sampling: usize,
    /// Index of the delegate's output.
    chosen: usize,
}

impl TokenLoop {
    /// Steps that may be under way: of each text one that runs or waits and one behind it, and one whose token is being read.
    pub(crate) const UNDER_WAY: usize = 32;

    /// Puts the choice behind a method's only output. The method must be one call of one delegate that takes tokens `[1, n]` and
    /// a position `[1]`, each once, and answers with logits.
    pub(crate) fn prepare(
        method: &str,
        plan: &ExecutionPlan,
        instructions: &InstructionList,
        graph: &mut ir::Graph,
    ) -> Result<Self> {
        let fail = |reason: &str| Err(Error::Unsupported { method: method.to_owned(), reason: reason.to_owned() });
        let (Some((inputs, outputs)), [_]) = (instructions.only_call(), plan.delegates.as_slice()) else {
            return fail("does more than call its delegate, so it cannot choose tokens on the GPU");
        };
        let (&[tokens, position], &[logits]) = (plan.inputs.as_slice(), plan.outputs.as_slice()) else {
            return fail("must take tokens and a position and give logits to choose tokens");
        };
        let [tokens, position] = match inputs {
            _ if tokens == position => return fail("has tokens and position in one input, so it cannot choose tokens"),
            [first, second] if (*first, *second) == (tokens, position) => [0, 1],
            [first, second] if (*first, *second) == (position, tokens) => [1, 0],
            _ => return fail("must pass tokens and position to its delegate, each once and nothing else, to choose tokens"),
        };
        // An output that is written twice is what was written last.
        let Some(logits) = outputs.iter().rposition(|&output| output == logits) else {
            return fail("gives something its delegate does not compute, so there are no logits to choose a token from");
        };
        if let Err(reason) = check_signature(graph, tokens, position, logits) {
            return fail(&reason);
        }
        let integers = |dims: &[u32]| [ir::Tensor::new(DataType::Int32, dims)];
        let operator = (&sample_row::DEF, sample_row::NAME);
        let appended = graph.append_call(operator, logits, &integers(&[4]), &integers(&[1, 1]));
        match appended.as_ref().map(|appended| (appended.inputs.as_slice(), appended.outputs.as_slice())) {
            Some((&[sampling], &[chosen])) => Ok(Self { tokens, position, sampling, chosen }),
            _ => fail("has no logits to choose a token from"),
        }
    }

    /// Whether the token that one step chose can be what the next begins with.
    pub(crate) fn check(&self, method: &str, graph: &Graph) -> Result<()> {
        let tokens = graph.inputs.get(self.tokens);
        let on_host = tokens.is_some_and(|tokens| graph.nodes.iter().any(|node| node.flow.host_reads.contains(tokens)));
        if on_host || graph.inputs.len() != 3 || self.sampling != 2 {
            let reason = "needs its tokens on the host before it runs, so it cannot choose them on the GPU".to_owned();
            return Err(Error::Unsupported { method: method.to_owned(), reason });
        }
        Ok(())
    }

    /// What a plain call, whose logits go to the host, passes where a choice is described. It brings tokens of its own.
    pub(crate) fn for_plain_call() -> Input<'static> {
        no_choice()
    }

    /// The token that each step feeds back.
    pub(crate) fn feedback(&self) -> Feedback {
        Feedback { output: self.chosen, input: self.tokens }
    }
}

/// Whether a delegate's tokens, position and logits are what a step passes and reads.
fn check_signature(graph: &ir::Graph, tokens: usize, position: usize, logits: usize) -> Result<(), String> {
    let (&[first, second], Some(&logits)) = (graph.inputs.as_slice(), graph.outputs.get(logits)) else {
        return Err(format!("has a delegate with {} inputs, two are needed to choose tokens", graph.inputs.len()));
    };
    if first == second || graph.inputs.contains(&logits) {
        return Err("has a delegate whose inputs or outputs are the same tensor, so it cannot choose tokens".to_owned());
    }
    let tensor = |id: Option<&ir::ValueId>| id.and_then(|&id| graph.value(id)).and_then(ir::Value::as_tensor);
    let number = |name: &str, index: usize, fits: fn(&[u32]) -> bool, allowed: &str| {
        let Some(tensor) = tensor(graph.inputs.get(index)) else { return Err(format!("has {name} that are no tensor")) };
        let whole = matches!(tensor.dtype, DataType::Int32 | DataType::Int64);
        match whole && fits(&tensor.dims) {
            true => Ok(()),
            false => Err(format!(
                "takes {name} as {} {:?}, integers {allowed} are needed to choose tokens",
                tensor.dtype.name(),
                tensor.dims
            )),
        }
    };
    number("tokens", tokens, |dims| matches!(dims, [1, n] if *n > 0), "[1, n]")?;
    number("a position", position, |dims| matches!(dims, [n] if *n > 0), "[1]")?;
    let Some(logits) = tensor(Some(&logits)) else { return Err("gives logits that are no tensor".to_owned()) };
    let vocabulary = logits.dims.last().copied().filter(|&last| i32::try_from(last).is_ok());
    match vocabulary.filter(|_| logits.element_count().is_some_and(|count| count > 0)) {
        Some(_) => Ok(()),
        None => Err(format!("gives logits of shape {:?}, which have no token to choose", logits.dims)),
    }
}

fn no_choice() -> Input<'static> {
    TensorData::i32(dims(&[4]), &[0; 4]).into()
}

fn dims(shape: &[u32]) -> Dims {
    Dims::new(shape).unwrap_or(Dims::SCALAR)
}

/// A token on its way. Dropping it gives it up; the step runs all the same.
#[derive(Debug)]
pub struct NextToken {
    method: String,
    pending: PendingCall,
}

/// A token that a step chose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChosenToken {
    /// Its id.
    pub id: u32,
    /// Seconds the GPU took for the step, where the device tells.
    pub gpu_seconds: Option<f64>,
}

impl NextToken {
    /// Waits until its step has run, whatever it chose.
    pub(crate) async fn ran(self) -> Result<()> {
        self.pending.wait().await?;
        Ok(())
    }

    /// The token, once its step has run; a step started behind it may still be running.
    ///
    /// # Errors
    /// A device that fails, or logits that are no numbers.
    pub async fn wait(self) -> Result<ChosenToken> {
        let answer = self.pending.wait().await?;
        let token = answer.output.bytes.first_chunk().map_or(-1, |bytes| i32::from_le_bytes(*bytes));
        match u32::try_from(token) {
            Ok(id) => Ok(ChosenToken { id, gpu_seconds: answer.gpu_seconds }),
            Err(_) => {
                let reason = "gave logits that are not numbers, so there is no next token".to_owned();
                Err(Error::Unsupported { method: self.method, reason })
            }
        }
    }
}

impl Method {
    /// Whether it was loaded with [`choose_tokens`](crate::LoadOptions::choose_tokens).
    #[must_use]
    pub fn chooses_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// Whether the state's last step chose a token that the next step can start from.
    #[must_use]
    pub fn has_chosen(&self, state: &State) -> bool {
        let own = |tokens: &TokenLoop| state.delegates.first().is_some_and(|own| own.has_feedback(tokens.tokens));
        self.tokens.as_ref().is_some_and(own)
    }

    /// Starts a step: runs the model on tokens at a position and chooses the next one, all on the GPU, and returns at once.
    ///
    /// # Errors
    /// A method loaded without [`choose_tokens`](crate::LoadOptions::choose_tokens), inputs the method does not take, too many
    /// steps whose tokens have not been read (32), or [`Tokens::Chosen`] on a state that has not run a step.
    pub fn start_token(&self, state: &mut State, tokens: Tokens<'_>, position: u32, choice: Choice) -> Result<NextToken> {
        let ([graph], [own]) = (self.graphs.as_slice(), state.delegates.as_mut_slice()) else {
            return Err(self.chooses_no_tokens());
        };
        self.start_on(graph, own, tokens, position, choice)
    }

    fn chooses_no_tokens(&self) -> Error {
        Error::Unsupported { method: self.name.clone(), reason: "was not loaded to choose tokens".to_owned() }
    }

    /// The same on a graph and a state that need not be the method's own.
    pub(crate) fn start_on(
        &self,
        graph: &LoadedGraph,
        own: &mut engine::State,
        tokens: Tokens<'_>,
        position: u32,
        choice: Choice,
    ) -> Result<NextToken> {
        let fail = |reason: String| Err(Error::Unsupported { method: self.name.clone(), reason });
        let Some(token_loop) = &self.tokens else { return Err(self.chooses_no_tokens()) };
        let narrow = |token: &u32| i32::try_from(*token);
        let given = if let Tokens::Given(given) = tokens { given } else { &[] };
        let Ok(given) = given.iter().map(narrow).collect::<Result<Vec<i32>, _>>() else {
            return fail("was given a token that is no 31-bit number".to_owned());
        };
        let Ok(position) = i32::try_from(position) else { return fail(format!("was given position {position}, too far")) };
        let (position, choice) = ([position], choice.words());
        let mut inputs = [no_choice(), no_choice(), no_choice()];
        inputs[token_loop.tokens] = match tokens {
            Tokens::Given(_) => {
                let count = u32::try_from(given.len()).unwrap_or(u32::MAX);
                TensorData::i32(dims(&[1, count]), &given).into()
            }
            Tokens::Chosen => Input::Feedback(dims(&[1, 1])),
        };
        inputs[token_loop.position] = TensorData::i32(dims(&[1]), &position).into();
        inputs[token_loop.sampling] = TensorData::i32(dims(&[4]), &choice).into();
        let pending = graph.start(own, &inputs, token_loop.chosen).map_err(|error| match error {
            pteron_gpu::Error::Input { index, reason } => {
                let index = usize::from(index == token_loop.position);
                Error::Input { method: self.name.clone(), index, reason }
            }
            other => other.into(),
        })?;
        Ok(NextToken { method: self.name.clone(), pending })
    }
}
