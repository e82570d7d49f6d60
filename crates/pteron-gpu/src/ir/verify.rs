//! Invariants of a graph's values, whichever front end built it.

use std::collections::HashMap;

use super::{ConstantId, DataType, Graph, Tensor, Value, ValueId};
use crate::error::{Error, Result};

/// Checks tensors: memory orders, quantisation parameters, and that constants are as long as the tensors that use them.
///
/// # Errors
/// The first tensor that violates one of them.
pub(crate) fn verify(graph: &Graph) -> Result<()> {
    // A constant is uploaded once, with one type.
    let mut types: HashMap<ConstantId, DataType> = HashMap::new();
    for (id, value) in (0..).zip(&graph.values) {
        let Value::Tensor(tensor) = value else { continue };
        let checked = verify_tensor(graph, tensor).and_then(|()| verify_constant(graph, tensor, &mut types));
        checked.map_err(|reason| Error::Tensor { tensor: id, reason })?;
    }
    Ok(())
}

fn verify_tensor(graph: &Graph, tensor: &Tensor) -> Result<(), String> {
    if !tensor.dim_order.fits_rank(tensor.dims.len()) {
        return Err(format!("has {} dimensions, but its order in memory is of another number", tensor.dims.len()));
    }
    let parameters = tensor.quantization.iter().flat_map(|quantization| quantization.parameters());
    let is_tensor = |id: &ValueId| graph.value(*id).is_some_and(|value| value.as_tensor().is_some());
    match parameters.into_iter().find(|id| !is_tensor(id)) {
        Some(id) => Err(format!("is quantised with the parameters of value {id}, which is no tensor")),
        None => Ok(()),
    }
}

fn verify_constant(graph: &Graph, tensor: &Tensor, types: &mut HashMap<ConstantId, DataType>) -> Result<(), String> {
    let Some(constant) = tensor.constant else { return Ok(()) };
    let Some(len) = graph.constants.get(constant.index()).map(|constant| constant.len) else {
        return Err(format!("takes constant {constant}, but the graph has {}", graph.constants.len()));
    };
    if tensor.byte_len() != Some(len) {
        return Err(format!("takes constant {constant} of {len} bytes, which is not what its dims need"));
    }
    let first = *types.entry(constant).or_insert(tensor.dtype);
    if first != tensor.dtype {
        let names = (tensor.dtype.name(), first.name());
        return Err(format!("takes constant {constant} as {}, another tensor as {}", names.0, names.1));
    }
    Ok(())
}
