//! `aten.embedding`: rows of a table, by index.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::ops::OpDef;
use crate::ops::gather::{How, KERNELS, Pick};
use crate::plan::Op;

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &["aten.embedding.default"], internal: &[], kernels: KERNELS, decode };

/// What operators with a table call it and what names its rows.
pub(crate) const NAMES: [&str; 2] = ["weight", "indices"];

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let weight = args.tensor_of("weight", &[Elem::F32])?;
    let table = args.info(weight).bound;
    if table.len() != 2 {
        return Err(OpError::new("weight", format!("is {table}, expected rows and columns")));
    }
    let indices = args.index_tensor("indices", weight, 0)?;
    // These three change gradients alone.
    args.ignore("padding_idx")?;
    args.ignore("scale_grad_by_freq")?;
    args.ignore("sparse")?;
    let pick = Pick::new(args, weight, 0, indices, How::Slices)?;
    Ok(Pick { names: NAMES, ..pick }.into_op())
}
