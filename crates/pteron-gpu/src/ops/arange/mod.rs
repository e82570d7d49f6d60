//! `aten.arange`: evenly spaced numbers from a start to before an end.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::{Number, TensorId};
use crate::ops::OpDef;
use crate::params;
use crate::plan::{Bind, BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

static ARANGE: KernelDef =
    KernelDef::new("arange", include_str!("arange.wgsl"), Params::FIELDS).with_types(&[("T", &["f32", "i32"])]);

params! {
    /// Of `arange.wgsl`.
    struct Params { count: u32, step_base: u32, pad: [u32; 2] }
}

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &[START_STEP, START, END], internal: &[], kernels: &[&ARANGE], decode };

const START_STEP: &str = "aten.arange.start_step";
const START: &str = "aten.arange.start";
const END: &str = "aten.arange.default";

#[derive(Debug)]
struct Arange {
    start: Number,
    end: Number,
    step: Number,
    elem: Elem,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let name = args.operator();
    let start = if name == END { Number::Fixed(0.0) } else { args.number("start")? };
    let end = args.number("end")?;
    let step = if name == START_STEP { args.number("step")? } else { Number::Fixed(1.0) };
    // The type is the output's own; layout, device and memory do not apply.
    ["dtype", "layout", "device", "pin_memory"].iter().try_for_each(|name| args.ignore(name))?;
    let out = args.output("out")?;
    match args.info(out).elem {
        elem @ (Elem::F32 | Elem::I32) => Ok(Box::new(Arange { start, end, step, elem, out })),
        elem => Err(OpError::new("out", format!("has elements {elem:?}, supported: [F32, I32]"))),
    }
}

impl Arange {
    /// The first number, the step, and the count.
    fn range(&self, cx: &PlanCx<'_>) -> Result<(f64, f64, u32), OpError> {
        let (start, end, step) = (cx.number(self.start), cx.number(self.end), cx.number(self.step));
        let count = ((end - start) / step).ceil();
        if !(step != 0.0 && count.is_finite() && (0.0..=f64::from(u32::MAX)).contains(&count)) {
            let range = format!("is {end}, which no number of steps of {step} leads to from {start}");
            return Err(OpError::new("end", range));
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
        Ok((start, step, count as u32))
    }
}

impl Op for Arange {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let ty = if self.elem == Elem::F32 { "f32" } else { "i32" };
        let recipe = Recipe::new(Variant::new(&ARANGE).with_type("T", ty), [Bind::Step, self.out.into()]);
        Ok(Recipes { step_words: 2, ..Recipes::of([recipe]) })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (start, step, count) = self.range(cx)?;
        let params = Params { count, step_base: cx.step_base(), pad: [0; 2] };
        let dims = Dims::of([count]);
        let plan = Plan::new(self.out, dims, Dispatch::items(0, &params, count.into(), 256)?);
        Ok(Plan { step_words: vec![self.elem.bits(start), self.elem.bits(step)], ..plan })
    }

    #[cfg(any(test, feature = "reference"))]
    #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (start, step, count) = self.range(cx)?;
        let values = (0..count).map(|i| start + f64::from(i) * step);
        let data = match self.elem {
            Elem::F32 => HostData::F32(values.map(|value| value as f32).collect()),
            _ => HostData::I32(values.map(|value| value as i32).collect()),
        };
        tensors.set(self.out, Dims::of([count]), data);
        Ok(())
    }
}
