//! A graph before it is written down: calls over tensors and sym_ints, without ids, storage or memory.

use crate::template::ConstantData;

/// A tensor, by its place in [`GraphBuilder::tensors`].
pub(super) type TensorId = usize;

/// A number that is known only when the graph runs, in the order of their making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SymInt(usize);

/// What a tensor's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// Floating-point numbers.
    Float,
    /// Tokens and positions: int64 for the caller.
    Index,
    /// Two 4-bit numbers.
    Nibbles,
}

impl Element {
    /// Bytes of one, to the exporter's planner. It plans before numbers are halved and indices narrowed.
    pub(super) fn planned_size(self) -> u64 {
        match self {
            Self::Float => 4,
            Self::Index => 8,
            Self::Nibbles => 1,
        }
    }
}

/// Where a tensor comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Bytes of the file, which the operators that take them bring to the device themselves.
    Constant(ConstantData),
    /// A constant that was brought to the device by a call of its own, and stays there.
    Prepacked,
    /// A constant that calls change, and that outlives them.
    State(ConstantData),
    /// The caller.
    Input,
    /// A call.
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
    /// As many tokens as a call has.
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
    Null,
}

/// What a call makes.
#[derive(Clone, Debug)]
pub(super) enum CallOutput {
    Tensor(TensorId),
    Tensors(Vec<TensorId>),
    /// A number: the next sym_int.
    SymInt,
}

/// The operators of a decoder.
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
    /// Its name in the file.
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
    /// The tensors it takes.
    pub(super) fn inputs(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.args.iter().filter_map(|arg| match arg {
            Arg::Tensor(tensor) => Some(*tensor),
            _ => None,
        })
    }

    /// The tensors it makes.
    pub(super) fn outputs(&self) -> &[TensorId] {
        match &self.output {
            CallOutput::Tensor(tensor) => std::slice::from_ref(tensor),
            CallOutput::Tensors(tensors) => tensors,
            CallOutput::SymInt => &[],
        }
    }
}

/// One line of a graph.
#[derive(Clone, Debug)]
pub(super) enum Statement {
    /// A constant or an input.
    Placeholder(TensorId),
    /// A call.
    Call(Call),
}

impl Statement {
    /// The tensors that are there from this statement on.
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
    /// The most tokens of a call.
    max_call_tokens: u32,
    pub(super) tensors: Vec<Tensor>,
    pub(super) statements: Vec<Statement>,
    pub(super) outputs: Vec<TensorId>,
    sym_ints: usize,
}

impl GraphBuilder {
    /// An empty graph, for calls of so many tokens and fewer.
    pub(super) fn new(max_call_tokens: u32) -> Self {
        Self { max_call_tokens, tensors: Vec::new(), statements: Vec::new(), outputs: Vec::new(), sym_ints: 0 }
    }

    /// The upper bounds of a tensor's sizes.
    pub(super) fn dims(&self, tensor: TensorId) -> Vec<u32> {
        let bound = |&size: &Size| match size {
            Size::Fixed(size) => size,
            Size::Tokens => self.max_call_tokens,
        };
        self.tensors[tensor].sizes.iter().map(bound).collect()
    }

    /// A tensor that no call makes.
    pub(super) fn placeholder(&mut self, tensor: Tensor) -> TensorId {
        let id = self.add(tensor);
        self.statements.push(Statement::Placeholder(id));
        id
    }

    /// A tensor that a later call makes.
    pub(super) fn add(&mut self, tensor: Tensor) -> TensorId {
        self.tensors.push(tensor);
        self.tensors.len() - 1
    }

    /// A call.
    pub(super) fn call(&mut self, operator: Operator, args: Vec<Arg>, output: CallOutput) {
        self.statements.push(Statement::Call(Call { operator, args, output }));
    }

    /// A call that makes a number.
    pub(super) fn sym_int(&mut self, operator: Operator, args: Vec<Arg>) -> SymInt {
        let sym_int = SymInt(self.sym_ints);
        self.sym_ints += 1;
        self.call(operator, args, CallOutput::SymInt);
        sym_int
    }
}

impl SymInt {
    /// Its place among all sym_ints.
    pub(super) fn index(self) -> usize {
        self.0
    }
}
