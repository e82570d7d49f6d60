//! Pooling over two dimensions: the largest element of each window, with or without its index, and the average. Operators of this
//! crate take tensors with channels last.

mod adaptive;
#[cfg(any(test, feature = "reference"))]
mod reference;
#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::fuse::Relayout;
use crate::graph::Elem;
use crate::ir::{Call, ValueId};
use crate::kernel::{Include, KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::{OpDef, names};
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::HostTensors;
use crate::row_axes::RowAxes;
use crate::shape::Dims;
use crate::window::{self, Window};
use crate::{includes, params};

const INCLUDES: &[Include] = includes!["pool_maximum", "pool_window"];

/// The types that kernels leave open: a load, its bits, its comparison, and its indices.
const TYPES: [[(&str, &str); 4]; 2] = [
    [("T", "f32"), ("U", "u32"), ("B", "bool"), ("I", "i32")],
    [("T", "vec4<f32>"), ("U", "vec4<u32>"), ("B", "vec4<bool>"), ("I", "vec4<i32>")],
];

static MAX: KernelDef = KernelDef::new("max_pool2d", include_str!("max_pool2d.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .with_variants(|| variants(&MAX));
static MAX_INDICES: KernelDef =
    KernelDef::new("max_pool2d_indices", include_str!("max_pool2d_indices.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .with_variants(|| variants(&MAX_INDICES));
static AVG: KernelDef = KernelDef::new("avg_pool2d", include_str!("avg_pool2d.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .with_variants(|| variants(&AVG));

fn variants(kernel: &'static KernelDef) -> Vec<Variant> {
    let with_types = |types: &[(&'static str, &'static str)]| {
        types.iter().fold(Variant::new(kernel), |variant, (name, ty)| variant.with_type(name, ty))
    };
    TYPES.iter().map(|types| with_types(types)).collect()
}

/// An operator of the family.
struct Form {
    name: &'static str,
    kind: Kind,
    channels_last: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Max,
    MaxIndices,
    Average,
}

pub(crate) const MAX_CHANNELS_LAST: &str = "pteron.max_pool2d_channels_last";
pub(crate) const AVG_CHANNELS_LAST: &str = "pteron.avg_pool2d_channels_last";

const TABLE: &[Form] = &[
    Form { name: "aten.max_pool2d.default", kind: Kind::Max, channels_last: false },
    Form { name: "aten.max_pool2d_with_indices.default", kind: Kind::MaxIndices, channels_last: false },
    Form { name: "aten.avg_pool2d.default", kind: Kind::Average, channels_last: false },
    Form { name: MAX_CHANNELS_LAST, kind: Kind::Max, channels_last: true },
    Form { name: AVG_CHANNELS_LAST, kind: Kind::Average, channels_last: true },
];

/// The registry entry.
pub static DEF: OpDef = OpDef {
    names: &names!(TABLE, name),
    internal: &[MAX_CHANNELS_LAST, AVG_CHANNELS_LAST],
    kernels: &[&MAX, &MAX_INDICES, &AVG],
    decode,
};
/// The registry entry of pools to a given size.
pub use adaptive::DEF as ADAPTIVE;

params! {
    /// Of `include/pool_window.wgsl`.
    struct Params {
        count: u32, inner: u32, input_h: u32, input_w: u32, output_h: u32, output_w: u32,
        kernel_h: u32, kernel_w: u32, stride_h: u32, stride_w: u32, before_h: u32, before_w: u32,
        dilation_h: u32, dilation_w: u32, include_padding: u32, divisor: f32, lowest: f32, pad: [u32; 3],
    }
}

/// Pooling.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) x: TensorId,
    kind: Kind,
    pub(crate) channels_last: bool,
    windows: [Window; 2],
    ceil: bool,
    include_padding: bool,
    /// The number that sums are divided by, if not their count.
    divisor: Option<i64>,
    pub(crate) out: TensorId,
    pub(crate) indices: Option<TensorId>,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let form = args.row(TABLE);
    let x = args.tensor_of("self", &[Elem::F32])?;
    let kernel = window::sizes(args, "kernel_size", 2, 1)?;
    let stride = window::sizes_or(args, "stride", &kernel, 1)?;
    let (before, after) = window::paddings(args, "padding", 2, form.channels_last)?;
    let average = form.kind == Kind::Average;
    let dilation = if average { vec![1; 2] } else { window::sizes_or(args, "dilation", &[1; 2], 1)? };
    let windows = [0, 1].map(|axis| Window {
        kernel: kernel[axis],
        stride: stride[axis],
        padding: before[axis],
        after: after[axis],
        dilation: dilation[axis],
    });
    // Every window has an element of the input, unless the padding after it is larger than that before.
    if let Some(window) = windows.iter().find(|window| 2 * u64::from(window.padding) > window.extent()) {
        let reason = format!("is {}, expected at most half of the window's {}", window.padding, window.extent());
        return Err(OpError::new("padding", reason));
    }
    let ceil = args.bool("ceil_mode")?;
    let include_padding = average && args.bool("count_include_pad")?;
    let divisor = if average { decode_divisor(args)? } else { None };
    let (out, indices) = decode_outputs(args, form.kind)?;
    let channels_last = form.channels_last;
    Ok(Box::new(Pool { x, kind: form.kind, channels_last, windows, ceil, include_padding, divisor, out, indices }))
}

fn decode_divisor(args: &mut Args<'_>) -> Result<Option<i64>, OpError> {
    let given = args.optional_float("divisor_override")?;
    #[allow(clippy::cast_possible_truncation, reason = "the number is whole and small")]
    let divisor = given.map(|given| given as i64);
    match given {
        Some(value) if value == 0.0 || value.fract() != 0.0 || value.abs() > 9.0e15 => {
            Err(OpError::new("divisor_override", format!("is {value}, expected an integer other than 0")))
        }
        _ => Ok(divisor),
    }
}

fn decode_outputs(args: &mut Args<'_>, kind: Kind) -> Result<(TensorId, Option<TensorId>), OpError> {
    if kind != Kind::MaxIndices {
        return Ok((args.output_of("out", Elem::F32)?, None));
    }
    let outputs = args.outputs("out", 2)?;
    let (out, indices) = (outputs[0], outputs[1]);
    for (tensor, elem) in [(out, Elem::F32), (indices, Elem::I32)] {
        let found = args.info(tensor).elem;
        if found != elem {
            return Err(OpError::new("out", format!("has elements {found:?}, but the result's are {elem:?}")));
        }
    }
    Ok((out, Some(indices)))
}

/// A tensor as planes of pixels with channels inside.
struct Layout {
    #[cfg(any(test, feature = "reference"))]
    planes: u32,
    inner: u32,
    input: [u32; 2],
    output: [u32; 2],
    out: Dims,
}

impl Pool {
    fn layout(&self, cx: &PlanCx<'_>) -> Result<Layout, OpError> {
        let x = cx.dims(self.x);
        let rank = x.len();
        if !(3..=4).contains(&rank) {
            return Err(OpError::new("self", format!("is {x}, expected 3 or 4 dimensions")));
        }
        // Rows and columns are the last two dims, or those before the channels.
        let rows = if self.channels_last { rank - 3 } else { rank - 2 };
        let input = [x[rows], x[rows + 1]];
        let mut output = [0; 2];
        for axis in 0..2 {
            output[axis] = self.windows[axis].count("self", input[axis], self.ceil)?;
        }
        let inner = if self.channels_last { x.last() } else { 1 };
        Ok(Layout {
            #[cfg(any(test, feature = "reference"))]
            planes: Dims::new(&x[..rows]).map_or(0, |dims| dims.count_u32()),
            inner,
            input,
            output,
            out: x.with(rows, output[0]).with(rows + 1, output[1]),
        })
    }
}

impl Op for Pool {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        rows.batch(self.x)
    }

    fn channels_last(&self, layout: &mut Relayout<'_>) -> Option<Call> {
        let x = layout.moved(self.x).filter(|_| !self.channels_last && layout.info(self.x).bound.len() == 4)?;
        if !layout.can_move(self.out) || self.indices.is_some_and(|indices| !layout.is_unused(indices)) {
            return None;
        }
        let mut args = layout.call.args.clone();
        *args.first_mut()? = ValueId(x.0);
        *args.last_mut()? = ValueId(layout.output(self.out).0);
        let name = if self.kind == Kind::Average { AVG_CHANNELS_LAST } else { MAX_CHANNELS_LAST };
        Some(Call::new(&DEF, name, args))
    }

    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let kernel = match self.kind {
            Kind::Max => &MAX,
            Kind::MaxIndices => &MAX_INDICES,
            Kind::Average => &AVG,
        };
        let binds = [Some(self.x), Some(self.out), self.indices].into_iter().flatten().map(Into::into);
        Ok(Recipes::of(variants(kernel).into_iter().map(|variant| Recipe::new(variant, binds.clone()))))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let Layout { inner, input, output, out, .. } = self.layout(cx)?;
        let wide = inner > 1 && inner.is_multiple_of(4);
        let lanes = if wide { 4 } else { 1 };
        let [down, across] = self.windows;
        #[allow(clippy::cast_precision_loss, reason = "kernels divide 32-bit floats")]
        let divisor = self.divisor.unwrap_or(0) as f32;
        let params = Params {
            count: out.count_u32() / lanes,
            inner: inner / lanes,
            input_h: input[0],
            input_w: input[1],
            output_h: output[0],
            output_w: output[1],
            kernel_h: down.kernel,
            kernel_w: across.kernel,
            stride_h: down.stride,
            stride_w: across.stride,
            before_h: down.padding,
            before_w: across.padding,
            dilation_h: down.dilation,
            dilation_w: across.dilation,
            include_padding: self.include_padding.into(),
            divisor,
            lowest: f32::NEG_INFINITY,
            pad: [0; 3],
        };
        let steps = Dispatch::items(usize::from(wide), &params, out.count() / u64::from(lanes), 256)?;
        let mut plan = Plan::new(self.out, out, steps);
        plan.outputs.extend(self.indices.map(|indices| (indices, out)));
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let layout = self.layout(cx)?;
        self.pool_on_host(&layout, tensors);
        Ok(())
    }
}
