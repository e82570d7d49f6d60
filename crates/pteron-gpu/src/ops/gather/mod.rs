//! Operators that gather elements or slices by index, with the kernels of strided copies. Each row of `TABLE` is an operator.

mod multi;
#[cfg(test)]
mod tests;

use crate::args::{Args, IndexInput};
use crate::error::OpError;
use crate::index_offsets;
use crate::ir::{Call, ValueId};
use crate::ops::{OpDef, names};
use crate::plan::Op;
use crate::strided_copy::gather::{Gather, GatherMode, KERNELS};

const INDEX_SELECT: &str = "aten.index_select.default";

/// The operators of the family: names and decoders.
const TABLE: &[(&str, Decode)] =
    &[("aten.gather.default", decode_gather), (INDEX_SELECT, decode_index_select), ("aten.index.Tensor", decode_index)];

type Decode = fn(&mut Args<'_>) -> Result<Box<dyn Op>, OpError>;

static NAMES: [&str; TABLE.len()] = names!(TABLE, 0);

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef {
    names: &NAMES,
    internal: &[],
    kernels: &[KERNELS[0], KERNELS[1], &index_offsets::KERNEL],
    decode: |args| args.row(TABLE).1(args),
};

/// A call that selects these indices of a dimension: the tensor, the dimension, the indices and the output.
pub(crate) fn index_select_call(args: [ValueId; 4]) -> Call {
    Call::new(&DEF, INDEX_SELECT, args.to_vec())
}

fn decode_gather(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let from = args.tensor("self")?;
    let axis = args.axis("dim", args.info(from).bound.len())?;
    let index = args.index_tensor("index", from, axis)?;
    // Affects gradients only.
    args.ignore("sparse_grad")?;
    Gather::new(args, from, axis, index, GatherMode::Elements).map(Gather::into_op)
}

fn decode_index_select(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let from = args.tensor("self")?;
    let axis = args.axis("dim", args.info(from).bound.len())?;
    let index = args.index_tensor("index", from, axis)?;
    let bound = args.info(index).bound;
    if bound.len() > 1 {
        return Err(OpError::new("index", format!("is {bound}, expected one dimension")));
    }
    Gather::new(args, from, axis, index, GatherMode::FlatSlices).map(Gather::into_op)
}

fn decode_index(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let from = args.tensor("self")?;
    let rank = args.info(from).bound.len();
    let list = args.optional_tensors("indices")?;
    if list.len() > rank {
        return Err(OpError::new("indices", format!("has {} places, but the tensor has {rank} dimensions", list.len())));
    }
    let mut given = list.iter().enumerate().filter_map(|(axis, index)| Some((axis, (*index)?)));
    let (Some((axis, index)), None) = (given.next(), given.next()) else {
        return multi::decode(args, from, &list);
    };
    args.use_indices("indices", IndexInput { indices: index, of: from, axis, from_end: true })?;
    let gather = Gather::new(args, from, axis, index, GatherMode::Slices)?;
    Ok(Gather { from_end: true, names: ["self", "indices"], ..gather }.into_op())
}
