//! Tensors filled with one number. Each row of `TABLE` is an operator.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::{Number, Scalar, TensorId};
use crate::ops::{OpDef, names};
use crate::params;
use crate::plan::{Bind, BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

static FILL: KernelDef = KernelDef::new("fill", include_str!("fill.wgsl"), Params::FIELDS);

params! {
    /// Of `fill.wgsl`.
    struct Params { count: u32, step_base: u32, pad: [u32; 2] }
}

/// The family: names, the source of the shape, the operator's own number if it has one, and the number of trailing arguments
/// about types and devices.
const TABLE: &[(&str, Row)] = &[
    ("aten.full.default", (From::Size, None, 4)),
    ("aten.zeros.default", (From::Size, Some(0.0), 4)),
    ("aten.ones.default", (From::Size, Some(1.0), 4)),
    ("aten.full_like.default", (From::Tensor, None, 5)),
    ("aten.zeros_like.default", (From::Tensor, Some(0.0), 5)),
    ("aten.ones_like.default", (From::Tensor, Some(1.0), 5)),
    ("aten.scalar_tensor.default", (From::Nothing, None, 4)),
    ("aten.fill.Scalar", (From::Tensor, None, 0)),
    // Memory that a program leaves undefined is zero.
    ("aten.empty.memory_format", (From::Size, Some(0.0), 5)),
    ("dim_order_ops._empty_dim_order.default", (From::Size, Some(0.0), 5)),
];

type Row = (From, Option<f64>, usize);

/// The source of the shape.
#[derive(Clone, Copy, Debug)]
enum From {
    Size,
    Tensor,
    Nothing,
}

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef { names: &NAMES, internal: &[], kernels: &[&FILL], decode };

static NAMES: [&str; TABLE.len()] = names!(TABLE, 0);

#[derive(Debug)]
enum Shape {
    Sizes(Vec<Scalar>),
    Like(TensorId),
}

#[derive(Debug)]
pub(crate) struct Fill {
    shape: Shape,
    value: Number,
    elem: Elem,
    out: TensorId,
}

impl Fill {
    /// Whether every element is zero.
    pub(crate) fn is_zero(&self) -> bool {
        self.value == Number::Fixed(0.0)
    }
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let &(_, (from, value, options)) = args.row(TABLE);
    let shape = match from {
        From::Size => Shape::Sizes(args.scalars("size")?),
        From::Tensor => Shape::Like(args.tensor("self")?),
        From::Nothing => Shape::Sizes(Vec::new()),
    };
    let value = value.map_or_else(|| args.number("fill_value"), |value| Ok(Number::Fixed(value)))?;
    // The type is the output's own; layout, device and memory do not apply.
    ["dtype", "layout", "device", "pin_memory", "memory_format"]
        .iter()
        .take(options)
        .try_for_each(|name| args.ignore(name))?;
    let out = args.output("out")?;
    Ok(Box::new(Fill { shape, value, elem: args.info(out).elem, out }))
}

impl Fill {
    fn dims(&self, cx: &PlanCx<'_>) -> Result<Dims, OpError> {
        match &self.shape {
            Shape::Like(tensor) => Ok(cx.dims(*tensor)),
            Shape::Sizes(sizes) => {
                let live = || sizes.iter().map(|&size| cx.scalar(size));
                Dims::from_sizes(live()).ok_or_else(|| {
                    OpError::new("size", format!("is {:?}, which no tensor can have", live().collect::<Vec<_>>()))
                })
            }
        }
    }

    /// The number as an element, repeated to a whole word.
    fn word(&self, cx: &PlanCx<'_>) -> u32 {
        let bits = self.elem.bits(cx.number(self.value));
        if self.elem.lanes() == 4 { bits * 0x0101_0101 } else { bits }
    }
}

impl Op for Fill {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        Ok(Recipes { step_words: 1, ..Recipes::of([Recipe::new(Variant::new(&FILL), [Bind::Step, self.out.into()])]) })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = self.dims(cx)?;
        let vectors = self.elem.bytes(dims.count()).div_ceil(16);
        let count = u32::try_from(vectors).unwrap_or(u32::MAX);
        let params = Params { count, step_base: cx.step_base(), pad: [0; 2] };
        let plan = Plan::new(self.out, dims, Dispatch::items(0, &params, vectors, 256)?);
        Ok(Plan { step_words: vec![self.word(cx)], ..plan })
    }

    #[cfg(any(test, feature = "reference"))]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "integers wrap as PyTorch wraps them")]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let dims = self.dims(cx)?;
        let count = usize::try_from(dims.count()).unwrap_or(0);
        let value = cx.number(self.value);
        let data = match self.elem {
            Elem::F32 | Elem::F16 => HostData::F32(vec![value as f32; count]),
            Elem::I32 => HostData::I32(vec![value as i32; count]),
            Elem::Bool => HostData::U8(vec![u8::from(value != 0.0); count]),
            Elem::U8 | Elem::I8 => HostData::U8(vec![value as i64 as u8; count]),
        };
        tensors.set(self.out, dims, data);
        Ok(())
    }
}
