//! Embedding tables that stay 16-bit floats on the GPU: a fusion makes them of tables that a program stores so.

use crate::args::Args;
use crate::error::OpError;
use crate::graph::{DecodedGraph, Elem, Node, Role};
use crate::ir::{Call, DataType, Graph, Tensor, Value, ValueId};
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::row_axes::RowAxes;
use crate::shape::Dims;
use crate::strided_copy::gather::{EMBEDDING_NAMES, Gather, sliced_dims};

pub(super) const BF16: &str = "pteron.embedding_bf16";
pub(super) const F16: &str = "pteron.embedding_f16";

// Indices follow from data, so it keeps its bounds checks.
pub(super) static KERNEL: KernelDef =
    KernelDef::new("embedding_16bit", include_str!("embedding_16bit.wgsl"), Params::FIELDS)
        .with_variants(|| [false, true].map(variant).to_vec());

params! {
    /// Of `embedding_16bit.wgsl`.
    struct Params { count: u32, width: u32, rows: u32, pad: u32 }
}

/// Rows of a table of 16-bit floats, which the graph holds as bytes.
#[derive(Debug)]
pub(crate) struct HalfEmbedding {
    /// The table, two bytes per column.
    pub(crate) weight: TensorId,
    bfloat: bool,
    pub(crate) indices: TensorId,
    pub(crate) out: TensorId,
}

pub(super) fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let bfloat = args.operator() == BF16;
    let weight = args.tensor_of("weight", &[Elem::U8])?;
    let indices = args.index_tensor("indices", weight, 0)?;
    let out = args.output_of("out", Elem::F32)?;
    Ok(Box::new(HalfEmbedding { weight, bfloat, indices, out }))
}

fn variant(bfloat: bool) -> Variant {
    let float = if bfloat { "bitcast<f32>(half << 16u)" } else { "unpack2x16float(half).x" };
    Variant::new(&KERNEL).with_function("fn float(half: u32) -> f32", float)
}

impl HalfEmbedding {
    fn layout(&self, cx: &PlanCx<'_>) -> Result<(Params, Dims), OpError> {
        let weight = cx.dims(self.weight);
        let width = match *weight {
            [_, bytes] if bytes.is_multiple_of(2) => bytes / 2,
            _ => return Err(OpError::new("weight", format!("is {weight}, expected rows of two bytes per column"))),
        };
        let out = sliced_dims(EMBEDDING_NAMES, &weight.with(1, width), 0, &cx.dims(self.indices))?;
        Ok((Params { count: out.count_u32(), width, rows: weight[0], pad: 0 }, out))
    }

    /// The table of an embedding, if it is a constant of 16-bit floats that nothing else holds.
    pub(crate) fn table(node: &Node, graph: &DecodedGraph) -> Option<TensorId> {
        let gather: &Gather = node.op.downcast()?;
        let constant = matches!(graph.role(gather.from), Role::Constant(_)) && gather.names == EMBEDDING_NAMES;
        let table = tensor(&graph.source, gather.from).filter(|_| constant)?;
        let half = matches!(table.dtype, DataType::BFloat16 | DataType::Float16) && table.dims.len() == 2;
        half.then_some(gather.from)
    }

    /// The call that takes the place of an embedding whose table [becomes bytes](Self::become_bytes).
    pub(crate) fn call(node: &Node, graph: &DecodedGraph) -> Option<Call> {
        let gather: &Gather = node.op.downcast()?;
        let bfloat = tensor(&graph.source, gather.from)?.dtype == DataType::BFloat16;
        let args = [gather.from, gather.index, gather.out].map(|tensor| ValueId(tensor.0));
        Call::named(if bfloat { BF16 } else { F16 }, args.to_vec()).map(|call| call.at(node.call))
    }

    /// Makes a table of 16-bit floats a table of their bytes.
    pub(crate) fn become_bytes(source: &mut Graph, table: TensorId) {
        if let Some(Value::Tensor(tensor)) = source.values.get_mut(table.index()) {
            tensor.dtype = DataType::UInt8;
            if let Some(width) = tensor.dims.last_mut() {
                *width = width.saturating_mul(2);
            }
        }
    }
}

fn tensor(graph: &Graph, id: TensorId) -> Option<&Tensor> {
    graph.values.get(id.index()).and_then(Value::as_tensor)
}

impl Op for HalfEmbedding {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        rows.axis(self.indices).filter(|_| rows.axis(self.weight).is_none())
    }

    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let binds = [self.weight, self.indices, self.out].map(Into::into);
        Ok(Recipes::of([Recipe::new(variant(self.bfloat), binds)]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (params, out) = self.layout(cx)?;
        Ok(Plan::new(self.out, out, Dispatch::items(0, &params, out.count(), 256)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (Params { width, rows, .. }, out) = self.layout(cx)?;
        let table = tensors.u8(self.weight);
        let mut values = Vec::new();
        for &index in tensors.i32(self.indices) {
            let row = usize::try_from(index.max(0)).unwrap_or(0).min((rows as usize).saturating_sub(1));
            let width = width as usize;
            for bytes in table[2 * row * width..2 * (row + 1) * width].chunks_exact(2) {
                let bits = [bytes[0], bytes[1]];
                values.push(match self.bfloat {
                    true => half::bf16::from_le_bytes(bits).to_f32(),
                    false => half::f16::from_le_bytes(bits).to_f32(),
                });
            }
        }
        tensors.set(self.out, out, HostData::F32(values));
        Ok(())
    }
}
