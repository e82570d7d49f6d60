//! The report of `inspect`. The text and the JSON are two renderings of it.
//!
//! The names of the fields are the JSON's and are part of the command's interface: fields may be added; a change of meaning
//! raises [`VERSION`]. Sizes are in bytes. Shapes are upper bounds.

use serde::Serialize;

/// The version of these fields.
pub(super) const VERSION: u32 = 1;
/// The number of largest constants to list unless all are requested.
pub(super) const LARGEST: usize = 5;

/// A program.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// [`VERSION`].
    pub(super) report_version: u32,
    /// The path on the command line.
    pub(super) file: String,
    /// The file's size.
    pub(super) bytes: u64,
    /// The fixed fields at the start.
    pub(super) header: Header,
    /// Methods that compute.
    pub(super) methods: Vec<Method>,
    /// Methods that return a constant.
    pub(super) constant_methods: Vec<ConstantMethod>,
    /// Delegates, each once even if methods share it.
    pub(super) delegates: Vec<Delegate>,
    /// Weights and other constants.
    pub(super) constants: Constants,
    /// Tensors that live across calls or are written in place, equal ones together.
    pub(super) caches: Vec<Caches>,
    /// Memory needed at the largest shapes.
    pub(super) memory: Memory,
    /// Constants outside the file.
    pub(super) external: External,
    /// Operators that this build lacks.
    pub(super) support: Support,
}

/// The fixed fields at the start of the file.
#[derive(Debug, Serialize)]
pub(super) struct Header {
    /// The file identifier.
    pub(super) identifier: &'static str,
    /// The program's schema version.
    pub(super) schema_version: u32,
    /// The length of the extended header; null if there is none.
    pub(super) extended_bytes: Option<u64>,
    /// The size of the tables, header included.
    pub(super) tables_bytes: u64,
    /// How many segments follow the tables.
    pub(super) segments: usize,
    /// The size of all segments.
    pub(super) segments_bytes: u64,
}

/// A method that computes.
#[derive(Debug, Serialize)]
pub(super) struct Method {
    /// Its name.
    pub(super) name: String,
    /// Its inputs.
    pub(super) inputs: Vec<Argument>,
    /// Its outputs.
    pub(super) outputs: Vec<Argument>,
    /// Which of the report's delegates it calls, in order.
    pub(super) delegate_calls: Vec<usize>,
    /// Portable kernels it calls outside the delegates, most frequent first.
    pub(super) kernels: Vec<OperatorCount>,
    /// The GPU graphs that its delegates and kernels are joined into; 1 for nearly every method, 0 if it cannot run.
    pub(super) gpu_graphs: usize,
    /// The operator calls in those graphs, before any is fused.
    pub(super) gpu_calls: usize,
    /// Kernels that run on the host, between two graphs.
    pub(super) host_kernels: Vec<OperatorCount>,
    /// All its instructions.
    pub(super) instructions: usize,
    /// The memory the program plans for it outside the delegates.
    pub(super) planned_bytes: u64,
}

/// An input or output of a method.
#[derive(Debug, Serialize)]
pub(super) struct Argument {
    /// `tensor`, `int`, `float`, `bool`, `string`, `none` or a list of these.
    pub(super) kind: &'static str,
    /// Type and shape of a tensor.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) tensor: Option<ArgumentTensor>,
}

/// A tensor that a method takes or returns.
#[derive(Debug, Serialize)]
pub(super) struct ArgumentTensor {
    /// Its name in the module, where the file has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// Element type.
    pub(super) dtype: &'static str,
    /// Sizes, or their upper bounds.
    pub(super) shape: Vec<u32>,
    /// `static`: the sizes are the sizes; `bound`: they may be smaller; `unbound`: nothing is known.
    pub(super) dynamism: &'static str,
    /// Size at the largest shape.
    pub(super) bytes: u64,
}

/// A method that returns a constant.
#[derive(Debug, Serialize)]
pub(super) struct ConstantMethod {
    /// Its name.
    pub(super) name: String,
    /// The constant.
    pub(super) value: Literal,
}

/// A constant in JSON.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Literal>),
    Tensor {
        dtype: &'static str,
        shape: Vec<u32>,
        /// The elements, if there are few.
        elements: Option<Vec<Literal>>,
    },
}

/// A part of a program lowered for a backend.
#[derive(Debug, Serialize)]
pub(super) struct Delegate {
    /// The backend's name.
    pub(super) backend: String,
    /// The methods that have it, and as which of their delegates.
    pub(super) used_by: Vec<Use>,
    /// The size of its data, constants in the file's named data not included.
    pub(super) bytes: u64,
    /// Compile options.
    pub(super) options: Vec<CompileOption>,
    /// Its graph, if it is for Vulkan or XNNPACK. An XNNPACK node is a call, and its kind the operator.
    pub(super) graph: Option<Graph>,
    /// Figures that only a graph for XNNPACK has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) xnnpack: Option<Xnnpack>,
}

/// Numbers of an XNNPACK graph.
#[derive(Debug, Serialize)]
pub(super) struct Xnnpack {
    /// Values by element type, most frequent first.
    pub(super) dtypes: Vec<OperatorCount>,
    /// Quantised values by the kind of their scales (`per tensor`, `per channel`, `per token`, `per group`), most frequent first.
    pub(super) quantization: Vec<OperatorCount>,
    /// Weights, biases and lists of scales.
    pub(super) constants: usize,
    /// Their size.
    pub(super) constants_bytes: u64,
}

/// A method's delegate.
#[derive(Debug, Serialize)]
pub(super) struct Use {
    /// The method.
    pub(super) method: String,
    /// Its index among the method's delegates.
    pub(super) index: usize,
}

/// A compile option of a delegate.
#[derive(Debug, Serialize)]
pub(super) struct CompileOption {
    /// The option.
    pub(super) key: String,
    /// Its value, decoded where the encoding is known, otherwise bytes in hexadecimal.
    pub(super) value: Literal,
}

/// A delegate's graph.
#[derive(Debug, Serialize)]
pub(super) struct Graph {
    /// The exporter's schema version.
    pub(super) version: String,
    /// Operator calls.
    pub(super) calls: usize,
    /// Values: tensors, numbers, lists.
    pub(super) values: usize,
    /// Values that come in.
    pub(super) inputs: usize,
    /// Values that go out.
    pub(super) outputs: usize,
    /// Operators by number of calls, most frequent first.
    pub(super) operators: Vec<OperatorCount>,
    /// Memory objects the exporter planned.
    pub(super) memory_objects: usize,
    /// Tensors that are computed, sharing memory as planned: the largest tensor of each object.
    pub(super) activations_bytes: u64,
    /// The same without sharing: all of them added up.
    pub(super) activations_unshared_bytes: u64,
}

/// How often an operator is called.
#[derive(Debug, Serialize)]
pub(super) struct OperatorCount {
    /// The operator.
    pub(super) name: String,
    /// The number of calls.
    pub(super) count: usize,
}

/// The program's constants.
#[derive(Debug, Serialize)]
pub(super) struct Constants {
    /// How many there are, equal ones counted each time.
    pub(super) count: usize,
    /// Their size, equal ones counted each time.
    pub(super) bytes: u64,
    /// How many different ones there are.
    pub(super) unique_count: usize,
    /// Their size, each once.
    pub(super) unique_bytes: u64,
    /// The largest.
    pub(super) largest: Vec<Constant>,
}

/// A constant.
#[derive(Debug, Serialize)]
pub(super) struct Constant {
    /// Its size.
    pub(super) bytes: u64,
    /// Element type, if a tensor has it.
    pub(super) dtype: Option<&'static str>,
    /// Sizes, if a tensor has it.
    pub(super) shape: Option<Vec<u32>>,
    /// The operator or method that uses it first.
    pub(super) used_by: Option<String>,
    /// How many constants are this one.
    pub(super) copies: usize,
    /// `program`, `delegate` or `external`.
    pub(super) place: &'static str,
    /// Its key.
    pub(super) key: Option<String>,
}

/// Equal tensors that live across calls or are written in place.
#[derive(Debug, Serialize)]
pub(super) struct Caches {
    /// `kv_cache` if attention or a cache update writes it, otherwise `state`.
    pub(super) kind: &'static str,
    /// Whether the caller passes it in; otherwise it lives with the method.
    pub(super) is_input: bool,
    /// How many there are.
    pub(super) count: usize,
    /// Element type.
    pub(super) dtype: &'static str,
    /// Sizes.
    pub(super) shape: Vec<u32>,
    /// The size of one.
    pub(super) bytes_each: u64,
    /// The size of all.
    pub(super) bytes: u64,
    /// Operators that write it in place.
    pub(super) written_by: Vec<String>,
}

/// Memory needed at the largest shapes.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    /// Each different constant once.
    pub(super) constants_bytes: u64,
    /// KV caches and other state of the delegates, one buffer per tensor.
    pub(super) state_bytes: u64,
    /// Computed tensors of the delegates, sharing memory as the file plans it.
    pub(super) activations_bytes: u64,
    /// The same without sharing. Not part of the total.
    pub(super) activations_unshared_bytes: u64,
    /// Inputs, outputs and tensors outside the delegates, as the program plans them.
    pub(super) host_bytes: u64,
    /// Constants, state, activations as planned and host memory.
    pub(super) total_bytes: u64,
}

/// Constants outside the file.
#[derive(Debug, Serialize)]
pub(super) struct External {
    /// The keys the program refers to and does not hold.
    pub(super) needed: Vec<ExternalKey>,
    /// Their size.
    pub(super) bytes: u64,
    /// The files that were given.
    pub(super) files: Vec<String>,
    /// Whether the files were checked to have every key at its length.
    pub(super) verified: bool,
}

/// A key that external data must have.
#[derive(Debug, Serialize)]
pub(super) struct ExternalKey {
    /// The key.
    pub(super) key: String,
    /// The length it must have.
    pub(super) bytes: u64,
}

/// Operators of a program that this build lacks.
#[derive(Debug, Serialize)]
pub(super) struct Support {
    /// The operators, kernels and delegates that it cannot run, sorted.
    pub(super) unsupported: Vec<String>,
    /// The number of their calls in all methods, in the same order.
    pub(super) unsupported_calls: Vec<usize>,
    /// Other reasons why methods cannot run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) refused: Vec<String>,
}
