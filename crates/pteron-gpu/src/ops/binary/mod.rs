//! Two tensors to one, element by element. A row of `TABLE` is an operator.

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::OpDef;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
use crate::reference::{HostData, HostTensors, broadcast_offset, indices};
use crate::shape::{Dims, MAX_RANK, broadcast, innermost_first};

static GENERAL: KernelDef =
    KernelDef::new("binary", include_str!("binary.wgsl"), General::FIELDS).with_types(&[("T", &["f32", "i32"])]);
static FLAT: KernelDef =
    KernelDef::new("binary_flat", include_str!("binary_flat.wgsl"), Flat::FIELDS).with_types(&[("T", &["f32", "i32"])]);

/// The family: names, whether the operator has an `alpha`, its number in the shaders, and what it computes.
const TABLE: &[Row] = &[
    Row {
        name: "aten.add.Tensor",
        alpha: true,
        code: 0,
        f32: |a, b, alpha| a + alpha * b,
        i32: |a, b, alpha| a.wrapping_add(alpha.wrapping_mul(b)),
    },
    Row { name: "aten.mul.Tensor", alpha: false, code: 1, f32: |a, b, _| a * b, i32: |a, b, _| a.wrapping_mul(b) },
];

#[derive(Debug)]
struct Row {
    name: &'static str,
    alpha: bool,
    code: u32,
    f32: fn(f32, f32, f32) -> f32,
    i32: fn(i32, i32, i32) -> i32,
}

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef { names: &["aten.add.Tensor", "aten.mul.Tensor"], kernels: &[&GENERAL, &FLAT], decode };

#[derive(Debug)]
struct Binary {
    row: &'static Row,
    elem: Elem,
    a: TensorId,
    b: TensorId,
    alpha: f64,
    out: TensorId,
}

params! {
    /// Of `binary.wgsl`.
    struct General { dims: [u32; MAX_RANK], a: [u32; MAX_RANK], b: [u32; MAX_RANK], count: u32, alpha: f32, pad: [u32; 2] }
}
params! {
    /// Of `binary_flat.wgsl`.
    struct Flat { count: u32, alpha: f32, pad: [u32; 2] }
}

const GENERAL_RECIPE: usize = 0;
const FLAT_RECIPE: usize = 1;
const NUMBER_RECIPE: usize = 2;

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let name = args.operator();
    let Some(row) = TABLE.iter().find(|row| row.name == name) else {
        return Err(OpError::new("self", "is of no known family"));
    };
    let a = args.tensor_of("self", &[Elem::F32, Elem::I32])?;
    let elem = args.info(a).elem;
    let b = args.tensor_of("other", &[elem])?;
    let alpha = if row.alpha { args.float("alpha")? } else { 1.0 };
    if elem == Elem::I32 && alpha.fract() != 0.0 {
        return Err(OpError::new("alpha", format!("is {alpha}, but the tensors hold integers")));
    }
    let out = args.output("out")?;
    Ok(Box::new(Binary { row, elem, a, b, alpha, out }))
}

impl Binary {
    fn alpha(&self) -> f32 {
        #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
        let alpha = self.alpha as f32;
        alpha
    }

    fn out_dims(&self, cx: &PlanCx<'_>) -> Result<Dims, OpError> {
        let (a, b) = (cx.dims(self.a), cx.dims(self.b));
        broadcast(&a, &b).ok_or_else(|| OpError::new("other", format!("is {b}, which cannot be broadcast with {a}")))
    }
}

impl Op for Binary {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let ty = if self.elem == Elem::F32 { "f32" } else { "i32" };
        let recipe = |kernel, repeat_b| {
            let variant = Variant::new(kernel).with("OPERATION", self.row.code).with_type("T", ty).labelled(self.row.name);
            let variant = if std::ptr::eq(kernel, &FLAT) { variant.with("REPEAT_B", repeat_b) } else { variant };
            Recipe::new(variant, [self.a.into(), self.b.into(), self.out.into()])
        };
        Ok(Recipes::of([recipe(&GENERAL, 0), recipe(&FLAT, 0), recipe(&FLAT, 1)]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (a, b) = (cx.dims(self.a), cx.dims(self.b));
        let out = self.out_dims(cx)?;
        let count = out.count_u32();
        let alpha = self.alpha();
        let flat = if a != out {
            None
        } else if b == out {
            Some(FLAT_RECIPE)
        } else {
            (b.count() == 1).then_some(NUMBER_RECIPE)
        };
        let step = match flat {
            Some(recipe) => Dispatch::items(recipe, &Flat { count, alpha, pad: [0; 2] }, out.count(), 1024)?,
            None => {
                let strides = |dims: &Dims| {
                    dims.broadcast_strides(&out).map_or([0; MAX_RANK], |strides| innermost_first(&strides[..out.len()], 0))
                };
                let params =
                    General { dims: innermost_first(&out, 1), a: strides(&a), b: strides(&b), count, alpha, pad: [0; 2] };
                Dispatch::items(GENERAL_RECIPE, &params, out.count(), 256)?
            }
        };
        Ok(Plan::new(self.out, out, step))
    }

    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let out = self.out_dims(cx)?;
        let (a, b) = (cx.dims(self.a), cx.dims(self.b));
        let pairs: Vec<(usize, usize)> =
            indices(&out).map(|index| (broadcast_offset(&a, &index), broadcast_offset(&b, &index))).collect();
        let data = if self.elem == Elem::F32 {
            let (a, b) = (tensors.f32(self.a), tensors.f32(self.b));
            HostData::F32(pairs.iter().map(|&(i, j)| (self.row.f32)(a[i], b[j], self.alpha())).collect())
        } else {
            #[allow(clippy::cast_possible_truncation, reason = "decoding has checked that it is whole")]
            let alpha = self.alpha as i32;
            let (a, b) = (tensors.i32(self.a), tensors.i32(self.b));
            HostData::I32(pairs.iter().map(|&(i, j)| (self.row.i32)(a[i], b[j], alpha)).collect())
        };
        tensors.set(self.out, out, data);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
