//! The gradient of a linear with respect to its weights: `d_out [m, n]` transposed times `x [m, k]`.

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::live::TensorId;
use crate::matmul::batched::{self, OperandLayout, Params};
use crate::plan::{BoundsCx, Op, Plan, PlanCx, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

#[derive(Debug)]
struct WeightGradient {
    d_out: TensorId,
    x: TensorId,
    out: TensorId,
}

pub(super) fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let (d_out, x) = (args.tensor_of("d_out", &[Elem::F32])?, args.tensor_of("x", &[Elem::F32])?);
    Ok(Box::new(WeightGradient { d_out, x, out: args.output_of("out", Elem::F32)? }))
}

/// The layouts for `x` in vectors of four, and otherwise.
const WAYS: [OperandLayout; 2] = [layout(true), layout(false)];

const fn layout(wide_weight: bool) -> OperandLayout {
    OperandLayout { transposed: false, wide_x: false, wide_weight, few_rows: false }
}

impl WeightGradient {
    fn product(&self, cx: &PlanCx<'_>) -> Result<(Dims, Params), OpError> {
        let (d_out, x) = (cx.dims(self.d_out), cx.dims(self.x));
        if d_out.is_empty() || x.is_empty() || d_out.rows() != x.rows() {
            return Err(OpError::new("x", format!("is {x}, expected as many rows as `d_out`, {d_out}")));
        }
        let (m, n) = (d_out.last(), x.last());
        let rows =
            u32::try_from(x.rows()).map_err(|_| OpError::new("x", format!("is {x}, with more rows than kernels count")))?;
        let params = Params {
            m,
            n,
            k: rows,
            x_row: 1,
            x_column: m,
            out_row: n,
            out_column: 1,
            alpha: 1.0,
            ..batched::batches(&Dims::SCALAR)
        };
        Ok((Dims::of([m, n]), params))
    }
}

impl Op for WeightGradient {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let binds = [self.d_out, self.x, self.x, self.out].map(Into::into);
        Ok(Recipes::of(WAYS.iter().flat_map(|way| way.recipes(&binds))))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (out, params) = self.product(cx)?;
        let way = layout(params.n.is_multiple_of(4));
        Ok(Plan::new(self.out, out, way.dispatch(&WAYS, params)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (out, params) = self.product(cx)?;
        let (d_out, x) = (tensors.f32(self.d_out), tensors.f32(self.x));
        let [m, n, rows] = [params.m, params.n, params.k].map(|size| size as usize);
        let element = |index: usize| {
            let (i, j) = (index / n, index % n);
            let sum: f64 = (0..rows).map(|row| f64::from(d_out[row * m + i]) * f64::from(x[row * n + j])).sum();
            #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
            let rounded = sum as f32;
            rounded
        };
        let data = (0..m * n).map(element).collect();
        tensors.set(self.out, out, HostData::F32(data));
        Ok(())
    }
}
