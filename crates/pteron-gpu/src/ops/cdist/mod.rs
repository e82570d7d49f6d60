//! `aten._cdist_forward` and `aten._pdist_forward`: distances between rows of two tensors, or between all pairs of rows of one.

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
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors, indices};
use crate::shape::{Dims, MAX_RANK, broadcast, innermost_first};

static KERNEL: KernelDef = KernelDef::new("cdist", include_str!("cdist.wgsl"), Params::FIELDS);

const PAIRS: &str = "aten._pdist_forward.default";

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &["aten._cdist_forward.default", PAIRS], internal: &[], kernels: &[&KERNEL], decode };

params! {
    /// Of `cdist.wgsl`.
    struct Params {
        dims: [u32; MAX_RANK], a: [u32; MAX_RANK], b: [u32; MAX_RANK], count: u32, rank: u32, length: u32, norm: u32,
        p: f32, inverse: f32, pad: [u32; 2],
    }
}

#[derive(Debug)]
struct Distances {
    a: TensorId,
    /// The other rows; all pairs of rows of `a` if None.
    b: Option<TensorId>,
    p: f64,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let pairs = args.operator() == PAIRS;
    let a = args.tensor_of(if pairs { "self" } else { "x1" }, &[Elem::F32])?;
    let b = if pairs { None } else { Some(args.tensor_of("x2", &[Elem::F32])?) };
    let p = args.float("p")?;
    if p.is_nan() || p < 0.0 {
        return Err(OpError::new("p", format!("is {p}, it must be at least 0")));
    }
    if !pairs {
        // How to compute, not what.
        args.ignore("compute_mode")?;
    }
    Ok(Box::new(Distances { a, b, p, out: args.output_of("out", Elem::F32)? }))
}

/// Rows of both tensors as they are compared: dims of the distances, and strides of both at indices of them.
struct Layout {
    dims: Dims,
    a: [u32; MAX_RANK],
    b: [u32; MAX_RANK],
    length: u32,
    out: Dims,
}

impl Distances {
    fn layout(&self, cx: &PlanCx<'_>) -> Result<Layout, OpError> {
        let x = cx.dims(self.a);
        let Some(b) = self.b else {
            let &[rows, length] = &*x else {
                return Err(OpError::new("self", format!("is {x}, expected rows of a matrix")));
            };
            let pairs = u64::from(rows) * u64::from(rows.saturating_sub(1)) / 2;
            let Ok(pairs) = u32::try_from(pairs) else {
                return Err(OpError::new("self", format!("is {x}, with more pairs of rows than kernels index")));
            };
            let strides = |at: usize| std::array::from_fn(|axis| if axis == at { length } else { 0 });
            return Ok(Layout {
                dims: Dims::of([rows, rows]),
                a: strides(0),
                b: strides(1),
                length,
                out: Dims::of([pairs]),
            });
        };
        let y = cx.dims(b);
        let (Some((&length, _)), Some((&other, _))) = (x.split_last(), y.split_last()) else {
            return Err(OpError::new("x1", format!("is {x}, expected at least two dimensions")));
        };
        if x.len() < 2 || y.len() < 2 || length != other {
            return Err(OpError::new("x2", format!("is {y}, expected rows of {length} as in {x}")));
        }
        // Rows of the first are rows of the result, those of the second its columns.
        let rows = |dims: &Dims, after: bool| {
            let (leading, rows) = (&dims[..dims.len() - 2], dims[dims.len() - 2]);
            let both = if after { [1, rows] } else { [rows, 1] };
            Dims::from_sizes(leading.iter().chain(&both).copied().map(i64::from))
        };
        let (Some(first), Some(second)) = (rows(&x, false), rows(&y, true)) else {
            return Err(OpError::new("x1", format!("is {x}, too many dimensions")));
        };
        let dims = broadcast(&first, &second)
            .ok_or_else(|| OpError::new("x2", format!("is {y}, which cannot be broadcast with {x}")))?;
        let strides = |own: &Dims| {
            let strides = own.broadcast_strides(&dims).unwrap_or([0; MAX_RANK]);
            strides.map(|stride| stride.saturating_mul(length))
        };
        Ok(Layout { dims, a: strides(&first), b: strides(&second), length, out: dims })
    }
}

impl Op for Distances {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let variant = Variant::new(&KERNEL).with("PAIRS", self.b.is_none().into());
        Ok(Recipes::of([Recipe::new(variant, [self.a, self.b.unwrap_or(self.a), self.out].map(Into::into))]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let Layout { dims, a, b, length, out } = self.layout(cx)?;
        let own = |strides: &[u32; MAX_RANK]| innermost_first(&strides[..dims.len()], 0);
        // As the kernel numbers them.
        let norm = match self.p {
            0.0 => 0,
            1.0 => 1,
            2.0 => 2,
            p if p.is_infinite() => 3,
            _ => 4,
        };
        #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
        let (p, inverse) = (self.p as f32, (1.0 / self.p) as f32);
        let params = Params {
            dims: innermost_first(&dims, 1),
            a: own(&a),
            b: own(&b),
            count: out.count_u32(),
            rank: u32::try_from(dims.len()).unwrap_or(0),
            length,
            norm,
            p,
            inverse,
            pad: [0; 2],
        };
        Ok(Plan::new(self.out, out, Dispatch::items(0, &params, out.count(), 256)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let Layout { dims, a, b, length, out } = self.layout(cx)?;
        let x = tensors.numbers(Elem::F32, self.a);
        let y = tensors.numbers(Elem::F32, self.b.unwrap_or(self.a));
        let distance = |index: Vec<u32>| {
            let at = |strides: &[u32; MAX_RANK]| {
                index.iter().zip(strides).map(|(&at, &stride)| at as usize * stride as usize).sum::<usize>()
            };
            let (a, b) = (at(&a), at(&b));
            let apart = (0..length as usize).map(|k| (x[a + k] - y[b + k]).abs());
            match self.p {
                0.0 => apart.filter(|&d| d != 0.0).map(|_| 1.0).sum(),
                p if p.is_infinite() => apart.fold(0.0, f64::max),
                p => apart.map(|d| d.powf(p)).sum::<f64>().powf(1.0 / p),
            }
        };
        let counted = indices(&dims).filter(|index| self.b.is_some() || index[0] < index[1]);
        let values: Vec<f64> = counted.map(distance).collect();
        debug_assert_eq!(values.len() as u64, out.count());
        tensors.set(self.out, out, HostData::from_numbers(Elem::F32, values));
        Ok(())
    }
}
