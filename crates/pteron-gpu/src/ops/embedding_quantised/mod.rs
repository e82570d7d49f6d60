//! `quantized_decomposed.embedding_byte`, `embedding_4bit` and `embedding_2bit`: rows of a table of integers by index, less a zero point
//! and times a scale per row or per group of columns.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::{OpDef, names};
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::row_axes::RowAxes;
use crate::shape::Dims;
use crate::strided_copy::gather::{EMBEDDING_NAMES, sliced_dims};

// Indices follow from data, so it keeps its bounds checks.
static KERNEL: KernelDef = KernelDef::new("embedding_quantised", include_str!("embedding_quantised.wgsl"), Params::FIELDS)
    .with_variants(|| {
        let zero_points = ZERO_POINTS.iter().copied().map(Some).chain([None]);
        zero_points.flat_map(|zero| [8, 4, 2].map(|bits| variant(bits, Elem::I8, zero))).collect()
    });

params! {
    /// Of `embedding_quantised.wgsl`.
    struct Params { count: u32, width: u32, rows: u32, groups: u32 }
}

/// The operators of the family: names, bits per column, and whether the result's type is an argument.
const TABLE: &[(&str, (u32, bool))] = &[
    ("quantized_decomposed.embedding_byte.default", (8, false)),
    ("quantized_decomposed.embedding_byte.dtype", (8, true)),
    ("quantized_decomposed.embedding_4bit.default", (4, false)),
    ("quantized_decomposed.embedding_4bit.dtype", (4, true)),
    ("quantized_decomposed.embedding_2bit.default", (2, false)),
    ("quantized_decomposed.embedding_2bit.dtype", (2, true)),
];

static NAMES: [&str; TABLE.len()] = names!(TABLE, 0);

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef { names: &NAMES, internal: &[], kernels: &[&KERNEL], decode };

/// The element types of zero points. Without zero points they are 0.
const ZERO_POINTS: &[Elem] = &[Elem::F32, Elem::I32, Elem::I8, Elem::U8];

#[derive(Debug)]
pub(crate) struct QuantisedEmbedding {
    pub(crate) weight: TensorId,
    /// Bits per column, and the type of whole bytes.
    bits: u32,
    elem: Elem,
    scales: TensorId,
    zero_points: Option<(TensorId, Elem)>,
    pub(crate) indices: TensorId,
    pub(crate) out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let &(_, (bits, typed)) = args.row(TABLE);
    let packed: &[Elem] = if bits == 8 { &[Elem::I8, Elem::U8] } else { &[Elem::U8] };
    let weight = args.tensor_of("weight", packed)?;
    let scales = args.tensor_of("weight_scales", &[Elem::F32])?;
    let zero_points = args.optional_tensor_of("weight_zero_points", ZERO_POINTS)?;
    let zero_points = zero_points.map(|tensor| (tensor, args.info(tensor).elem));
    // The range of the integers, which they keep.
    args.ignore("weight_quant_min")?;
    args.ignore("weight_quant_max")?;
    let indices = args.index_tensor("indices", weight, 0)?;
    args.reads_slices(scales, 0);
    if typed {
        // The output has that type.
        args.ignore("dtype")?;
    }
    let elem = args.info(weight).elem;
    let out = args.output_of("out", Elem::F32)?;
    Ok(Box::new(QuantisedEmbedding { weight, bits, elem, scales, zero_points, indices, out }))
}

/// The kernel for columns of so many bits and zero points of a type.
fn variant(bits: u32, elem: Elem, zero_points: Option<Elem>) -> Variant {
    let column = match (bits, elem) {
        // The even column of a pair is the high half of a byte; of four columns the first is lowest.
        (4, _) => "f32((byte >> select(4u, 0u, column % 2u == 1u)) & 15u) - 8.0",
        (2, _) => "f32((byte >> (2u * (column % 4u))) & 3u) - 2.0",
        (_, Elem::I8) => "f32(bitcast<i32>(byte << 24u) >> 24u)",
        _ => "f32(byte)",
    };
    let zero = match zero_points {
        None => ("u32", "0.0"),
        Some(Elem::F32) => ("f32", "zero_points[group]"),
        Some(Elem::I8) => ("u32", "f32(bitcast<i32>(zero_points[group / 4u] << (24u - 8u * (group % 4u))) >> 24u)"),
        Some(Elem::U8) => ("u32", "f32((zero_points[group / 4u] >> (8u * (group % 4u))) & 255u)"),
        Some(_) => ("i32", "f32(zero_points[group])"),
    };
    Variant::new(&KERNEL)
        .with("PER_BYTE", 8 / bits)
        .with_type("Z", zero.0)
        .with_function("fn zero_point(group: u32) -> f32", zero.1)
        .with_function("fn integer(byte: u32, column: u32) -> f32", column)
}

impl QuantisedEmbedding {
    fn layout(&self, cx: &PlanCx<'_>) -> Result<(Params, Dims), OpError> {
        let (weight, scales) = (cx.dims(self.weight), cx.dims(self.scales));
        let width = match *weight {
            [_, bytes] => bytes.checked_mul(8 / self.bits),
            _ => None,
        };
        let Some(width) = width else {
            return Err(OpError::new("weight", format!("is {weight}, expected rows of bytes")));
        };
        let groups = match *scales {
            [rows] if rows == weight[0] => Some(1),
            [rows, groups] if rows == weight[0] && groups > 0 && width.is_multiple_of(groups) => Some(groups),
            _ => None,
        };
        let Some(groups) = groups else {
            let reason = format!("is {scales}, expected one or more for each of {} rows of {width} columns", weight[0]);
            return Err(OpError::new("weight_scales", reason));
        };
        if let Some(found) = self.zero_points.map(|(tensor, _)| cx.dims(tensor))
            && found.count() != scales.count()
        {
            return Err(OpError::new("weight_zero_points", format!("is {found}, but the scales are {scales}")));
        }
        let out = sliced_dims(EMBEDDING_NAMES, &weight.with(1, width), 0, &cx.dims(self.indices))?;
        Ok((Params { count: out.count_u32(), width, rows: weight[0], groups }, out))
    }
}

impl Op for QuantisedEmbedding {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        rows.axis(self.indices).filter(|_| rows.axis(self.weight).is_none())
    }

    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let zero_points = self.zero_points.map_or(self.scales, |(tensor, _)| tensor);
        let binds = [self.weight, self.scales, zero_points, self.indices, self.out].map(Into::into);
        let variant = variant(self.bits, self.elem, self.zero_points.map(|(_, elem)| elem));
        Ok(Recipes::of([Recipe::new(variant, binds)]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (params, out) = self.layout(cx)?;
        Ok(Plan::new(self.out, out, Dispatch::items(0, &params, out.count(), 256)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (Params { width, rows, groups, .. }, out) = self.layout(cx)?;
        let (width, groups) = (width as usize, groups as usize);
        let per_byte = (8 / self.bits) as usize;
        let (table, scales) = (tensors.u8(self.weight), tensors.numbers(Elem::F32, self.scales));
        let zero_points = self.zero_points.map(|(tensor, elem)| tensors.numbers(elem, tensor));
        let mut values = Vec::new();
        for &index in tensors.i32(self.indices) {
            let row = usize::try_from(index.max(0)).unwrap_or(0).min((rows as usize).saturating_sub(1));
            for column in 0..width {
                let byte = table[(row * width + column) / per_byte];
                let integer = match self.bits {
                    4 => f64::from(if column % 2 == 0 { byte >> 4 } else { byte & 15 }) - 8.0,
                    2 => f64::from((byte >> (2 * (column % 4))) & 3) - 2.0,
                    _ if self.elem == Elem::I8 => byte.cast_signed().into(),
                    _ => byte.into(),
                };
                let group = row * groups + column / (width / groups);
                values.push((integer - zero_points.as_ref().map_or(0.0, |zeros| zeros[group])) * scales[group]);
            }
        }
        tensors.set(self.out, out, HostData::from_numbers(Elem::F32, values));
        Ok(())
    }
}
