//! A graph under construction: calls over tensors and symbolic integers, without ids, storage or memory.

use crate::template::ConstantData;

/// A tensor, by its index in [`GraphBuilder::tensors`].
pub(super) type TensorId = usize;

/// A symbolic integer, known only when the graph runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SymInt(usize);

/// The kind of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// Floating-point numbers.
    Float,
    /// Tokens and positions: int64 at the method's border.
    Index,
    /// Two 4-bit numbers.
    Nibbles,
    /// Zero points.
    Int8,
    /// Sums of weights.
    Int32,
}

impl Element {
    /// Returns the element size that the exporter's memory planner uses. It plans before floats become float16 and indices int32.
    pub(super) fn planned_size(self) -> u64 {
        match self {
            Self::Float | Self::Int32 => 4,
            Self::Index => 8,
            Self::Nibbles | Self::Int8 => 1,
        }
    }
}

/// Where a tensor comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A constant that its operators prepack themselves.
    Constant(ConstantData),
    /// A constant that a `prepack` call has copied to the device.
    Prepacked,
    /// A mutable buffer, such as a KV cache.
    State(ConstantData),
    /// An input of the graph.
    Input,
    /// The output of a call.
    Call,
}

/// A tensor.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) element: Element,
    pub(super) sizes: Vec<Size>,
    pub(super) origin: Origin,
}

/// A size of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Fixed(u32),
    /// The number of tokens of a call.
    Tokens,
}

/// Sizes that do not change.
pub(super) fn fixed<const N: usize>(sizes: [u32; N]) -> Vec<Size> {
    sizes.map(Size::Fixed).to_vec()
}

/// An argument.
#[derive(Clone, Debug)]
pub(super) enum Arg {
    Tensor(TensorId),
    SymInt(SymInt),
    Sizes { sizes: Vec<Size>, tokens: SymInt },
    Int(i64),
    Double(f64),
    Bool(bool),
    Ints(Vec<i64>),
    Text(&'static str),
    Null,
}

/// The output of a call.
#[derive(Clone, Debug)]
pub(super) enum CallOutput {
    Tensor(TensorId),
    Tensors(Vec<TensorId>),
    /// The next symbolic integer.
    SymInt,
}

/// The operators of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Prepack,
    SymSize,
    SelectAsSymint,
    AddSymInts,
    Embedding,
    EmbeddingInt4,
    Slice,
    RmsNorm,
    Linear,
    LinearInt4,
    ChooseQparams,
    LinearInt8Int4,
    View,
    Rotary,
    Attention,
    Add,
    Sigmoid,
    Multiply,
    Select,
    Clone,
}

impl Operator {
    /// Returns the operator's name in the file.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Prepack => "et_vk.prepack.default",
            Self::SymSize => "sym_size.int",
            Self::SelectAsSymint => "et_vk.select_as_symint.default",
            Self::AddSymInts => "add",
            Self::Embedding => "aten.embedding.default",
            Self::EmbeddingInt4 => "et_vk.embedding_q4gsw.default",
            Self::Slice => "aten.slice_copy.Tensor",
            Self::RmsNorm => "et_vk.rms_norm.default",
            Self::Linear => "aten.linear.default",
            Self::LinearInt4 => "et_vk.linear_q4gsw.default",
            Self::ChooseQparams => "torchao.choose_qparams_affine.default",
            Self::LinearInt8Int4 => "et_vk.linear_dq8ca_q4gsw.default",
            Self::View => "aten.view_copy.default",
            Self::Rotary => "et_vk.apply_rotary_emb.default",
            Self::Attention => "sdpa_with_kv_cache.default",
            Self::Add => "aten.add.Tensor",
            Self::Sigmoid => "aten.sigmoid.default",
            Self::Multiply => "aten.mul.Tensor",
            Self::Select => "aten.select_copy.int",
            Self::Clone => "aten.clone.default",
        }
    }
}

/// A call: all arguments of the operator's schema in order.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) operator: Operator,
    pub(super) args: Vec<Arg>,
    pub(super) output: CallOutput,
}

impl Call {
    /// Returns the input tensors.
    pub(super) fn inputs(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.args.iter().filter_map(|arg| match arg {
            Arg::Tensor(tensor) => Some(*tensor),
            _ => None,
        })
    }

    /// Returns the output tensors.
    pub(super) fn outputs(&self) -> &[TensorId] {
        match &self.output {
            CallOutput::Tensor(tensor) => std::slice::from_ref(tensor),
            CallOutput::Tensors(tensors) => tensors,
            CallOutput::SymInt => &[],
        }
    }
}

/// A statement of a graph.
#[derive(Clone, Debug)]
pub(super) enum Statement {
    /// A constant or an input.
    Placeholder(TensorId),
    /// A call.
    Call(Call),
}

impl Statement {
    /// Returns the tensors that this statement defines.
    pub(super) fn outputs(&self) -> &[TensorId] {
        match self {
            Self::Placeholder(tensor) => std::slice::from_ref(tensor),
            Self::Call(call) => call.outputs(),
        }
    }
}

/// A graph.
#[derive(Clone, Debug)]
pub(super) struct GraphBuilder {
    /// The longest call in tokens.
    max_call_tokens: u32,
    pub(super) tensors: Vec<Tensor>,
    pub(super) statements: Vec<Statement>,
    pub(super) outputs: Vec<TensorId>,
    sym_ints: usize,
}

impl GraphBuilder {
    /// Creates an empty graph.
    pub(super) fn new(max_call_tokens: u32) -> Self {
        Self { max_call_tokens, tensors: Vec::new(), statements: Vec::new(), outputs: Vec::new(), sym_ints: 0 }
    }

    /// Returns the upper bounds of a tensor's sizes.
    pub(super) fn dims(&self, tensor: TensorId) -> Vec<u32> {
        let bound = |&size: &Size| match size {
            Size::Fixed(size) => size,
            Size::Tokens => self.max_call_tokens,
        };
        self.tensors[tensor].sizes.iter().map(bound).collect()
    }

    /// Adds a constant, a state or an input.
    pub(super) fn placeholder(&mut self, tensor: Tensor) -> TensorId {
        let id = self.add(tensor);
        self.statements.push(Statement::Placeholder(id));
        id
    }

    /// Adds a tensor that a later call defines.
    pub(super) fn add(&mut self, tensor: Tensor) -> TensorId {
        self.tensors.push(tensor);
        self.tensors.len() - 1
    }

    /// Adds a call.
    pub(super) fn call(&mut self, operator: Operator, args: Vec<Arg>, output: CallOutput) {
        self.statements.push(Statement::Call(Call { operator, args, output }));
    }

    /// Adds a call that returns a symbolic integer.
    pub(super) fn sym_int(&mut self, operator: Operator, args: Vec<Arg>) -> SymInt {
        let sym_int = SymInt(self.sym_ints);
        self.sym_ints += 1;
        self.call(operator, args, CallOutput::SymInt);
        sym_int
    }
}

impl SymInt {
    /// Returns its index.
    pub(super) fn index(self) -> usize {
        self.0
    }
}
