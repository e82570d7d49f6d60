//! Rotary position embedding: rotates pairs of elements by an angle per token and pair. The operators differ in which elements form a pair
//! and in the layout of the tables.

pub(crate) mod interleaved;
mod interleaved_complex;
mod split_half;
#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::includes;
use crate::ir::{Call, Graph, Value, ValueId};
use crate::kernel::Include;
use crate::live::TensorId;
use crate::ops::{OpDef, names};
use crate::plan::{Op, Plan, PlanCx};
use crate::shape::Dims;

/// WGSL that the kernels here share.
const INCLUDES: &[Include] = includes!["rotate_pair"];

type Decode = fn(&mut Args<'_>) -> Result<Box<dyn Op>, OpError>;

const TABLE: &[(&str, Decode)] = &[
    (interleaved::NAME, interleaved::decode),
    (split_half::NAME, split_half::decode),
    (interleaved_complex::NAME, interleaved_complex::decode),
];

static NAMES: [&str; TABLE.len()] = names!(TABLE, 0);

/// The registry entry.
pub static DEF: OpDef = OpDef {
    names: &NAMES,
    internal: &[],
    kernels: &[&interleaved::KERNEL, &split_half::KERNEL, &interleaved_complex::KERNEL],
    decode,
};

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let (_, decode) = args.row(TABLE);
    decode(args)
}

/// Which elements of a head form a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// Adjacent ones, with a table entry per pair and a table row per token of the call.
    Interleaved,
    /// Those of one index in the first and in the second half, with a table entry per element and a table row per token of the call.
    SplitHalf,
}

/// Creates a call that rotates queries and keys.
pub(crate) fn call(graph: &mut Graph, pairs: Pairs, inputs: &Inputs, outputs: [TensorId; 2]) -> Call {
    let Inputs { xq, xk, freqs_cos, freqs_sin } = *inputs;
    let mut args: Vec<ValueId> = [xq, xk, freqs_cos, freqs_sin].iter().map(|tensor| ValueId(tensor.0)).collect();
    if pairs == Pairs::SplitHalf {
        args.push(graph.add(Value::Int(0)));
    }
    args.push(graph.add(Value::ValueList(outputs.iter().map(|tensor| ValueId(tensor.0)).collect())));
    Call::new(&DEF, if pairs == Pairs::Interleaved { interleaved::NAME } else { split_half::NAME }, args)
}

/// Each input of an operator that rotates queries and keys, with the output that has its dims.
pub(crate) fn inputs_and_outputs(op: &dyn Op) -> Option<[(TensorId, TensorId); 2]> {
    let interleaved = op.downcast().map(|op: &interleaved::Interleaved| (&op.inputs, &op.outputs));
    let (inputs, outputs) =
        interleaved.or_else(|| op.downcast().map(|op: &split_half::SplitHalf| (&op.inputs, &op.outputs)))?;
    Some([(inputs.xq, outputs.xq), (inputs.xk, outputs.xk)])
}

/// The operator that rotates elements of two halves by a row of the tables per token of the call, from the first row on.
pub(crate) fn split_half_of_tokens(op: &dyn Op) -> Option<(&Inputs, &Outputs)> {
    op.downcast().and_then(split_half::SplitHalf::of_tokens)
}

/// Queries and keys, and the tables of cosines and sines.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) xq: TensorId,
    pub(crate) xk: TensorId,
    pub(crate) freqs_cos: TensorId,
    pub(crate) freqs_sin: TensorId,
}

impl Inputs {
    fn take(args: &mut Args<'_>) -> Result<Self, OpError> {
        Ok(Self {
            xq: args.tensor_of("xq", &[Elem::F32])?,
            xk: args.tensor_of("xk", &[Elem::F32])?,
            freqs_cos: args.tensor_of("freqs_cos", &[Elem::F32])?,
            freqs_sin: args.tensor_of("freqs_sin", &[Elem::F32])?,
        })
    }

    fn tables(&self) -> [(&'static str, TensorId); 2] {
        [("freqs_cos", self.freqs_cos), ("freqs_sin", self.freqs_sin)]
    }

    /// The dims of queries and keys, `[batch, tokens, heads, head dim]` that differ in their heads alone.
    fn dims(&self, cx: &PlanCx<'_>) -> Result<(Dims, Dims), OpError> {
        let (q, k) = (cx.dims(self.xq), cx.dims(self.xk));
        let &[batch, tokens, _, dim] = &*q else {
            return Err(OpError::new("xq", format!("is {q}, expected [batch, tokens, heads, head dim]")));
        };
        if k.len() != 4 || (k[0], k[1], k[3]) != (batch, tokens, dim) {
            return Err(OpError::new("xk", format!("is {k}, expected [{batch}, {tokens}, heads, {dim}] to go with `xq`")));
        }
        Ok((q, k))
    }
}

/// Rotated queries and keys.
#[derive(Debug)]
pub(crate) struct Outputs {
    pub(crate) xq: TensorId,
    pub(crate) xk: TensorId,
}

impl Outputs {
    fn take(args: &mut Args<'_>) -> Result<Self, OpError> {
        let outputs = args.outputs("out", 2)?;
        let &[xq, xk] = outputs.as_slice() else {
            return Err(OpError::new("out", "is not a pair of tensors"));
        };
        for out in [xq, xk] {
            let elem = args.info(out).elem;
            if elem != Elem::F32 {
                return Err(OpError::new("out", format!("has elements {elem:?}, expected {:?}", Elem::F32)));
            }
        }
        Ok(Self { xq, xk })
    }

    fn plan(&self, (q, k): (Dims, Dims)) -> Plan {
        Plan { outputs: vec![(self.xq, q), (self.xk, k)], ..Plan::default() }
    }
}
