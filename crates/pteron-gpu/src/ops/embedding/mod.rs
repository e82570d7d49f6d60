//! `aten.embedding`: rows of a table, by index.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::OpDef;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

static ROWS: KernelDef =
    KernelDef::new("embedding", include_str!("embedding.wgsl"), Params::FIELDS).with_types(&[("T", &["vec4<f32>", "f32"])]);

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &["aten.embedding.default"], kernels: &[&ROWS], decode };

params! {
    /// Of `embedding.wgsl`.
    struct Params { count: u32, items: u32, rows: u32, pad: u32 }
}

/// The recipes: the type of an item, and the numbers in it.
const ITEMS: [(&str, u32); 2] = [("vec4<f32>", 4), ("f32", 1)];

#[derive(Debug)]
struct Embedding {
    weight: TensorId,
    indices: TensorId,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let weight = args.tensor_of("weight", &[Elem::F32])?;
    let table = args.info(weight).bound;
    let indices = args.index_tensor("indices", table.first().copied().unwrap_or(0))?;
    // These three change gradients alone.
    args.ignore("padding_idx")?;
    args.ignore("scale_grad_by_freq")?;
    args.ignore("sparse")?;
    Ok(Box::new(Embedding { weight, indices, out: args.output_of("out", Elem::F32)? }))
}

/// The dims of rows of `width`, one for each index. A table without rows has none to give.
pub(crate) fn out_dims(indices: &Dims, rows: u32, width: u32) -> Result<Dims, OpError> {
    if rows == 0 && indices.count() > 0 {
        return Err(OpError::new("weight", "has zero rows to choose from"));
    }
    let sizes = indices.iter().copied().chain([width]).map(i64::from);
    Dims::from_sizes(sizes).ok_or_else(|| OpError::new("indices", format!("is {indices}, too many dimensions")))
}

impl Embedding {
    /// Rows and columns of the table, and the dims of the output.
    fn dims(&self, cx: &PlanCx<'_>) -> Result<(u32, u32, Dims), OpError> {
        let weight = cx.dims(self.weight);
        let [rows, width] = *weight else {
            return Err(OpError::new("weight", format!("is {weight}, expected rows and columns")));
        };
        Ok((rows, width, out_dims(&cx.dims(self.indices), rows, width)?))
    }
}

impl Op for Embedding {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let recipe = |(item, _)| {
            Recipe::new(Variant::new(&ROWS).with_type("T", item), [self.weight.into(), self.indices.into(), self.out.into()])
        };
        Ok(Recipes::of(ITEMS.map(recipe)))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (rows, width, out) = self.dims(cx)?;
        let recipe = usize::from(width % ITEMS[0].1 != 0);
        let lanes = ITEMS[recipe].1;
        let params = Params { count: out.count_u32() / lanes, items: width / lanes, rows, pad: 0 };
        Ok(Plan::new(self.out, out, Dispatch::items(recipe, &params, params.count.into(), 256)?))
    }

    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (rows, width, out) = self.dims(cx)?;
        let (table, width) = (tensors.f32(self.weight), width as usize);
        let row = |&index: &i32| usize::try_from(index.max(0)).unwrap_or(0).min((rows as usize).saturating_sub(1));
        let values = tensors.i32(self.indices).iter().flat_map(|index| &table[row(index) * width..][..width]).copied();
        let values = values.collect();
        tensors.set(self.out, out, HostData::F32(values));
        Ok(())
    }
}
