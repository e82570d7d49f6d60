//! Decoding: from the graph IR to decoded operators.

use std::collections::HashMap;

use super::{DecodedGraph, Elem, Node, Role, TensorInfo};
use crate::args::{Args, Flow};
use crate::budget::{Budget, GraphSize, listed};
use crate::error::{Error, Result};
use crate::ir::{self, DataType, Value};
use crate::live::TensorId;
use crate::shape::{Dims, MAX_RANK};

/// For each constant, the first with the same key, type and length: equal keys mean equal bytes.
pub(super) fn first_equal(source: &ir::Graph) -> Vec<u32> {
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

/// Charges the memory of decoding a call: a copy of every list it takes.
pub(crate) fn charge_call(source: &ir::Graph, call: &ir::Call, budget: &mut Budget) -> Result<()> {
    let listed: usize = call.args.iter().filter_map(|&arg| source.value(arg)).map(listed).sum();
    budget.steps(call.args.len().saturating_add(listed))?;
    budget.bytes((listed as u64).saturating_mul(LIST_ITEM_BYTES))
}

/// Bytes per item of a decoded list: in the operator, and in its data flow.
const LIST_ITEM_BYTES: u64 = 64;

/// Decodes the calls. A constant that one of them mutates becomes state, and the calls that read it are decoded again.
pub(super) fn nodes(
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

/// Looks a tensor up by its id.
#[expect(clippy::expect_used, reason = "decoding makes tensor ids of values that are tensors only")]
pub(crate) fn info(tensors: &[Option<TensorInfo>], tensor: TensorId) -> TensorInfo {
    tensors[tensor.index()].expect("a tensor id names a tensor")
}

/// The element types and bounds of a graph's tensors, by value id.
pub(super) fn tensors(source: &ir::Graph) -> Result<Vec<Option<TensorInfo>>> {
    (0..).zip(&source.values).map(tensor_info).collect()
}

/// The most elements of a tensor, of which a plan may compute some at a time.
const MOST_ELEMENTS: u64 = 1 << 40;

/// Whether kernels can index a tensor: every flat index that they form is 32 bits; so is every offset of a byte into packed words.
fn kernels_index(elem: Elem, bound: &Dims) -> bool {
    elem.bytes(bound.count()) <= u64::from(u32::MAX)
}

fn too_many(bound: &Dims) -> String {
    format!("has {} elements, more than kernels index", bound.count())
}

/// Checks that kernels can index the tensors of a graph that have memory, with these bounds. Fusions leave tensors that no call uses.
pub(crate) fn check_bounds(graph: &DecodedGraph, bounds: &[Dims]) -> Result<()> {
    let mut has_memory: Vec<bool> = graph.roles.iter().map(|role| !matches!(role, Role::Computed)).collect();
    for flow in graph.nodes.iter().map(|node| &node.flow) {
        let used = flow.reads.iter().chain(&flow.writes).chain(&flow.mutates);
        used.for_each(|tensor| has_memory[tensor.index()] = true);
    }
    for (tensor, ((info, bound), has_memory)) in (0..).zip(graph.tensors.iter().zip(bounds).zip(has_memory)) {
        if has_memory && info.is_some_and(|info| !kernels_index(info.elem, bound)) {
            return Err(Error::Tensor { tensor, reason: too_many(bound) });
        }
    }
    Ok(())
}

/// A value's element type and bound, if it is a tensor.
pub(crate) fn tensor_info((id, value): (u32, &Value)) -> Result<Option<TensorInfo>> {
    let Value::Tensor(tensor) = value else { return Ok(None) };
    let fail = |reason| Err(Error::Tensor { tensor: id, reason });
    let Some(elem) = Elem::of(tensor.dtype) else {
        return fail(format!("has elements of {}, which GPUs do not compute with", tensor.dtype.name()));
    };
    let Some(bound) = Dims::new(&tensor.dims) else {
        return fail(format!("has {} dimensions, supported are {MAX_RANK}", tensor.dims.len()));
    };
    // Plans check what kernels index; a batch may be divided before.
    if bound.count() > MOST_ELEMENTS || (tensor.constant.is_some() && !kernels_index(elem, &bound)) {
        return fail(too_many(&bound));
    }
    Ok(Some(TensorInfo { elem, bound }))
}

/// The graph's inputs and its outputs, which must be tensors.
pub(super) fn ports(source: &ir::Graph) -> Result<[Vec<TensorId>; 2]> {
    let tensor = |&id: &ir::ValueId| match source.value(id) {
        Some(Value::Tensor(_)) => Ok(TensorId(id.0)),
        Some(other) => Err(format!("is {}, only tensors are supported", other.kind())),
        None => Err("is not among the graph's values".to_owned()),
    };
    let tensors = |ids: &[ir::ValueId], error: fn(usize, String) -> Error| {
        let tensor = |(index, id)| tensor(id).map_err(|reason| error(index, reason));
        ids.iter().enumerate().map(tensor).collect::<Result<Vec<_>>>()
    };
    let inputs = tensors(&source.inputs, |index, reason| Error::Input { index, reason })?;
    let outputs = tensors(&source.outputs, |index, reason| Error::Output { index, reason })?;
    Ok([inputs, outputs])
}

/// The sources of tensors' content, before the calls are decoded: those show which constants are state.
pub(super) fn roles(source: &ir::Graph, inputs: &[TensorId]) -> Result<Vec<Role>> {
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

/// The data flow of each of these calls, as far as its operator declares it before it rejects an argument: for reports on
/// graphs that need not run. Calls beyond the graph's budget declare nothing.
pub(crate) fn declared_flows(source: &ir::Graph, calls: &[Option<ir::Call>]) -> Vec<Flow> {
    // A placeholder for a tensor that no kernel can hold: its calls are rejected when the graph is loaded.
    const UNSUPPORTED: TensorInfo = TensorInfo { elem: Elem::F32, bound: Dims::SCALAR };
    let mut budget = GraphSize::of(source).budget();
    let info = |value| tensor_info(value).unwrap_or(Some(UNSUPPORTED));
    let tensors: Vec<_> = (0..).zip(&source.values).map(info).collect();
    let computed = || vec![Role::Computed; source.values.len()];
    let roles = ports(source).and_then(|[inputs, _]| roles(source, &inputs)).unwrap_or_else(|_| computed());
    let mut flow = |call: &ir::Call| {
        charge_call(source, call, &mut budget).ok()?;
        let mut args = Args::new(source, &tensors, &roles, call);
        // The loader reports rejections.
        let _ = (call.def.decode)(&mut args);
        Some(args.into_flow())
    };
    calls.iter().map(|call| call.as_ref().and_then(&mut flow).unwrap_or_default()).collect()
}
