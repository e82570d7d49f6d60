//! `aten.index_put` with a mask: elements where the mask is true are replaced by one number, or by one row.

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};

pub(super) static KERNEL: KernelDef = KernelDef::new("scatter_masked", include_str!("scatter_masked.wgsl"), Params::FIELDS);

params! {
    /// Of `scatter_masked.wgsl`.
    struct Params { count: u32, inner: u32, values: u32, pad: u32 }
}

#[derive(Debug)]
struct MaskedPut {
    x: TensorId,
    mask: TensorId,
    values: TensorId,
    elem: Elem,
    out: TensorId,
}

pub(super) fn decode(args: &mut Args<'_>, x: TensorId, mask: TensorId) -> Result<Box<dyn Op>, OpError> {
    let elem = args.info(x).elem;
    let values = args.tensor_of("values", &[elem])?;
    if args.bool("accumulate")? {
        return Err(OpError::new("accumulate", "is true, which is not supported with a mask"));
    }
    Ok(Box::new(MaskedPut { x, mask, values, elem, out: args.output_of("out", elem)? }))
}

impl MaskedPut {
    fn params(&self, cx: &PlanCx<'_>) -> Result<Params, OpError> {
        let (x, mask, values) = (cx.dims(self.x), cx.dims(self.mask), cx.dims(self.values));
        let Some(rest) = x.strip_prefix(&*mask) else {
            return Err(OpError::new("indices", format!("has a mask of {mask}, but the tensor is {x}")));
        };
        let inner = rest.iter().fold(1, |inner: u32, &dim| inner.saturating_mul(dim));
        let found = values.count_u32();
        if x.count() > 0 && found != 1 && found != inner {
            let reason = format!("is {values}, but the mask decides how many are needed: expected 1 or {inner} elements");
            return Err(OpError::new("values", reason));
        }
        Ok(Params { count: x.count_u32(), inner: inner.max(1), values: found.max(1), pad: 0 })
    }
}

impl Op for MaskedPut {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let variant = Variant::new(&KERNEL).with("LANES", self.elem.lanes());
        Ok(Recipes::of([Recipe::new(variant, [self.x, self.mask, self.values, self.out].map(Into::into))]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (dims, params) = (cx.dims(self.x), self.params(cx)?);
        let words = dims.count().div_ceil(self.elem.lanes().into());
        Ok(Plan::new(self.out, dims, Dispatch::items(0, &params, words, 256)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let Params { inner, values: count, .. } = self.params(cx)?;
        let (values, mask) = (tensors.numbers(self.elem, self.values), tensors.u8(self.mask));
        let put = |(at, x): (usize, f64)| {
            if mask[at / inner as usize] == 0 { x } else { values[at % inner as usize % count as usize] }
        };
        let data = tensors.numbers(self.elem, self.x).into_iter().enumerate().map(put);
        let data = HostData::from_numbers(self.elem, data.collect::<Vec<f64>>());
        tensors.set(self.out, cx.dims(self.x), data);
        Ok(())
    }
}
