//! `et_vk.apply_rotary_emb_interleaved`: interleaved rotary embedding by a table of complex numbers cos + i·sin (`freqs_cis`).

use super::INCLUDES;
use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::reach::{DispatchView, Reached, count};
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

pub(super) const NAME: &str = "et_vk.apply_rotary_emb_interleaved.default";

pub(super) static KERNEL: KernelDef =
    KernelDef::new("rotary_interleaved_complex", include_str!("rotary_interleaved_complex.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .proven(reach);

params! {
    /// Of `rotary_interleaved_complex.wgsl`.
    struct Params { token_pairs: u32, count: u32, pad: [u32; 2] }
}

/// Pairs, and the angles of all tokens.
fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>()?;
    let (pairs, angles) = (count(params.count), count(params.token_pairs));
    (params.token_pairs > 0).then(|| Reached::new().array(pairs, 8).array(angles, 8).array(pairs, 8))
}

#[derive(Debug)]
struct InterleavedComplex {
    x: TensorId,
    freqs_cis: TensorId,
    out: TensorId,
}

pub(super) fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("x", &[Elem::F32])?;
    let freqs_cis = args.tensor_of("freqs_cis", &[Elem::F32])?;
    Ok(Box::new(InterleavedComplex { x, freqs_cis, out: args.output_of("out", Elem::F32)? }))
}

impl InterleavedComplex {
    /// The dims of the elements, checked against the angles.
    fn check(&self, cx: &PlanCx<'_>) -> Result<Dims, OpError> {
        let (x, angles) = (cx.dims(self.x), cx.dims(self.freqs_cis));
        let &[_, tokens, columns] = &*x else {
            return Err(OpError::new("x", format!("is {x}, expected [batch, tokens, columns]")));
        };
        if columns % 2 != 0 {
            return Err(OpError::new("x", format!("is {x}: {columns} columns cannot be paired")));
        }
        let expected = u64::from(tokens) * u64::from(columns);
        if angles.count() != expected {
            let what = format!("is {angles}, expected {expected} elements to go with `x` {x}");
            return Err(OpError::new("freqs_cis", what));
        }
        Ok(x)
    }
}

impl Op for InterleavedComplex {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let binds = [self.x, self.freqs_cis, self.out].map(Into::into);
        Ok(Recipes::of([Recipe::new(Variant::new(&KERNEL), binds)]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let x = self.check(cx)?;
        let params = Params { token_pairs: x.without(0).count_u32() / 2, count: x.count_u32() / 2, pad: [0; 2] };
        Ok(Plan::new(self.out, x, Dispatch::items(0, &params, params.count.into(), 256)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let x = self.check(cx)?;
        let angles = tensors.f32(self.freqs_cis).chunks_exact(2).cycle();
        let turned = |(pair, angle): (&[f32], &[f32])| {
            [pair[0] * angle[0] - pair[1] * angle[1], pair[0] * angle[1] + pair[1] * angle[0]]
        };
        let data = tensors.f32(self.x).chunks_exact(2).zip(angles).flat_map(turned).collect();
        tensors.set(self.out, x, HostData::F32(data));
        Ok(())
    }
}
