//! Options for loading a method.

use pteron_format::ScalarType;
use pteron_gpu::engine::{Feedback, OnProgress, Precision, StateDtype};
use pteron_gpu::fuse::Fusions;
use pteron_gpu::sequences::SequenceOptions;
use pteron_gpu::tuning::Tuning;

use crate::tensor::Tensor;

/// Options for loading a method. Start from the default and change individual options:
///
/// ```
/// use pteron::{LoadOptions, Precision};
///
/// let options = LoadOptions::default().with_precision(Precision::Fast).with_memory_budget(4 << 30);
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Largest shapes of the inputs, by index, where they should be smaller than the file's: less memory, same outputs.
    pub input_bounds: Vec<Option<Vec<u32>>>,
    /// Bytes of GPU memory that the method may use: constants and activations of its graphs, and its states, of which at
    /// least one must fit. The default is the device's memory, where that is known.
    pub memory_budget: Option<u64>,
    /// Bytes of host memory that a state's own tensors, or the values of a call between graphs, may use. The default is
    /// the size of the files plus 1 GiB.
    pub host_memory_budget: Option<u64>,
    /// Receives loading progress, summed over all graphs.
    pub progress: Option<OnProgress>,
    /// Which operators are fused; by default all that can be. Outputs stay the same.
    pub fusions: Fusions,
    /// The precision of matrix products.
    pub precision: Precision,
    /// Which of several kernels for the same plan run.
    pub tuning: Tuning,
    /// The element type of mutable tensors; by default 16-bit floats with [`Precision::Fast`] where the GPU has them.
    pub state_dtype: StateDtype,
    /// Outputs `[1, rows, columns]` of which only the last row is returned, and computed where possible, by index. The method must be
    /// one graph.
    pub last_rows: Vec<usize>,
    /// An output, by index, in the place of which the rows are returned from which its columns are computed: the hidden states that the
    /// last linear of a decoder reads, where the output is its logits. The method must be one graph.
    pub hidden_states: Option<usize>,
    /// Sizes of calls with rows of many sequences, for which the method's graph is rewritten; see [`Method::work_list`](crate::Method::work_list).
    /// The method must be one graph.
    pub sequences: Option<SequenceOptions>,
    /// Operators appended to the method's graph. The method must be one graph, and read each of its inputs.
    pub appended: Vec<AppendedOp>,
    /// Outputs that each call feeds back into inputs of the next call on the same state, by index of the method's outputs and
    /// inputs, those of appended operators included.
    pub feedback: Vec<Feedback>,
    /// Fills all constants with pseudo-random numbers from a seed instead of the files' bytes: to measure the speed of
    /// programs whose constants are zeros, which compress well.
    pub random_constants: Option<u64>,
    /// How many calls may be in flight at once; see [`Method::start`](crate::Method::start).
    pub max_in_flight: usize,
}

impl LoadOptions {
    /// No fusions, 32-bit floats throughout: the reference that faster options are compared with.
    #[must_use]
    pub fn exact() -> Self {
        Self { fusions: Fusions::NONE, precision: Precision::Full, state_dtype: StateDtype::F32, ..Self::default() }
    }

    /// Sets the largest shapes of the inputs, by index.
    #[must_use]
    pub fn with_input_bounds(self, input_bounds: Vec<Option<Vec<u32>>>) -> Self {
        Self { input_bounds, ..self }
    }

    /// Sets the bytes of GPU memory that the method may use.
    #[must_use]
    pub fn with_memory_budget(self, bytes: impl Into<Option<u64>>) -> Self {
        Self { memory_budget: bytes.into(), ..self }
    }

    /// Sets the bytes of host memory that the method may use.
    #[must_use]
    pub fn with_host_memory_budget(self, bytes: impl Into<Option<u64>>) -> Self {
        Self { host_memory_budget: bytes.into(), ..self }
    }

    /// Returns only the last row of an output `[1, rows, columns]`, such as the logits of the last token.
    #[must_use]
    pub fn last_row(mut self, output: usize) -> Self {
        self.last_rows.push(output);
        self
    }

    /// Returns, in the place of an output, the rows from which its columns are computed: hidden states in the place of logits.
    #[must_use]
    pub fn with_hidden_states(self, output: impl Into<Option<usize>>) -> Self {
        Self { hidden_states: output.into(), ..self }
    }

    /// Rewrites the method's graph for calls with rows of many sequences.
    #[must_use]
    pub fn with_sequences(self, sequences: impl Into<Option<SequenceOptions>>) -> Self {
        Self { sequences: sequences.into(), ..self }
    }

    /// Sets the function that receives progress.
    #[must_use]
    pub fn with_progress(self, progress: impl Into<Option<OnProgress>>) -> Self {
        Self { progress: progress.into(), ..self }
    }

    /// Sets which operators are fused.
    #[must_use]
    pub fn with_fusions(self, fusions: Fusions) -> Self {
        Self { fusions, ..self }
    }

    /// Sets the precision of matrix products.
    #[must_use]
    pub fn with_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// Sets which of several kernels run.
    #[must_use]
    pub fn with_tuning(self, tuning: Tuning) -> Self {
        Self { tuning, ..self }
    }

    /// Sets the element type of mutable tensors.
    #[must_use]
    pub fn with_state_dtype(self, state_dtype: StateDtype) -> Self {
        Self { state_dtype, ..self }
    }

    /// Appends an operator to the method's graph.
    #[must_use]
    pub fn append(mut self, operator: AppendedOp) -> Self {
        self.appended.push(operator);
        self
    }

    /// Feeds an output back into an input of the next call.
    #[must_use]
    pub fn feed_back(mut self, output: usize, input: usize) -> Self {
        self.feedback.push(Feedback { output, input });
        self
    }

    /// Sets the seed of pseudo-random constants.
    #[must_use]
    pub fn with_random_constants(self, seed: impl Into<Option<u64>>) -> Self {
        Self { random_constants: seed.into(), ..self }
    }

    /// Sets how many calls may be in flight at once.
    #[must_use]
    pub fn with_max_in_flight(self, max_in_flight: usize) -> Self {
        Self { max_in_flight, ..self }
    }
}

/// An operator that is appended to a method's graph at load. It reads one output of the method, then new inputs, and writes new
/// outputs; both follow the method's own in order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AppendedOp {
    /// The operator's name, such as `aten.neg.default`.
    pub operator: String,
    /// The output that it reads, by index of the method's outputs, those of operators appended before included.
    pub output: usize,
    /// The new inputs, with the default value of each.
    pub inputs: Vec<Tensor>,
    /// Whether a call may give new inputs of smaller shapes than their default values have.
    pub dynamic: bool,
    /// Element types and shapes of the new outputs.
    pub outputs: Vec<(ScalarType, Vec<u32>)>,
}

impl AppendedOp {
    /// Creates an operator that reads an output of the method.
    pub fn new(operator: impl Into<String>, output: usize) -> Self {
        Self { operator: operator.into(), output, inputs: Vec::new(), dynamic: false, outputs: Vec::new() }
    }

    /// Adds an input with its default value.
    #[must_use]
    pub fn input(mut self, default: Tensor) -> Self {
        self.inputs.push(default);
        self
    }

    /// Allows calls with inputs of smaller shapes than their default values have.
    #[must_use]
    pub fn with_dynamic_inputs(self) -> Self {
        Self { dynamic: true, ..self }
    }

    /// Adds an output.
    #[must_use]
    pub fn output(mut self, scalar_type: ScalarType, shape: &[u32]) -> Self {
        self.outputs.push((scalar_type, shape.to_vec()));
        self
    }
}
