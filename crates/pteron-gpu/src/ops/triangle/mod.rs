//! `aten.tril` and `aten.triu`: matrices with the elements above or below a diagonal set to zero.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::{Scalar, TensorId};
use crate::ops::OpDef;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};

static KERNEL: KernelDef = KernelDef::new("triangle", include_str!("triangle.wgsl"), Params::FIELDS);

const LOWER: &str = "aten.tril.default";
const UPPER: &str = "aten.triu.default";

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &[LOWER, UPPER], internal: &[], kernels: &[&KERNEL], decode };

params! {
    /// Of `triangle.wgsl`.
    struct Params { count: u32, rows: u32, columns: u32, diagonal: i32 }
}

#[derive(Debug)]
struct Triangle {
    x: TensorId,
    upper: bool,
    diagonal: Scalar,
    elem: Elem,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor("self")?;
    let info = args.info(x);
    if info.bound.len() < 2 {
        return Err(OpError::new("self", format!("is {}, expected at least two dimensions", info.bound)));
    }
    let upper = args.operator() == UPPER;
    let diagonal = args.scalar("diagonal")?;
    Ok(Box::new(Triangle { x, upper, diagonal, elem: info.elem, out: args.output_of("out", info.elem)? }))
}

impl Triangle {
    /// The diagonal, as far from the first as kernels count.
    fn diagonal(&self, cx: &PlanCx<'_>) -> i32 {
        let farthest = 1 << 30;
        i32::try_from(cx.scalar(self.diagonal).clamp(-farthest, farthest)).unwrap_or(0)
    }
}

impl Op for Triangle {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let variant = Variant::new(&KERNEL).with("LANES", self.elem.lanes()).with("UPPER", self.upper.into());
        Ok(Recipes::of([Recipe::new(variant, [self.x, self.out].map(Into::into))]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = cx.dims(self.x);
        let (rows, columns) = (dims[dims.len() - 2], dims[dims.len() - 1]);
        let params = Params { count: dims.count_u32(), rows, columns, diagonal: self.diagonal(cx) };
        let words = dims.count().div_ceil(self.elem.lanes().into());
        Ok(Plan::new(self.out, dims, Dispatch::items(0, &params, words, 256)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let dims = cx.dims(self.x);
        let (rows, columns) = (u64::from(dims[dims.len() - 2]), u64::from(dims[dims.len() - 1]));
        let keeps = |at: u64| {
            let past = i128::from(at % columns) - i128::from(at / columns % rows) - i128::from(self.diagonal(cx));
            if self.upper { past >= 0 } else { past <= 0 }
        };
        let values = (0..).zip(tensors.numbers(self.elem, self.x)).map(|(at, x)| if keeps(at) { x } else { 0.0 });
        let data = HostData::from_numbers(self.elem, values);
        tensors.set(self.out, dims, data);
        Ok(())
    }
}
