//! Pooling of images to a given size: windows divide the image into as many parts as there are outputs, which may overlap by a pixel.

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
use crate::row_axes::RowAxes;
use crate::shape::Dims;

static AVG: KernelDef =
    KernelDef::new("adaptive_avg_pool", include_str!("adaptive_avg_pool.wgsl"), Params::FIELDS).with_includes(&[INCLUDES]);
static MAX: KernelDef =
    KernelDef::new("adaptive_max_pool", include_str!("adaptive_max_pool.wgsl"), Params::FIELDS).with_includes(&[INCLUDES]);

const INCLUDES: &[crate::kernel::Include] = crate::includes!["adaptive_window"];

const AVG_1D: &str = "aten.adaptive_avg_pool1d.default";
const AVG_2D: &str = "aten._adaptive_avg_pool2d.default";
const AVG_3D: &str = "aten._adaptive_avg_pool3d.default";
const MAX_2D: &str = "aten.adaptive_max_pool2d.default";
const MAX_3D: &str = "aten.adaptive_max_pool3d.default";

/// The registry entry.
pub static DEF: OpDef =
    OpDef { names: &[AVG_2D, AVG_1D, AVG_3D, MAX_2D, MAX_3D], internal: &[], kernels: &[&AVG, &MAX], decode };

params! {
    /// Of `include/adaptive_window.wgsl`.
    struct Params { count: u32, lowest: f32, pad: [u32; 2], input: [u32; 4], output: [u32; 4] }
}

#[derive(Debug)]
struct AdaptivePool {
    x: TensorId,
    /// The size of the output in each direction.
    size: Vec<Scalar>,
    out: TensorId,
    /// The indices of maxima; `None` for averages.
    indices: Option<TensorId>,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let name = args.operator();
    let x = args.tensor_of("self", &[Elem::F32])?;
    let directions = match name {
        AVG_1D => 1,
        AVG_3D | MAX_3D => 3,
        _ => 2,
    };
    let size = args.scalars("output_size")?;
    if size.len() != directions {
        return Err(OpError::new("output_size", format!("has {} numbers, expected {directions}", size.len())));
    }
    let rank = args.info(x).bound.len();
    if !(directions..=directions + 2).contains(&rank) {
        let reason =
            format!("is {}, expected {directions} dimensions of pixels and up to two before them", args.info(x).bound);
        return Err(OpError::new("self", reason));
    }
    if ![MAX_2D, MAX_3D].contains(&name) {
        return Ok(Box::new(AdaptivePool { x, size, out: args.output_of("out", Elem::F32)?, indices: None }));
    }
    let outputs = args.outputs("out", 2)?;
    for (&output, elem) in outputs.iter().zip([Elem::F32, Elem::I32]) {
        let found = args.info(output).elem;
        if found != elem {
            return Err(OpError::new("out", format!("has elements {found:?}, but the result's are {elem:?}")));
        }
    }
    Ok(Box::new(AdaptivePool { x, size, out: outputs[0], indices: Some(outputs[1]) }))
}

impl AdaptivePool {
    /// The sizes of images before and after, depth first and 1 where there is none, and the dims of the output.
    fn sizes(&self, cx: &PlanCx<'_>) -> Result<([u32; 3], [u32; 3], Dims), OpError> {
        let mut dims = cx.dims(self.x);
        let (lead, missing) = (dims.len() - self.size.len(), 3 - self.size.len());
        let (mut input, mut output) = ([1; 3], [1; 3]);
        for (at, &size) in self.size.iter().enumerate() {
            let live = cx.scalar(size);
            let Ok(size) = u32::try_from(live) else {
                return Err(OpError::new("output_size", format!("has {live}, which no image can have")));
            };
            let from = dims[lead + at];
            // Windows are computed in 32 bits.
            if (size > 0 && from == 0) || u64::from(from) * (u64::from(size) + 1) > u64::from(u32::MAX) {
                return Err(OpError::new("self", format!("is {dims}, which windows cannot divide into {size}")));
            }
            (input[missing + at], output[missing + at]) = (from, size);
            dims = dims.with(lead + at, size);
        }
        Ok((input, output, dims))
    }
}

impl Op for AdaptivePool {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        rows.batch(self.x)
    }

    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let kernel = if self.indices.is_some() { &MAX } else { &AVG };
        let binds = [Some(self.x), Some(self.out), self.indices].into_iter().flatten().map(Into::into);
        Ok(Recipes::of([Recipe::new(Variant::new(kernel), binds)]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let ([d, h, w], [to_d, to_h, to_w], out) = self.sizes(cx)?;
        let params = Params {
            count: out.count_u32(),
            lowest: f32::NEG_INFINITY,
            pad: [0; 2],
            input: [d, h, w, 0],
            output: [to_d, to_h, to_w, 0],
        };
        let mut plan = Plan::new(self.out, out, Dispatch::items(0, &params, out.count(), 256)?);
        plan.outputs.extend(self.indices.map(|indices| (indices, out)));
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (input, output, out) = self.sizes(cx)?;
        let x = tensors.f32(self.x);
        let range = |axis: usize, at: u32| {
            let (from, to) = (u64::from(input[axis]), u64::from(output[axis]));
            let (start, end) = (u64::from(at) * from / to, ((u64::from(at) + 1) * from).div_ceil(to));
            (start..end).map(|place| usize::try_from(place).unwrap_or(0))
        };
        let image: usize = input.iter().map(|&size| size as usize).product();
        let pixels: usize = output.iter().map(|&size| size as usize).product();
        let (mut values, mut indices) = (Vec::new(), Vec::new());
        for at in 0..usize::try_from(out.count()).unwrap_or(0) {
            let place = u32::try_from(at % pixels).unwrap_or(0);
            let index = [place / output[2] / output[1], place / output[2] % output[1], place % output[2]];
            let (mut sum, mut count, mut best) = (0.0, 0.0, None::<(usize, f32)>);
            for z in range(0, index[0]) {
                for y in range(1, index[1]) {
                    for column in range(2, index[2]) {
                        let offset = (z * input[1] as usize + y) * input[2] as usize + column;
                        let value = x[at / pixels * image + offset];
                        sum += f64::from(value);
                        count += 1.0;
                        if best.is_none_or(|(_, best)| value > best || value.is_nan()) {
                            best = Some((offset, value));
                        }
                    }
                }
            }
            let (index, largest) = best.unwrap_or((0, 0.0));
            values.push(if self.indices.is_some() { f64::from(largest) } else { sum / count });
            indices.push(i32::try_from(index).unwrap_or(0));
        }
        tensors.set(self.out, out, HostData::from_numbers(Elem::F32, values));
        if let Some(tensor) = self.indices {
            tensors.set(tensor, out, HostData::I32(indices));
        }
        Ok(())
    }
}
