//! A graph with its operators decoded: who reads and writes what, and what each tensor is.

use std::collections::HashMap;

use crate::args::{Args, Flow};
use crate::budget::{Budget, GraphSize, listed};
use crate::error::{Error, OpError, Result};
use crate::fuse::{self, Fusions};
use crate::ir::{self, DataType, Value};
use crate::live::{ScalarId, TensorId};
use crate::ops::OpDef;
use crate::plan::Op;
use crate::rewrite;
use crate::shape::{Dims, MAX_RANK};

/// The element type of a tensor on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Elem {
    /// 32-bit floats; 16-bit ones of files are held so too.
    F32,
    /// 16-bit floats, two a word: caches that are kept so. No file's tensor is decoded to them.
    F16,
    /// 32-bit integers; 64-bit ones are narrowed by the host.
    I32,
    /// Unsigned bytes, four a word.
    U8,
    /// Signed bytes, four a word.
    I8,
    /// Truth values, a byte each, four a word.
    Bool,
}

impl Elem {
    fn of(dtype: DataType) -> Option<Self> {
        Some(match dtype {
            DataType::Float32 | DataType::Float16 => Self::F32,
            DataType::Int32 | DataType::Int64 => Self::I32,
            DataType::UInt8 => Self::U8,
            DataType::Int8 => Self::I8,
            DataType::Bool => Self::Bool,
            DataType::Float64 | DataType::BFloat16 | DataType::UInt4 => return None,
        })
    }

    /// A number as an element of this type, in the low bits of a word.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "integers wrap as PyTorch wraps them")]
    pub fn bits(self, value: f64) -> u32 {
        match self {
            Self::F32 => (value as f32).to_bits(),
            Self::F16 => half::f16::from_f64(value).to_bits().into(),
            Self::I32 => value as i64 as u32,
            Self::U8 | Self::I8 => (value as i64 as u8).into(),
            Self::Bool => u32::from(value != 0.0),
        }
    }

    /// How many elements lie in a word.
    #[must_use]
    pub fn lanes(self) -> u32 {
        match self {
            Self::F32 | Self::I32 => 1,
            Self::F16 => 2,
            Self::U8 | Self::I8 | Self::Bool => 4,
        }
    }

    /// Bytes that `count` elements take on the GPU; what is smaller than a word is packed into whole ones.
    #[must_use]
    pub fn bytes(self, count: u64) -> u64 {
        match self {
            Self::F32 | Self::I32 => count.saturating_mul(4),
            Self::F16 => count.div_ceil(2).saturating_mul(4),
            Self::U8 | Self::I8 | Self::Bool => count.div_ceil(4).saturating_mul(4),
        }
    }
}

/// What the file says of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its elements on the GPU.
    pub elem: Elem,
    /// Its largest dims.
    pub bound: Dims,
}

/// An operator call with its arguments decoded.
#[derive(Debug)]
pub struct Node {
    /// The name it is called by.
    pub name: &'static str,
    /// The position of the instruction it comes from; see [`ir::Call::origin`].
    pub call: usize,
    /// The table entry it was decoded with.
    pub def: &'static OpDef,
    /// The decoded operator.
    pub op: Box<dyn Op>,
    /// What it reads and writes.
    pub flow: Flow,
}

/// What a tensor is, which decides where its memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A constant that nothing changes, by index into the file's constants.
    Constant(u32),
    /// A constant that an operator changes: its bytes are where a state starts.
    State(u32),
    /// An input of the graph, by index.
    Input(usize),
    /// Something computed on the way, or an output.
    Computed,
}

/// A decoded graph.
#[derive(Debug)]
pub struct Graph {
    /// The operators in order.
    pub nodes: Vec<Node>,
    /// What the file says of each tensor, by value id.
    pub tensors: Vec<Option<TensorInfo>>,
    /// What each tensor is, by value id.
    pub roles: Vec<Role>,
    /// The graph's inputs.
    pub inputs: Vec<TensorId>,
    /// The graph's outputs.
    pub outputs: Vec<TensorId>,
    /// The graph it was decoded from.
    pub source: ir::Graph,
    /// For each constant the first that holds the same bytes.
    first_equal: Vec<u32>,
    /// How large the file's graph is.
    size: GraphSize,
}

impl Graph {
    /// Decodes every call of a graph as it is.
    ///
    /// # Errors
    /// The first operator that rejects its arguments, or a tensor that no kernel can hold. A graph that would take more memory or
    /// work than its [size](GraphSize) justifies.
    pub fn decode(source: ir::Graph) -> Result<Self> {
        Self::decode_with(source, &Fusions::NONE)
    }

    /// Decodes every call of a graph and fuses operators that one kernel computes together.
    ///
    /// # Errors
    /// As [`decode`](Self::decode): errors name calls of the graph as it is before any fusion.
    pub fn decode_with(source: ir::Graph, fusions: &Fusions) -> Result<Self> {
        let size = GraphSize::of(&source);
        let source = rewrite::rewrite(source, &mut size.budget())?;
        fuse::fuse(Self::assemble(source, size)?, fusions)
    }

    /// Decodes a graph in which everything is written once. The work is charged to the size of the graph before any rewrite.
    pub(crate) fn assemble(source: ir::Graph, size: GraphSize) -> Result<Self> {
        let mut budget = size.budget();
        budget.memory::<(Option<TensorInfo>, Role)>(source.values.len())?;
        let tensors = (0..).zip(&source.values).map(tensor_info).collect::<Result<Vec<_>>>()?;
        ir::verify::verify(&source)?;
        let border = |index: usize, id: ir::ValueId| match source.value(id) {
            Some(Value::Tensor(_)) => Ok(TensorId(id.0)),
            Some(other) => Err(Error::Input { index, reason: format!("is {}, only tensors are supported", other.kind()) }),
            None => Err(Error::Input { index, reason: "is not among the graph's values".into() }),
        };
        let inputs = source.inputs.iter().enumerate().map(|(i, &id)| border(i, id)).collect::<Result<Vec<_>>>()?;
        let outputs = source.outputs.iter().enumerate().map(|(i, &id)| border(i, id)).collect::<Result<Vec<_>>>()?;
        let mut roles = border_roles(&source, &inputs)?;
        let nodes = decode_nodes(&source, &tensors, &mut roles, &mut budget)?;
        let first_equal = first_equal(&source);
        let graph = Self { nodes, tensors, roles, inputs, outputs, source, first_equal, size };
        graph.check_order()?;
        Ok(graph)
    }

    /// The same with some state tensors in 16-bit floats, and operators decoded for them.
    pub(crate) fn with_f16_state(mut self, states: &[TensorId]) -> Result<Self> {
        for tensor in states {
            if let Some(Some(info)) = self.tensors.get_mut(tensor.index()) {
                info.elem = Elem::F16;
            }
        }
        let mut budget = self.budget();
        self.nodes = decode_nodes(&self.source, &self.tensors, &mut self.roles, &mut budget)?;
        Ok(self)
    }

    /// How large the file's graph is.
    #[must_use]
    pub fn size(&self) -> GraphSize {
        self.size
    }

    /// What a phase that works on it may take.
    pub(crate) fn budget(&self) -> Budget {
        self.size.budget()
    }

    /// What the file says of a tensor.
    #[must_use]
    pub fn info(&self, tensor: TensorId) -> TensorInfo {
        let info = self.tensors.get(tensor.index()).copied().flatten();
        info.unwrap_or(TensorInfo { elem: Elem::F32, bound: Dims::SCALAR })
    }

    /// What a tensor is.
    #[must_use]
    pub fn role(&self, tensor: TensorId) -> Role {
        self.roles.get(tensor.index()).copied().unwrap_or(Role::Computed)
    }

    /// The first constant that holds the same bytes in the same type as this one.
    pub(crate) fn first_equal(&self, constant: u32) -> u32 {
        self.first_equal.get(constant as usize).copied().unwrap_or(constant)
    }

    /// Everything is written before it is read, constants are never written, and nothing computed is written twice.
    fn check_order(&self) -> Result<()> {
        let mut written = vec![false; self.tensors.len()];
        for (id, role) in self.roles.iter().enumerate() {
            written[id] = *role != Role::Computed;
        }
        let fail = |node: &Node, argument, tensor: TensorId, what: &str| {
            Err(OpError::new(argument, format!("is tensor {tensor}, {what}")).of(node.name, node.call).into())
        };
        for node in &self.nodes {
            for &tensor in node.flow.reads.iter().chain(&node.flow.mutates) {
                if !written[tensor.index()] {
                    return fail(node, "input", tensor, "which nothing has computed before");
                }
            }
            for &tensor in &node.flow.writes {
                if self.role(tensor) != Role::Computed {
                    return fail(node, "out", tensor, "which is an input or a constant");
                }
                if std::mem::replace(&mut written[tensor.index()], true) {
                    return fail(node, "out", tensor, "which was computed before");
                }
            }
        }
        self.check_scalars()?;
        match self.outputs.iter().find(|output| !written[output.index()]) {
            None => Ok(()),
            Some(output) => Err(Error::Tensor { tensor: output.0, reason: "is an output, but nothing computes it".into() }),
        }
    }

    /// A symbolic integer is written once, and not read before: otherwise what it is would depend on earlier calls.
    fn check_scalars(&self) -> Result<()> {
        let mut computed = vec![false; self.tensors.len()];
        for scalar in self.nodes.iter().flat_map(|node| &node.flow.scalar_writes) {
            computed[scalar.index()] = true;
        }
        let mut written = vec![false; self.tensors.len()];
        for node in &self.nodes {
            let fail = |argument, scalar: ScalarId, what: &str| {
                let reason = format!("is the symbolic integer {}, {what}", scalar.0);
                Err(OpError::new(argument, reason).of(node.name, node.call).into())
            };
            for &scalar in &node.flow.scalar_reads {
                if computed[scalar.index()] && !written[scalar.index()] {
                    return fail("input", scalar, "which is computed only later");
                }
            }
            for &scalar in &node.flow.scalar_writes {
                if std::mem::replace(&mut written[scalar.index()], true) {
                    return fail("out", scalar, "which was computed before");
                }
            }
        }
        Ok(())
    }
}

/// For each constant the first whose key, type and length are the same: keys stand for bytes.
fn first_equal(source: &ir::Graph) -> Vec<u32> {
    let mut first: Vec<u32> = (0..).take(source.constants.len()).collect();
    let mut known: HashMap<(&str, DataType, u64), u32> = HashMap::new();
    for tensor in source.values.iter().filter_map(Value::as_tensor) {
        let Some(id) = tensor.constant else { continue };
        let (Some(constant), Some(own)) = (source.constants.get(id.index()), first.get_mut(id.index())) else { continue };
        if let ir::ConstantSource::Named(key) = &constant.source {
            *own = *known.entry((key, tensor.dtype, constant.len)).or_insert(id.0);
        }
    }
    first
}

/// Charges what decoding a call makes: a copy of every list it takes.
pub(crate) fn charge_call(source: &ir::Graph, call: &ir::Call, budget: &mut Budget) -> Result<()> {
    let listed: usize = call.args.iter().filter_map(|&arg| source.value(arg)).map(listed).sum();
    budget.steps(call.args.len().saturating_add(listed))?;
    budget.bytes((listed as u64).saturating_mul(LIST_ITEM_BYTES))
}

/// Bytes that an item of a list takes once it is decoded: in the operator, and in what is known of its reads.
const LIST_ITEM_BYTES: u64 = 64;

/// Decodes the calls. A constant that one of them changes becomes state, and who reads it is decoded again for that.
fn decode_nodes(
    source: &ir::Graph,
    tensors: &[Option<TensorInfo>],
    roles: &mut [Role],
    budget: &mut Budget,
) -> Result<Vec<Node>> {
    budget.memory::<Node>(source.calls.len())?;
    let mut decode = |roles: &[Role], call: &ir::Call| {
        charge_call(source, call, budget)?;
        let &ir::Call { def, name, origin, .. } = call;
        let mut args = Args::new(source, tensors, roles, call);
        let op = (def.decode)(&mut args).map_err(|error| error.of(name, origin))?;
        let flow = args.finish().map_err(|error| error.of(name, origin))?;
        Result::Ok(Node { name, call: origin, def, op, flow })
    };
    let mut nodes = source.calls.iter().map(|call| decode(roles, call)).collect::<Result<Vec<_>>>()?;
    for tensor in nodes.iter().flat_map(|node| &node.flow.mutates) {
        if let Role::Constant(constant) = roles[tensor.index()] {
            roles[tensor.index()] = Role::State(constant);
        }
    }
    for (node, call) in nodes.iter_mut().zip(&source.calls) {
        if node.flow.reads.iter().any(|read| matches!(roles[read.index()], Role::State(_))) {
            *node = decode(roles, call)?;
        }
    }
    Ok(nodes)
}

fn tensor_info((id, value): (u32, &Value)) -> Result<Option<TensorInfo>> {
    let Value::Tensor(tensor) = value else { return Ok(None) };
    let fail = |reason| Err(Error::Tensor { tensor: id, reason });
    let Some(elem) = Elem::of(tensor.dtype) else {
        return fail(format!("has elements of {}, which GPUs do not compute with", tensor.dtype.name()));
    };
    let Some(bound) = Dims::new(&tensor.dims) else {
        return fail(format!("has {} dimensions, supported are {MAX_RANK}", tensor.dims.len()));
    };
    // Every flat index a kernel forms is 32 bits; so is every offset of a byte into packed words.
    if elem.bytes(bound.count()) > u64::from(u32::MAX) {
        return fail(format!("has {} elements, more than kernels index", bound.count()));
    }
    Ok(Some(TensorInfo { elem, bound }))
}

/// What tensors are, as far as the file says it: which constants are state is known when the calls are decoded.
fn border_roles(source: &ir::Graph, inputs: &[TensorId]) -> Result<Vec<Role>> {
    let role = |value: &Value| match value.as_tensor().and_then(|tensor| tensor.constant) {
        Some(constant) => Role::Constant(constant.0),
        None => Role::Computed,
    };
    let mut roles: Vec<Role> = source.values.iter().map(role).collect();
    for (index, input) in inputs.iter().enumerate() {
        let reason = match roles[input.index()] {
            Role::Computed => {
                roles[input.index()] = Role::Input(index);
                continue;
            }
            Role::Input(first) => format!("is tensor {input}, which is input {first} already"),
            _ => format!("is tensor {input}, which has the bytes of a constant"),
        };
        return Err(Error::Input { index, reason });
    }
    Ok(roles)
}

#[cfg(test)]
mod tests;
