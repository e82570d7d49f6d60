//! `aten.embedding`: gathers rows of a table.

pub(crate) mod half_table;

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::ops::OpDef;
use crate::plan::Op;
use crate::strided_copy::gather::{EMBEDDING_NAMES, Gather, GatherMode, KERNELS};

/// The registry entry.
pub static DEF: OpDef = OpDef {
    names: &["aten.embedding.default", half_table::BF16, half_table::F16],
    internal: &[half_table::BF16, half_table::F16],
    kernels: &[KERNELS[0], KERNELS[1], &half_table::KERNEL],
    decode,
};

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    if args.operator() != DEF.names[0] {
        return half_table::decode(args);
    }
    let weight = args.tensor_of("weight", &[Elem::F32])?;
    let table = args.info(weight).bound;
    if table.len() != 2 {
        return Err(OpError::new("weight", format!("is {table}, expected rows and columns")));
    }
    let indices = args.index_tensor("indices", weight, 0)?;
    // These three affect gradients only.
    args.ignore("padding_idx")?;
    args.ignore("scale_grad_by_freq")?;
    args.ignore("sparse")?;
    let gather = Gather::new(args, weight, 0, indices, GatherMode::Slices)?;
    Ok(Gather { names: EMBEDDING_NAMES, ..gather }.into_op())
}
