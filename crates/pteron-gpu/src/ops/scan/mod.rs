//! `aten.cumsum`: running sums along a dimension.

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
use crate::reduction::RowShape;
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

static KERNEL: KernelDef =
    KernelDef::new("scan", include_str!("scan.wgsl"), Params::FIELDS).with_variants(|| every_type().collect());

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &["aten.cumsum.default"], internal: &[], kernels: &[&KERNEL], decode };

params! {
    /// Of `scan.wgsl`.
    struct Params { rows: u32, length: u32, inner: u32, pad: u32 }
}

const ELEMENTS: [Elem; 5] = [Elem::F32, Elem::I32, Elem::U8, Elem::I8, Elem::Bool];

fn every_type() -> impl Iterator<Item = Variant> {
    let integers = ELEMENTS.into_iter().skip(1).map(|elem| variant(elem, Elem::I32));
    ELEMENTS.into_iter().map(|elem| variant(elem, Elem::F32)).chain(integers)
}

/// The kernel that adds up elements of one type in another.
fn variant(elem: Elem, sum: Elem) -> Variant {
    // A signed word extends the sign of its bytes.
    let (word, load) = match elem {
        Elem::F32 | Elem::F16 => ("f32", "E(source[at])"),
        Elem::I32 => ("i32", "E(source[at])"),
        Elem::I8 => ("i32", "E(extractBits(source[at / 4u], 8u * (at % 4u), 8u))"),
        Elem::U8 | Elem::Bool => ("u32", "E(extractBits(source[at / 4u], 8u * (at % 4u), 8u))"),
    };
    let sum = if sum == Elem::F32 { "f32" } else { "i32" };
    Variant::new(&KERNEL).with_type("E", sum).with_type("B", word).with_function("fn load(at: u32) -> E", load)
}

#[derive(Debug)]
struct Scan {
    x: TensorId,
    elem: Elem,
    axis: usize,
    sum: Elem,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor("self")?;
    let info = args.info(x);
    let axis = args.axis("dim", info.bound.len())?;
    // The output has that type.
    args.ignore("dtype")?;
    let out = args.output("out")?;
    match (info.elem, args.info(out).elem) {
        (Elem::F32, Elem::I32) => Err(OpError::new("out", "has elements I32, but the result's are F32")),
        (elem, sum @ (Elem::F32 | Elem::I32)) => Ok(Box::new(Scan { x, elem, axis, sum, out })),
        (_, sum) => Err(OpError::new("out", format!("has elements {sum:?}, supported: [F32, I32]"))),
    }
}

impl Scan {
    fn rows(&self, dims: &Dims) -> RowShape {
        RowShape::along(dims, self.axis..self.axis + 1)
    }
}

impl Op for Scan {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        Ok(Recipes::of([Recipe::new(variant(self.elem, self.sum), [self.x, self.out].map(Into::into))]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = cx.dims(self.x);
        let shape = self.rows(&dims);
        let rows = if dims.count() == 0 { 0 } else { shape.count() };
        let params = Params {
            rows: u32::try_from(rows).unwrap_or(u32::MAX),
            length: shape.length,
            inner: shape.inner.max(1),
            pad: 0,
        };
        Ok(Plan::new(self.out, dims, Dispatch::groups(0, &params, rows)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let dims = cx.dims(self.x);
        let RowShape { length, inner, .. } = self.rows(&dims);
        let mut sums = tensors.numbers(self.elem, self.x);
        let (length, inner) = (length as usize, inner as usize);
        for at in 0..sums.len() {
            if at / inner % length > 0 {
                sums[at] += sums[at - inner];
            }
        }
        tensors.set(self.out, dims, HostData::from_numbers(self.sum, sums));
        Ok(())
    }
}
