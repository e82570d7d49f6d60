//! Hooks into a method that is one graph: appended operators, feedback, and calls that are started without waiting.

use pteron_format::ScalarType;
use pteron_format::program::ExecutionPlan;
use pteron_gpu::engine::{self, Feedback, FirstElements, Input, LoadedGraph};
use pteron_gpu::frontend::portable::data_type;
use pteron_gpu::graph::DecodedGraph;
use pteron_gpu::ir;
use pteron_gpu::ops;
use pteron_gpu::sequences::SequenceInputs;
use pteron_gpu::shape::Dims;

use crate::conversion::{from_gpu, to_gpu};
use crate::error::{Error, Result};
use crate::interpreter::InstructionList;
use crate::method::{Method, State};
use crate::options::{AppendedOp, LoadOptions};
use crate::tensor::Tensor;

/// An input of a pipelined call.
#[derive(Clone, Copy, Debug)]
pub enum CallInput<'a> {
    /// A tensor on the host.
    Tensor(&'a Tensor),
    /// The output that the state's last call fed back into this input, read in a shape.
    Feedback(&'a [u32]),
}

/// How the inputs and outputs of a method, those of appended operators included, map to those of its graph.
#[derive(Debug)]
pub(crate) struct Hooks {
    /// For each input of the graph the index of the method's input.
    pub(crate) inputs: Vec<usize>,
    /// The number of the method's own inputs.
    pub(crate) own: usize,
    /// For each output of the method the index of the graph's output, where the graph computes it, and its type.
    pub(crate) outputs: Vec<(Option<usize>, ScalarType)>,
    /// Default values of appended inputs, and the largest shapes of those whose shape may differ from it.
    pub(crate) defaults: Vec<Tensor>,
    pub(crate) bounds: Vec<Option<Vec<u32>>>,
    /// The inputs for rows of many sequences, by index of the graph's inputs.
    pub(crate) sequences: Option<SequenceInputs>,
    /// Names of appended operators.
    pub(crate) appended: Vec<String>,
}

impl Hooks {
    /// Appends operators to a method's graph; `None` if no hook is asked for.
    pub(crate) fn prepare(
        plan: &ExecutionPlan,
        instructions: &InstructionList,
        graph: &mut ir::Graph,
        options: &LoadOptions,
    ) -> Result<Option<Self>> {
        let hooked = !options.appended.is_empty() || !options.feedback.is_empty() || !options.last_rows.is_empty();
        let hooked = hooked || options.sequences.is_some() || options.hidden_states.is_some();
        if !hooked && options.max_in_flight == 0 {
            return Ok(None);
        }
        let fail = |reason: &str| Err(Error::Unsupported { method: plan.name.clone(), reason: reason.to_owned() });
        let Some((inputs, outputs)) = instructions.only_graph() else {
            return fail("is more than one graph, so its calls can be neither pipelined nor extended");
        };
        let index_of = |id| plan.inputs.iter().position(|input| *input == id);
        let Some(inputs) = inputs.iter().map(|&id| index_of(id)).collect::<Option<Vec<usize>>>() else {
            return fail("has a graph that takes more than its inputs, so its calls can be neither pipelined nor extended");
        };
        if inputs.len() != plan.inputs.len() {
            return fail("does not read each of its inputs once, so its calls can be neither pipelined nor extended");
        }
        // An output that is written twice has the value of the last write.
        let output = |id| outputs.iter().rposition(|output| output == id);
        let scalar_type =
            |id| plan.value(id).and_then(|value| value.as_tensor()).map_or(ScalarType::Float, |tensor| tensor.scalar_type);
        let outputs = plan.outputs.iter().map(|id| (output(id), scalar_type(*id))).collect();
        let own = plan.inputs.len();
        let (defaults, bounds, appended) = (Vec::new(), Vec::new(), Vec::new());
        let mut hooks = Self { inputs, own, outputs, defaults, bounds, sequences: None, appended };
        if let Some(output) = options.hidden_states {
            let own = hooks.outputs.get(output).and_then(|(output, _)| *output);
            if !own.map_or(Ok(false), |output| graph.keep_hidden_states(output))? {
                return fail("has no such output that it computes from hidden states");
            }
        }
        if let Some(sequences) = &options.sequences {
            hooks.add_sequences(graph, sequences)?;
        }
        for &output in &options.last_rows {
            if let Some((Some(output), _)) = hooks.outputs.get(output) {
                graph.keep_last_row(*output);
            }
        }
        for operator in &options.appended {
            hooks.append(&plan.name, graph, operator)?;
        }
        Ok(Some(hooks))
    }

    fn append(&mut self, method: &str, graph: &mut ir::Graph, appended: &AppendedOp) -> Result<()> {
        let name = &appended.operator;
        let unsupported = |reason: String| Error::Unsupported { method: method.to_owned(), reason };
        let fail = |reason: String| Err(unsupported(reason));
        let Some((def, name)) =
            ops::find(name).and_then(|def| Some((def, *def.names.iter().find(|known| **known == name.as_str())?)))
        else {
            return fail(format!("cannot be extended by {name}: there is no such operator"));
        };
        let Some(output) = self.outputs.get(appended.output).and_then(|(output, _)| *output) else {
            return fail(format!("cannot be extended by {name}: its graph does not compute output {}", appended.output));
        };
        let read = graph.outputs.get(output).and_then(|&id| graph.value(id)).and_then(ir::Value::as_tensor);
        if read.and_then(ir::Tensor::element_count).is_none_or(|count| count == 0) {
            return fail(format!("cannot be extended by {name}: output {} has no elements", appended.output));
        }
        let tensor = |scalar_type: ScalarType, shape: &[u32]| {
            let reason = || format!("cannot be extended by {name} with {}", scalar_type.name());
            let dtype = data_type(scalar_type);
            dtype.map(|dtype| ir::Tensor::new(dtype, shape)).ok_or_else(|| unsupported(reason()))
        };
        let inputs =
            appended.inputs.iter().map(|input| tensor(input.scalar_type(), input.shape())).collect::<Result<Vec<_>>>()?;
        let outputs = appended.outputs.iter().map(|(dtype, shape)| tensor(*dtype, shape)).collect::<Result<Vec<_>>>()?;
        let Some(added) = graph.append_call((def, name), output, &inputs, &outputs) else {
            return fail(format!("cannot be extended by {name}: its graph has no output {output}"));
        };
        self.appended.push(name.to_owned());
        let first = self.own + self.defaults.len();
        self.inputs.extend(first..first + added.inputs.len());
        self.defaults.extend(appended.inputs.iter().cloned());
        self.bounds.extend(appended.inputs.iter().map(|input| appended.dynamic.then(|| input.shape().to_vec())));
        self.outputs.extend(added.outputs.iter().zip(&appended.outputs).map(|(&output, (dtype, _))| (Some(output), *dtype)));
        Ok(())
    }

    /// Checks that decoding has kept the graph's inputs.
    pub(crate) fn check(&self, method: &str, graph: &DecodedGraph) -> Result<()> {
        if graph.inputs.len() == self.inputs.len() {
            return Ok(());
        }
        let reason = "has a graph whose inputs are the same tensor, so its calls can be neither pipelined nor extended";
        Err(Error::Unsupported { method: method.to_owned(), reason: reason.to_owned() })
    }

    /// The feedback of a method in terms of its graph.
    pub(crate) fn feedback(&self, method: &str, feedback: &[Feedback]) -> Result<Vec<Feedback>> {
        let resolve = |&Feedback { output, input }: &Feedback| {
            let from = self.outputs.get(output).and_then(|(output, _)| *output);
            match (from, self.graph_input(input)) {
                (Some(output), Some(input)) => Ok(Feedback { output, input }),
                _ => {
                    let reason =
                        format!("cannot feed output {output} back to input {input}: its graph has no such output or input");
                    Err(Error::Unsupported { method: method.to_owned(), reason })
                }
            }
        };
        feedback.iter().map(resolve).collect()
    }

    /// Default values of appended inputs, which follow the method's own.
    pub(crate) fn default_inputs(&self, fail: impl Fn(String) -> Error + Copy) -> Result<Vec<Input<'_>>> {
        self.defaults.iter().map(|tensor| to_gpu(tensor, fail).map(Input::Data)).collect()
    }

    pub(crate) fn graph_input(&self, input: usize) -> Option<usize> {
        self.inputs.iter().position(|&own| own == input)
    }
}

/// A call in flight. Dropping it discards its output; the call still runs.
#[derive(Debug)]
pub struct PendingCall {
    pending: engine::PendingCall,
    scalar_type: ScalarType,
    /// The type of the second output.
    second: ScalarType,
}

/// The output of a pipelined call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallOutput {
    /// The requested output.
    pub tensor: Tensor,
    /// The first elements of a second output, of one dimension, if the call was started [with them](Method::start_with_first).
    pub first_elements: Option<Tensor>,
    /// Seconds that the GPU took, if the device has timestamps.
    pub gpu_seconds: Option<f64>,
}

impl PendingCall {
    /// Waits for the call's output; calls started later may still be in flight.
    ///
    /// Natively the future blocks the thread that polls it until the call has run; in a browser it never does.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn wait(self) -> Result<CallOutput> {
        let readback = self.pending.wait().await?;
        let first_elements = readback.first_elements.map(|first| from_gpu(self.second, first)).transpose()?;
        let tensor = from_gpu(self.scalar_type, readback.output)?;
        Ok(CallOutput { tensor, first_elements, gpu_seconds: readback.gpu_seconds })
    }
}

impl Method {
    /// The names of the operators that were [appended](LoadOptions::append) to it.
    #[must_use]
    pub fn appended(&self) -> &[String] {
        self.hooks.as_ref().map_or(&[], |hooks| &hooks.appended)
    }

    /// Whether the last call on a state fed a value back into an input, so that the next may take it as
    /// [`CallInput::Feedback`].
    #[must_use]
    pub fn has_feedback(&self, state: &State, input: usize) -> bool {
        let graph_input = self.hooks.as_ref().and_then(|hooks| hooks.graph_input(input));
        graph_input.zip(state.graphs.first()).is_some_and(|(input, own)| own.has_feedback(input))
    }

    /// Starts a call and returns at once. Inputs are the method's, then those of appended operators; `read` is the output that
    /// [`PendingCall::wait`] returns, counted in the same way. Calls run in the order in which they are started, also across
    /// states.
    ///
    /// # Errors
    /// A method loaded without [`max_in_flight`](LoadOptions::max_in_flight), inputs it does not take, as many calls in flight as
    /// it was loaded for, or [`CallInput::Feedback`] before any call of the state.
    pub fn start(&self, state: &mut State, inputs: &[CallInput<'_>], read: usize) -> Result<PendingCall> {
        let graph = self.graphs.first().ok_or_else(|| self.not_pipelined())?;
        self.start_on(graph, state, inputs, read)
    }

    /// Starts a call as [`start`](Self::start) does, and reads back also the first `count` elements of the output `second`.
    ///
    /// # Errors
    /// As [`start`](Self::start); no elements, or more than the output has.
    pub fn start_with_first(
        &self,
        state: &mut State,
        inputs: &[CallInput<'_>],
        read: usize,
        (second, count): (usize, u64),
    ) -> Result<PendingCall> {
        let (Some(hooks), [own], Some(graph)) = (&self.hooks, state.graphs.as_mut_slice(), self.graphs.first()) else {
            return Err(self.not_pipelined());
        };
        let (read, scalar_type) = self.output_to_read(hooks, read)?;
        let (output, second) = self.output_to_read(hooks, second)?;
        let views = self.views(hooks, inputs)?;
        let pending = graph.start_with_first(own, &views, read, FirstElements { output, count });
        let pending = pending.map_err(|failed| self.input_error(hooks, failed))?;
        Ok(PendingCall { pending, scalar_type, second })
    }

    /// The index of an output in the graph, and its type.
    fn output_to_read(&self, hooks: &Hooks, read: usize) -> Result<(usize, ScalarType)> {
        match hooks.outputs.get(read) {
            Some(&(Some(output), scalar_type)) => Ok((output, scalar_type)),
            _ => Err(Error::Misuse(format!("method {:?} has no output {read} to read back", self.name))),
        }
    }

    /// Names the method's input in the place of the graph's.
    fn input_error(&self, hooks: &Hooks, failed: pteron_gpu::Error) -> Error {
        match failed {
            pteron_gpu::Error::Input { index, reason } => {
                let index = hooks.inputs.get(index).copied().unwrap_or(index);
                Error::Input { method: self.name.clone(), index, reason }
            }
            other => other.into(),
        }
    }

    /// Starts calls on one state, which run in order, with one submission where they can: a call takes the output that the one before
    /// feeds back, and otherwise differs from it little. Returns the calls that were started, at least one; the others, among them
    /// those that would be rejected, are left to the caller.
    ///
    /// # Errors
    /// As [`start`](Self::start), for the first call, or inputs of another one that are not the method's; nothing is started then.
    pub fn start_group(&self, state: &mut State, calls: &[Vec<CallInput<'_>>], read: usize) -> Result<Vec<PendingCall>> {
        let graph = self.graphs.first().ok_or_else(|| self.not_pipelined())?;
        self.start_group_on(graph, state, calls, read)
    }

    fn not_pipelined(&self) -> Error {
        Error::Misuse(format!("method {:?} was not loaded for pipelined calls; set `max_in_flight`", self.name))
    }

    /// Starts a call on a graph whose constants may still be uploading.
    pub(crate) fn start_on(
        &self,
        graph: &LoadedGraph,
        state: &mut State,
        inputs: &[CallInput<'_>],
        read: usize,
    ) -> Result<PendingCall> {
        let mut started = self.start_group_on(graph, state, &[inputs.to_vec()], read)?;
        started.pop().ok_or_else(|| self.not_pipelined())
    }

    fn start_group_on(
        &self,
        graph: &LoadedGraph,
        state: &mut State,
        calls: &[Vec<CallInput<'_>>],
        read: usize,
    ) -> Result<Vec<PendingCall>> {
        let (Some(hooks), [own]) = (&self.hooks, state.graphs.as_mut_slice()) else { return Err(self.not_pipelined()) };
        let (output, scalar_type) = self.output_to_read(hooks, read)?;
        let views = calls.iter().map(|inputs| self.views(hooks, inputs)).collect::<Result<Vec<_>>>()?;
        let views: Vec<&[Input<'_>]> = views.iter().map(Vec::as_slice).collect();
        let pending = graph.start_group(own, &views, output).map_err(|failed| self.input_error(hooks, failed))?;
        Ok(pending.into_iter().map(|pending| PendingCall { pending, scalar_type, second: scalar_type }).collect())
    }

    /// The inputs of a call in the order of the graph.
    pub(crate) fn views<'a>(&self, hooks: &Hooks, inputs: &[CallInput<'a>]) -> Result<Vec<Input<'a>>> {
        let error = |index, reason| Error::Input { method: self.name.clone(), index, reason };
        engine::check_input_count(inputs.len(), hooks.own + hooks.defaults.len(), error)?;
        let mut views = Vec::with_capacity(inputs.len());
        for &index in &hooks.inputs {
            views.push(match inputs[index] {
                CallInput::Tensor(tensor) => {
                    self.check_input(hooks, index, tensor)?;
                    Input::Data(to_gpu(tensor, |reason| error(index, reason))?)
                }
                CallInput::Feedback(shape) => {
                    Input::Feedback(Dims::new(shape).ok_or_else(|| error(index, "has too many dimensions".to_owned()))?)
                }
            });
        }
        Ok(views)
    }

    fn check_input(&self, hooks: &Hooks, index: usize, tensor: &Tensor) -> Result<()> {
        let default = index.checked_sub(self.inputs.len()).and_then(|appended| hooks.defaults.get(appended));
        let Some(default) = default else { return self.check_spec(index, tensor) };
        let bound = hooks.bounds.get(index - self.inputs.len()).and_then(Option::as_ref);
        let fits = bound.map_or(tensor.shape() == default.shape(), |bound| {
            bound.len() == tensor.shape().len() && tensor.shape().iter().zip(bound).all(|(live, most)| live <= most)
        });
        if tensor.scalar_type() == default.scalar_type() && fits {
            return Ok(());
        }
        let (given, needed) = (tensor.scalar_type().name(), default.scalar_type().name());
        let reason = format!("is {given} {:?}, but the operator takes {needed} {:?}", tensor.shape(), default.shape());
        Err(Error::Input { method: self.name.clone(), index, reason })
    }
}
