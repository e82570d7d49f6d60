//! `aten.grid_sampler_2d`: the pixels of an image at the points of a grid, interpolated. Points are from −1 to 1 across the image.

use super::{counted, image};
use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors, indices};
use crate::shape::Dims;

// Indices follow from data, so it keeps its bounds checks.
pub(super) static KERNEL: KernelDef = KernelDef::new("grid_sampler", include_str!("grid_sampler.wgsl"), Params::FIELDS);

params! {
    /// Of `grid_sampler.wgsl`.
    struct Params { height: u32, width: u32, channels: u32, points: u32, count: u32, pad: [u32; 3] }
}

#[derive(Debug)]
struct GridSampler {
    x: TensorId,
    grid: TensorId,
    interpolation: u32,
    padding: u32,
    align_corners: bool,
    out: TensorId,
}

pub(super) fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let (x, grid) = (args.tensor_of("input", &[Elem::F32])?, args.tensor_of("grid", &[Elem::F32])?);
    let interpolation = mode(args, "interpolation_mode", "0 (bilinear), 1 (nearest), 2 (bicubic)")?;
    let padding = mode(args, "padding_mode", "0 (zeros), 1 (border), 2 (reflection)")?;
    let align_corners = args.bool("align_corners")?;
    let out = args.output_of("out", Elem::F32)?;
    Ok(Box::new(GridSampler { x, grid, interpolation, padding, align_corners, out }))
}

/// One of three modes.
fn mode(args: &mut Args<'_>, name: &'static str, supported: &str) -> Result<u32, OpError> {
    let given = args.int(name)?;
    let mode = u32::try_from(given).ok().filter(|&mode| mode <= 2);
    mode.ok_or_else(|| OpError::new(name, format!("is {given}, supported: {supported}")))
}

impl GridSampler {
    fn out_dims(&self, cx: &PlanCx<'_>) -> Result<Dims, OpError> {
        let (x, grid) = (cx.dims(self.x), cx.dims(self.grid));
        let [batch, channels, height, width] = image("input", &x)?;
        let [grids, rows, columns, coordinates] = image("grid", &grid)?;
        if (grids, coordinates) != (batch, 2) {
            return Err(OpError::new(
                "grid",
                format!("is {grid}, expected [{batch}, height, width, 2] for an input of {x}"),
            ));
        }
        let out = Dims::of([batch, channels, rows, columns]);
        if out.count() > 0 && (height == 0 || width == 0) {
            return Err(OpError::new("input", format!("is {x}, without pixels to sample for an output of {out}")));
        }
        Ok(out)
    }
}

impl Op for GridSampler {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let variant = Variant::new(&KERNEL)
            .with("INTERPOLATION", self.interpolation)
            .with("PADDING", self.padding)
            .with("ALIGN_CORNERS", self.align_corners.into());
        Ok(Recipes::of([Recipe::new(variant, [self.x, self.grid, self.out].map(Into::into))]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (x, out) = (cx.dims(self.x), self.out_dims(cx)?);
        let points = out[2].saturating_mul(out[3]);
        let params = Params { height: x[2], width: x[3], channels: x[1], points, count: counted(&out)?, pad: [0; 3] };
        Ok(Plan::new(self.out, out, Dispatch::items(0, &params, out.count(), 256)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (x, out) = (cx.dims(self.x), self.out_dims(cx)?);
        let (values, grid) = (tensors.f32(self.x), tensors.f32(self.grid));
        let pixel = |index: Vec<u32>| {
            let at = ((index[0] * out[2] + index[2]) * out[3] + index[3]) as usize * 2;
            let place = |offset: usize, size: u32| {
                let (point, size) = (f64::from(grid[at + offset]), f64::from(size));
                if self.align_corners { (point + 1.0) / 2.0 * (size - 1.0) } else { ((point + 1.0) * size - 1.0) / 2.0 }
            };
            let value = |y: f64, column: f64| {
                let inside = y >= 0.0 && y < f64::from(x[2]) && column >= 0.0 && column < f64::from(x[3]);
                let plane = (index[0] * x[1] + index[1]) as usize;
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "inside the image")]
                let at = (plane * x[2] as usize + y.max(0.0) as usize) * x[3] as usize + column.max(0.0) as usize;
                if inside { f64::from(values[at]) } else { 0.0 }
            };
            let padded = |at: f64, size: u32| self.padded(at, size.into());
            let (px, py) = (place(0, x[3]), place(1, x[2]));
            match self.interpolation {
                1 => value(padded(py, x[2]).round_ties_even(), padded(px, x[3]).round_ties_even()),
                2 => {
                    let taps = |at: f64| [-1.0, 0.0, 1.0, 2.0].map(|tap| (at.floor() + tap, cubic(at - at.floor() - tap)));
                    let row = |(y, down): (f64, f64)| {
                        let each = |(column, across)| value(padded(y, x[2]), padded(column, x[3])) * across * down;
                        taps(px).map(each).iter().sum::<f64>()
                    };
                    taps(py).map(row).iter().sum()
                }
                _ => {
                    let (px, py) = (padded(px, x[3]), padded(py, x[2]));
                    let (fx, fy) = (px.floor(), py.floor());
                    let (u, v) = (px - fx, py - fy);
                    (1.0 - v) * ((1.0 - u) * value(fy, fx) + u * value(fy, fx + 1.0))
                        + v * ((1.0 - u) * value(fy + 1.0, fx) + u * value(fy + 1.0, fx + 1.0))
                }
            }
        };
        #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
        let data = indices(&out).map(|index| pixel(index) as f32).collect();
        tensors.set(self.out, out, HostData::F32(data));
        Ok(())
    }
}

#[cfg(any(test, feature = "reference"))]
impl GridSampler {
    /// A coordinate for a point that may be outside of `size` pixels.
    fn padded(&self, at: f64, size: f64) -> f64 {
        let (low, high) = if self.align_corners { (0.0, size - 1.0) } else { (-0.5, size - 0.5) };
        let inside = match self.padding {
            0 => return at,
            // Mirrored at both ends: a triangle wave.
            2 if high > low => {
                let past = (at - low).rem_euclid(2.0 * (high - low));
                low + past.min(2.0 * (high - low) - past)
            }
            2 => 0.0,
            _ => at,
        };
        inside.clamp(0.0, size - 1.0)
    }
}

/// Cubic convolution with a slope of −0.75 at a distance.
#[cfg(any(test, feature = "reference"))]
fn cubic(distance: f64) -> f64 {
    let d = distance.abs();
    let slope = -0.75;
    match d {
        d if d <= 1.0 => (slope + 2.0) * d.powi(3) - (slope + 3.0) * d.powi(2) + 1.0,
        d if d < 2.0 => slope * (d.powi(3) - 5.0 * d.powi(2) + 8.0 * d - 4.0),
        _ => 0.0,
    }
}
