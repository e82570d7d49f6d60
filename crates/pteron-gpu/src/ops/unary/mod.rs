//! One tensor to another of the same shape, element by element. A row of `TABLE` is an operator.

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

static FLAT: KernelDef = KernelDef::new("unary", include_str!("unary.wgsl"), Params::FIELDS);

/// The family: names, the number in the shader, and what is computed.
const TABLE: &[Row] = &[
    Row { name: "aten.sigmoid.default", code: 0, plain: |x| 1.0 / (1.0 + (-x).exp()) },
    Row { name: "aten.relu.default", code: 1, plain: |x| x.max(0.0) },
    Row { name: "aten.abs.default", code: 2, plain: f64::abs },
    Row { name: "aten.neg.default", code: 3, plain: |x| -x },
    Row { name: "aten.exp.default", code: 4, plain: f64::exp },
    Row { name: "aten.sqrt.default", code: 5, plain: f64::sqrt },
    Row { name: "aten.rsqrt.default", code: 6, plain: |x| x.sqrt().recip() },
];

#[derive(Debug)]
struct Row {
    name: &'static str,
    code: u32,
    plain: fn(f64) -> f64,
}

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef {
    names: &[
        "aten.sigmoid.default",
        "aten.relu.default",
        "aten.abs.default",
        "aten.neg.default",
        "aten.exp.default",
        "aten.sqrt.default",
        "aten.rsqrt.default",
    ],
    kernels: &[&FLAT],
    decode,
};

params! {
    /// Of `unary.wgsl`.
    struct Params { count: u32, pad: [u32; 3] }
}

#[derive(Debug)]
struct Unary {
    row: &'static Row,
    x: TensorId,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let name = args.operator();
    let Some(row) = TABLE.iter().find(|row| row.name == name) else {
        return Err(OpError::new("self", "is of no known family"));
    };
    Ok(Box::new(Unary { row, x: args.tensor_of("self", &[Elem::F32])?, out: args.output_of("out", Elem::F32)? }))
}

impl Op for Unary {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let variant = Variant::new(&FLAT).with("OPERATION", self.row.code).labelled(self.row.name);
        Ok(Recipes::of([Recipe::new(variant, [self.x.into(), self.out.into()])]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = cx.dims(self.x);
        let params = Params { count: dims.count_u32(), ..Params::default() };
        Ok(Plan::new(self.out, dims, Dispatch::items(0, &params, dims.count(), 1024)?))
    }

    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
        let values = tensors.f32(self.x).iter().map(|&x| (self.row.plain)(x.into()) as f32).collect();
        tensors.set(self.out, cx.dims(self.x), HostData::F32(values));
        Ok(())
    }
}
