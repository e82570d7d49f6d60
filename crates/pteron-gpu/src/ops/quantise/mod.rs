//! Quantisation and dequantisation with parameters in tensors: per channel, per token, per tensor, or per block. Each row of `TABLE` is
//! an operator. A block of elements shares a scale and a zero point; blocks are boxes that divide the tensor.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::reach::{DispatchView, Reached, count};
use crate::kernel::{KernelDef, Variant};
use crate::live::{Scalar, TensorId};
use crate::ops::{OpDef, names};
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors, indices};
use crate::shape::{Dims, MAX_RANK, innermost_first};

static KERNEL: KernelDef =
    KernelDef::new("quantise", include_str!("quantise.wgsl"), Params::FIELDS).with_variants(variants).proven(reach);

params! {
    /// Of `quantise.wgsl`.
    struct Params {
        dims: [u32; MAX_RANK], sizes: [u32; MAX_RANK], strides: [u32; MAX_RANK],
        count: u32, rank: u32, blocks: u32, zero_points: u32, least: f32, most: f32, pad: [u32; 2],
    }
}

/// The operators of the family.
const TABLE: &[(&str, Row)] = &[
    (
        "quantized_decomposed.quantize_per_channel.default",
        Row { blocks: Sharing::Channel, dequantises: false, round_last: false },
    ),
    (
        "quantized_decomposed.dequantize_per_channel.default",
        Row { blocks: Sharing::Channel, dequantises: true, round_last: false },
    ),
    (
        "quantized_decomposed.quantize_per_token.default",
        Row { blocks: Sharing::Token, dequantises: false, round_last: true },
    ),
    (
        "quantized_decomposed.dequantize_per_token.default",
        Row { blocks: Sharing::Token, dequantises: true, round_last: false },
    ),
    (
        "quantized_decomposed.quantize_per_tensor.tensor",
        Row { blocks: Sharing::Tensor, dequantises: false, round_last: false },
    ),
    (
        "quantized_decomposed.dequantize_per_tensor.tensor",
        Row { blocks: Sharing::Tensor, dequantises: true, round_last: false },
    ),
    ("torchao.quantize_affine.default", Row { blocks: Sharing::Blocks, dequantises: false, round_last: false }),
    ("torchao.dequantize_affine.default", Row { blocks: Sharing::Blocks, dequantises: true, round_last: false }),
];

#[derive(Debug)]
struct Row {
    blocks: Sharing,
    dequantises: bool,
    /// Whether the zero point is added before rounding, which decides ties.
    round_last: bool,
}

/// The elements that share parameters, as an operator's arguments state them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// One index of an axis.
    Channel,
    /// A row of the last dimension.
    Token,
    Tensor,
    /// Boxes of given sizes.
    Blocks,
}

static NAMES: [&str; TABLE.len()] = names!(TABLE, 0);

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef { names: &NAMES, internal: &[], kernels: &[&KERNEL], decode };

/// The sizes of a block.
#[derive(Debug)]
enum BlockSizes {
    /// 1 along the axis, and the whole tensor along others.
    Channel(usize),
    Token,
    Tensor,
    /// These. A size equal to the dim's bound follows the live dim.
    Boxes {
        sizes: Vec<Scalar>,
        bound: Dims,
    },
}

/// The element types that integers may have.
const INTEGERS: &[Elem] = &[Elem::I8, Elem::U8, Elem::I32];
/// The element types of zero points. Without zero points they are 0.
const ZERO_POINTS: &[Elem] = &[Elem::I32, Elem::I8, Elem::U8, Elem::F32];

#[derive(Debug)]
struct Quantise {
    row: &'static Row,
    x: TensorId,
    blocks: BlockSizes,
    scales: TensorId,
    zero_points: Option<(TensorId, Elem)>,
    range: [f32; 2],
    /// The type of the integers.
    integers: Elem,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let (_, row) = args.row(TABLE);
    let x = args.tensor_of("input", if row.dequantises { INTEGERS } else { &[Elem::F32] })?;
    let bound = args.info(x).bound;
    let boxes = if row.blocks == Sharing::Blocks { Some(args.scalars("block_size")?) } else { None };
    if let Some(sizes) = boxes.as_ref().filter(|sizes| sizes.len() != bound.len()) {
        return Err(OpError::new(
            "block_size",
            format!("has {} numbers, but `input` has {} dimensions", sizes.len(), bound.len()),
        ));
    }
    let scales = args.tensor_of("scale", &[Elem::F32])?;
    let zero_points = args.optional_tensor_of("zero_point", ZERO_POINTS)?.map(|tensor| (tensor, args.info(tensor).elem));
    let blocks = match (row.blocks, boxes) {
        (Sharing::Channel, _) => BlockSizes::Channel(channel_axis(args, &bound)?),
        (Sharing::Token, _) if bound.is_empty() => {
            return Err(OpError::new("input", format!("is {bound}, expected at least one dimension")));
        }
        (Sharing::Token, _) => BlockSizes::Token,
        (Sharing::Blocks, Some(sizes)) => BlockSizes::Boxes { sizes, bound },
        _ => BlockSizes::Tensor,
    };
    if row.blocks == Sharing::Blocks {
        // The type of the integers: the tensor has it.
        args.ignore("dtype")?;
    }
    let range = range(args)?;
    if row.blocks != Sharing::Blocks {
        args.ignore("dtype")?;
    }
    if row.dequantises {
        args.ignore("out_dtype")?;
    }
    let out = args.output("out")?;
    let (from, to) = (args.info(x).elem, args.info(out).elem);
    let allowed: &[Elem] = if row.dequantises { &[Elem::F32] } else { INTEGERS };
    if !allowed.contains(&to) {
        return Err(OpError::new("out", format!("has elements {to:?}, supported: {allowed:?}")));
    }
    let integers = if row.dequantises { from } else { to };
    Ok(Box::new(Quantise { row, x, blocks, scales, zero_points, range, integers, out }))
}

fn channel_axis(args: &mut Args<'_>, bound: &Dims) -> Result<usize, OpError> {
    if bound.is_empty() {
        return Err(OpError::new("input", format!("is {bound}, expected at least one dimension")));
    }
    args.axis("axis", bound.len())
}

/// The least and the largest integer. Bounds beyond 24 bits are rounded to floats that fit 32-bit integers.
fn range(args: &mut Args<'_>) -> Result<[f32; 2], OpError> {
    let mut bound = |name| {
        let value = args.int(name)?;
        #[allow(clippy::cast_precision_loss, reason = "rounded, and below 2^31")]
        let float = i32::try_from(value).map(|value| (value as f32).min(2_147_483_520.0));
        float.map_err(|_| OpError::new(name, format!("is {value}, expected a number of 32 bits")))
    };
    let (least, most) = (bound("quant_min")?, bound("quant_max")?);
    if least > most {
        return Err(OpError::new("quant_max", format!("is {most}, less than quant_min, {least}")));
    }
    Ok([least, most])
}

/// The division of a tensor into blocks.
struct Blocks {
    /// The size of a block along each dimension.
    sizes: Vec<u32>,
    /// Blocks along each dimension.
    counts: Dims,
}

impl Quantise {
    fn blocks(&self, cx: &PlanCx<'_>) -> Result<Blocks, OpError> {
        let dims = cx.dims(self.x);
        let sizes: Vec<u32> = match &self.blocks {
            BlockSizes::Channel(axis) => (0..dims.len()).map(|at| if at == *axis { 1 } else { dims[at].max(1) }).collect(),
            BlockSizes::Token => (0..dims.len()).map(|at| if at + 1 == dims.len() { dims[at].max(1) } else { 1 }).collect(),
            BlockSizes::Tensor => dims.iter().map(|&dim| dim.max(1)).collect(),
            BlockSizes::Boxes { sizes, bound } => self.boxes(cx, sizes, bound, &dims)?,
        };
        let counts = dims.iter().zip(&sizes).map(|(&dim, &size)| i64::from(dim.div_ceil(size)));
        let counts = Dims::from_sizes(counts).unwrap_or(dims);
        // A tensor without elements has no blocks, and its parameters are not read.
        for (name, tensor) in [("scale", Some(self.scales)), ("zero_point", self.zero_points.map(|(tensor, _)| tensor))] {
            if let Some(found) =
                tensor.map(|tensor| cx.dims(tensor)).filter(|found| dims.count() > 0 && found.count() != counts.count())
            {
                return Err(OpError::new(
                    name,
                    format!("is {found}, but an input of {dims} has blocks of {sizes:?}, {} in all", counts.count()),
                ));
            }
        }
        Ok(Blocks { sizes, counts })
    }

    fn boxes(&self, cx: &PlanCx<'_>, sizes: &[Scalar], bound: &Dims, dims: &Dims) -> Result<Vec<u32>, OpError> {
        let size = |((&size, &bound), &dim): ((&Scalar, &u32), &u32)| {
            let live = cx.scalar(size);
            if size == Scalar::Fixed(bound.into()) {
                return Ok(dim.max(1));
            }
            let size = u32::try_from(live).ok().filter(|&size| size > 0 && dim % size == 0);
            size.ok_or_else(|| {
                OpError::new("block_size", format!("has {live}, which does not divide {dim} of an input of {dims}"))
            })
        };
        sizes.iter().zip(bound.iter()).zip(dims.iter()).map(size).collect()
    }

    fn variant(row: &Row, integers: Elem, zero_points: Option<Elem>) -> Variant {
        let (stored, floats) = (if integers == Elem::I32 { "vec4<i32>" } else { "u32" }, "vec4<f32>");
        let zero = match zero_points {
            None => ("u32", "0.0"),
            Some(Elem::F32) => ("f32", "zero_points[block]"),
            Some(Elem::I8) => ("u32", "f32(bitcast<i32>(zero_points[block / 4u] << (24u - 8u * (block % 4u))) >> 24u)"),
            Some(Elem::U8) => ("u32", "f32((zero_points[block / 4u] >> (8u * (block % 4u))) & 255u)"),
            Some(_) => ("i32", "f32(zero_points[block])"),
        };
        let widened = match integers {
            Elem::I32 => "vec4<f32>(v)",
            Elem::U8 => "vec4<f32>((vec4<u32>(v) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u))",
            _ => "vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(v) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u))",
        };
        let narrowed = match integers {
            Elem::I32 => "vec4<i32>(v)",
            _ => "dot((bitcast<vec4<u32>>(vec4<i32>(v)) & vec4<u32>(255u)) << vec4<u32>(0u, 8u, 16u, 24u), vec4<u32>(1u))",
        };
        let (from, to) = if row.dequantises { (stored, floats) } else { (floats, stored) };
        let [load, store] = if row.dequantises { [widened, "v"] } else { ["v", narrowed] };
        let convert = match (row.dequantises, row.round_last) {
            (true, _) => "(v - zero) * scale",
            (false, false) => "clamp(round(v * reciprocals(scale)) + zero, vec4<f32>(params.least), vec4<f32>(params.most))",
            (false, true) => "clamp(round(v * reciprocals(scale) + zero), vec4<f32>(params.least), vec4<f32>(params.most))",
        };
        Variant::new(&KERNEL)
            .with_type("A", from)
            .with_type("Z", zero.0)
            .with_type("O", to)
            .with_function("fn zero_point(block: u32) -> f32", zero.1)
            .with_function("fn widen(v: A) -> vec4<f32>", load)
            .with_function("fn narrow(v: vec4<f32>) -> O", store)
            .with_function("fn convert(v: vec4<f32>, scale: vec4<f32>, zero: vec4<f32>) -> vec4<f32>", convert)
    }
}

fn variants() -> Vec<Variant> {
    let zero_points = || ZERO_POINTS.iter().copied().map(Some).chain([None]);
    let rows = TABLE.iter().map(|(_, row)| row).take(3);
    let of_row =
        |row| INTEGERS.iter().flat_map(move |&elem| zero_points().map(move |zero| Quantise::variant(row, elem, zero)));
    rows.flat_map(of_row).collect()
}

/// A thread loads and stores four consecutive elements, and the parameters of their blocks.
fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    let params = call.params::<Params>()?;
    let zero = count(params.zero_points);
    let (elements, blocks) = (count(params.count), count(params.blocks));
    let read = Reached::new().fours(elements, call.type_bytes("A")?).array(blocks, 4).array(zero, 4);
    Some(read.fours(elements, call.type_bytes("O")?))
}

impl Op for Quantise {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let variant = Self::variant(self.row, self.integers, self.zero_points.map(|(_, elem)| elem));
        let zero_points = self.zero_points.map_or(self.scales, |(tensor, _)| tensor);
        Ok(Recipes::of([Recipe::new(variant, [self.x, self.scales, zero_points, self.out].map(Into::into))]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = cx.dims(self.x);
        let Blocks { sizes, counts } = self.blocks(cx)?;
        let [least, most] = self.range;
        let words = |elem: Elem| u32::try_from(elem.bytes(counts.count()) / 4).unwrap_or(u32::MAX);
        let params = Params {
            dims: innermost_first(&dims, 1),
            sizes: innermost_first(&sizes, 1),
            strides: innermost_first(&counts.strides()[..dims.len()], 0),
            count: dims.count_u32(),
            rank: u32::try_from(dims.len()).unwrap_or(0),
            blocks: counts.count_u32(),
            zero_points: self.zero_points.map_or(0, |(_, elem)| words(elem)),
            least,
            most,
            pad: [0; 2],
        };
        Ok(Plan::new(self.out, dims, Dispatch::items(0, &params, dims.count(), 1024)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let dims = cx.dims(self.x);
        let Blocks { sizes, counts } = self.blocks(cx)?;
        let strides = counts.strides();
        let integers = |elem: Elem, tensor: TensorId| -> Vec<f64> {
            match elem {
                Elem::F32 => tensors.f32(tensor).iter().map(|&value| value.into()).collect(),
                Elem::I32 => tensors.i32(tensor).iter().map(|&value| value.into()).collect(),
                Elem::I8 => tensors.u8(tensor).iter().map(|&value| value.cast_signed().into()).collect(),
                _ => tensors.u8(tensor).iter().map(|&value| value.into()).collect(),
            }
        };
        let zero_points = self.zero_points.map(|(tensor, elem)| integers(elem, tensor));
        let values = integers(if self.row.dequantises { self.integers } else { Elem::F32 }, self.x);
        let [least, most] = self.range.map(f64::from);
        let converted = indices(&dims).zip(values).map(|(index, value)| {
            let block: usize = (0..dims.len()).map(|axis| (index[axis] / sizes[axis] * strides[axis]) as usize).sum();
            let scale = tensors.f32(self.scales)[block];
            let zero = zero_points.as_ref().map_or(0.0, |zero_points| zero_points[block]);
            if self.row.dequantises {
                return (value - zero) * f64::from(scale);
            }
            // In 32 bits as PyTorch does: rounding of ties depends on it.
            #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
            let steps = value as f32 * scale.recip();
            #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
            let rounded = if self.row.round_last {
                (steps + zero as f32).round_ties_even()
            } else {
                steps.round_ties_even() + zero as f32
            };
            f64::from(rounded).clamp(least, most)
        });
        #[allow(clippy::cast_possible_truncation, reason = "within the range of the integers")]
        let data = match (self.row.dequantises, self.integers) {
            (true, _) => HostData::F32(converted.map(|value| value as f32).collect()),
            (false, Elem::I32) => HostData::I32(converted.map(|value| value as i32).collect()),
            (false, _) => HostData::U8(converted.map(|value| (value as i32).to_le_bytes()[0]).collect()),
        };
        tensors.set(self.out, dims, data);
        Ok(())
    }
}
