//! `pteron.lora`: low-rank updates of one to three linears of the same rows, each row by the adapter of its own: y + scale · B (A x). Files do
//! not contain it: a rewrite puts it after linears, so that rows of one call may have different adapters, or none.
//!
//! The matrices of all adapters are constants with a slot for each, which the host fills while calls run. A call takes a list of
//! [tiles], up to eight rows of one adapter each; without tiles nothing runs. The operator changes the linears' outputs in place
//! ([`Op::in_place`]), or computes SwiGLU of two of them. Slots and rows are data, so kernels keep their bounds checks.

mod call;
#[cfg(test)]
pub(crate) mod tests;
pub mod tiles;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::includes;
use crate::kernel::{Include, KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::OpDef;
use crate::params;
use crate::plan::{Bind, BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::rms_norm;
use crate::row_axes::RowAxes;
use crate::shape::Dims;
pub(crate) use call::LoraCall;
use tiles::TILE_ROWS;
pub(crate) use tiles::TILE_WORDS;

/// WGSL that the kernels here share.
const INCLUDES: &[Include] = includes!["lora_silu", "lora_tiles"];

static SHRINK: KernelDef = KernelDef::new("lora_shrink", include_str!("lora_shrink.wgsl"), ShrinkParams::FIELDS)
    .with_includes(&[INCLUDES])
    .with_variants(|| [0, 1].map(|norm| in_tiles(&SHRINK).with("NORM", norm)).to_vec());
static EXPAND: KernelDef = KernelDef::new("lora_expand", include_str!("lora_expand.wgsl"), ExpandParams::FIELDS)
    .with_includes(&[INCLUDES])
    .with_variants(|| {
        let of = |(swiglu, norm)| in_tiles(&EXPAND).with("SWIGLU", swiglu).with("NORM", norm);
        [(0, 0), (0, 1), (1, 1)].map(of).to_vec()
    });
static SWIGLU: KernelDef =
    KernelDef::new("lora_swiglu", include_str!("lora_swiglu.wgsl"), SwigluParams::FIELDS).with_includes(&[INCLUDES]);

params! {
    /// Of `lora_shrink.wgsl`.
    struct ShrinkParams { tiles: u32, vectors: u32, columns: u32, rank: u32, matrices: u32, chunk: u32, chunks: u32, pad: [u32; 1] }
}
params! {
    /// Of `lora_expand.wgsl`.
    struct ExpandParams {
        tiles: u32, blocks: u32, columns: u32, rank: u32, width: u32, matrices: u32, chunks: u32, length: u32, eps: f32, pad: [u32; 3],
        first_block: [u32; 4], first: [u32; 4], widths: [u32; 4],
    }
}
params! {
    /// Of `lora_swiglu.wgsl`.
    struct SwigluParams { count: u32, pad: [u32; 3] }
}

/// The operator's name, which files do not contain.
pub(crate) const NAME: &str = "pteron.lora";

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &[NAME], internal: &[NAME], kernels: &[&SHRINK, &EXPAND, &SWIGLU], decode };

/// The most linears of a call.
const MAX_MATRICES: usize = 3;
/// Columns of a workgroup that expands.
const BLOCK: u32 = 64;
/// Vectors of a row that a workgroup shrinks at a time, and the fewest of a chunk.
const CHUNK_STEP: u32 = 64;
const FEWEST_VECTORS: u32 = 2 * CHUNK_STEP;
/// The most chunks of a row: each workgroup that expands adds all of them up.
const MOST_CHUNKS: u32 = 8;
/// Bytes of a buffer that is bound and never touched.
const IDLE_BYTES: u64 = 16;

const SHRINK_RECIPE: usize = 0;
const EXPAND_RECIPE: usize = 1;
const SWIGLU_RECIPE: usize = 2;

fn in_tiles(kernel: &'static KernelDef) -> Variant {
    Variant::new(kernel).with_count("ROWS", TILE_ROWS)
}

/// Low-rank updates of linears.
#[derive(Debug)]
pub(crate) struct Lora {
    x: TensorId,
    /// The weight and the epsilon of an RMS norm of the rows.
    norm: Option<(TensorId, f64)>,
    pub(crate) matrices: LoraMatrices,
    tiles: TensorId,
    products: Vec<TensorId>,
    swiglu: bool,
    outputs: Vec<TensorId>,
    /// What the caller knows each linear by.
    pub(crate) labels: Vec<i64>,
}

/// The matrices of all adapters, as pairs of 16-bit floats, and their scales.
#[derive(Clone, Debug)]
pub(crate) struct LoraMatrices {
    /// `[slots, linears, rank, k / 2]`.
    pub(crate) a: TensorId,
    /// `[slots, columns of all linears, rank / 2]`.
    pub(crate) b: TensorId,
    /// `[slots, linears]`.
    pub(crate) scales: TensorId,
    pub(crate) slots: u32,
    pub(crate) rank: u32,
    pub(crate) k: u32,
    /// Columns of each linear.
    pub(crate) widths: Vec<u32>,
}

impl LoraMatrices {
    fn take(args: &mut Args<'_>, widths: Vec<u32>) -> Result<Self, OpError> {
        let a = args.tensor_of("a", &[Elem::I32])?;
        let b = args.tensor_of("b", &[Elem::I32])?;
        let scales = args.tensor_of("scales", &[Elem::F32])?;
        let [in_a, in_b, in_scales] = [a, b, scales].map(|tensor| args.info(tensor).bound);
        let &[slots, matrices, rank, pairs] = &*in_a else {
            return Err(OpError::new("a", format!("is {in_a}, expected [slots, linears, rank, pairs]")));
        };
        let width = widths.iter().fold(0u32, |sum, &width| sum.saturating_add(width));
        let k = pairs.saturating_mul(2);
        if slots == 0 || matrices as usize != widths.len() || rank == 0 || rank % 4 != 0 || k == 0 || k % 4 != 0 {
            let what = format!("is {in_a}, expected slots of {} matrices with rank and columns in fours", widths.len());
            return Err(OpError::new("a", what));
        }
        if *in_b != [slots, width, rank / 2] || *in_scales != [slots, matrices] {
            let what = format!("is {in_b} and `scales` {in_scales}, but `a` is {in_a} and the linears have {width} columns");
            return Err(OpError::new("b", what));
        }
        // A row has one adapter.
        [a, b, scales].into_iter().for_each(|tensor| args.reads_slices(tensor, 0));
        Ok(Self { a, b, scales, slots, rank, k, widths })
    }

    fn count(&self) -> u32 {
        u32::try_from(self.widths.len()).unwrap_or(u32::MAX)
    }

    /// Vectors of four columns of x · Aᵀ.
    fn columns(&self) -> u32 {
        self.count() * (self.rank / 4)
    }

    fn width(&self) -> u32 {
        self.widths.iter().sum()
    }
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("x", &[Elem::F32])?;
    let norm = args.optional_tensor_of("norm", &[Elem::F32])?;
    let norm = match (norm, args.optional_float("eps")?) {
        (Some(weight), Some(eps)) => Some((weight, rms_norm::check_eps(eps)?)),
        (None, None) => None,
        _ => return Err(OpError::new("eps", "must be given with `norm`, and only then")),
    };
    let products = args.tensors("products")?;
    if products.is_empty() || products.len() > MAX_MATRICES {
        return Err(OpError::new("products", format!("has {} tensors, expected 1 to {MAX_MATRICES}", products.len())));
    }
    let widths = products.iter().map(|&product| args.info(product).bound.last()).collect();
    let matrices = LoraMatrices::take(args, widths)?;
    let tiles = args.tensor_of("tiles", &[Elem::I32])?;
    let bound = args.info(tiles).bound;
    if bound.len() != 2 || bound.last() != TILE_WORDS {
        return Err(OpError::new("tiles", format!("is {bound}, expected tiles of {TILE_WORDS} words")));
    }
    let swiglu = args.bool("swiglu")?;
    if swiglu && !matches!(matrices.widths[..], [gate, up] if gate == up) {
        let widths = &matrices.widths;
        return Err(OpError::new("swiglu", format!("is true for linears of {widths:?} columns, expected two alike")));
    }
    let labels = args.ints("labels")?;
    let outputs = args.outputs("out", if swiglu { 1 } else { products.len() })?;
    if let Some(other) = products.iter().chain(&outputs).find(|&&tensor| args.info(tensor).elem != Elem::F32) {
        return Err(OpError::new("out", format!("has elements {:?}, expected {:?}", args.info(*other).elem, Elem::F32)));
    }
    Ok(Box::new(Lora { x, norm, matrices, tiles, products, swiglu, outputs, labels: labels.to_vec() }))
}

impl Lora {
    /// Checks the live shapes. Returns the dims of the outputs, and the number of tiles.
    fn shape(&self, cx: &PlanCx<'_>) -> Result<(Vec<Dims>, u32), OpError> {
        let (x, tiles) = (cx.dims(self.x), cx.dims(self.tiles));
        if x.is_empty() || x.last() != self.matrices.k {
            return Err(OpError::new("x", format!("is {x}, but the matrices have {} columns", self.matrices.k)));
        }
        if let Some(weight) = self.norm.map(|(weight, _)| cx.dims(weight)).filter(|weight| **weight != [x.last()]) {
            return Err(OpError::new("norm", format!("is {weight}, expected [{}] for rows of {x}", x.last())));
        }
        let products: Vec<Dims> = self.products.iter().map(|&product| cx.dims(product)).collect();
        for (product, &width) in products.iter().zip(&self.matrices.widths) {
            if product.is_empty() || product.last() != width || product.rows() != x.rows() {
                return Err(OpError::new("products", format!("has {product}, expected {width} columns for rows of {x}")));
            }
        }
        let count = tiles.first().copied().unwrap_or(0);
        let outputs = products.into_iter().take(self.outputs.len()).collect();
        Ok((outputs, if x.rows() == 0 { 0 } else { count }))
    }

    /// The vectors of a chunk of a row, and the number of chunks.
    fn chunks(&self) -> (u32, u32) {
        let vectors = self.matrices.k / 4;
        let chunk = vectors.div_ceil(MOST_CHUNKS).max(FEWEST_VECTORS).next_multiple_of(CHUNK_STEP);
        (chunk, vectors.div_ceil(chunk))
    }

    fn scratch(&self, tiles: u32) -> u64 {
        let vectors = u64::from(self.matrices.columns()) + u64::from(self.matrices.count());
        u64::from(tiles) * u64::from(self.chunks().1) * u64::from(TILE_ROWS) * vectors * 16
    }

    /// The dispatches for rows with adapters.
    fn steps(&self, tiles: u32) -> Result<[Option<Dispatch>; 2], OpError> {
        let LoraMatrices { k, rank, widths, .. } = &self.matrices;
        let (columns, matrices) = (self.matrices.columns(), self.matrices.count());
        #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
        let eps = self.norm.map_or(0.0, |(_, eps)| eps as f32);
        let rank = rank / 4;
        let (chunk, chunks) = self.chunks();
        let shrink = ShrinkParams { tiles, vectors: k / 4, columns, rank, matrices, chunk, chunks, pad: [0; 1] };
        let width = self.matrices.width();
        let mut expand =
            ExpandParams { tiles, columns, rank, width, matrices, chunks, length: *k, eps, ..ExpandParams::default() };
        expand.first_block = [u32::MAX; 4];
        let mut first = 0;
        for (index, &width) in widths.iter().enumerate() {
            (expand.first[index], expand.widths[index]) = (first, width);
            if !self.swiglu || index == 0 {
                expand.first_block[index] = expand.blocks;
                expand.blocks += width.div_ceil(BLOCK);
            }
            first += width;
        }
        let groups = |per_tile: u32| u64::from(tiles) * u64::from(per_tile);
        Ok([
            Dispatch::groups(SHRINK_RECIPE, &shrink, groups(columns) * u64::from(chunks))?,
            Dispatch::groups(EXPAND_RECIPE, &expand, groups(expand.blocks))?,
        ])
    }
}

impl Op for Lora {
    fn in_place(&self) -> &[TensorId] {
        if self.swiglu { &[] } else { &self.products }
    }

    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        rows.outer(self.x, 1)?;
        // Outputs have the dims of the products, whose rows may be grouped otherwise than those of x.
        let mut axes = self.products.iter().map(|&product| rows.outer(product, 1));
        let first = axes.next()??;
        axes.all(|axis| axis == Some(first)).then_some(first)
    }

    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let LoraMatrices { a, b, scales, .. } = self.matrices;
        let shrunk = Bind::Scratch(0);
        // Without a norm another buffer is bound in its place and never read.
        let norm = self.norm.map_or(self.x, |(weight, _)| weight);
        let shrink = in_tiles(&SHRINK).with("NORM", self.norm.is_some().into());
        let shrink = Recipe::new(shrink, [self.x.into(), norm.into(), a.into(), scales.into(), self.tiles.into(), shrunk]);
        let changed: Vec<TensorId> = match self.swiglu {
            true => self.products.iter().chain(&self.outputs).copied().collect(),
            false => self.outputs.clone(),
        };
        let idle = MAX_MATRICES - changed.len();
        let outputs = changed.into_iter().map(Bind::from).chain((1..=idle).map(Bind::Scratch));
        let expand = in_tiles(&EXPAND).with("SWIGLU", self.swiglu.into()).with("NORM", self.norm.is_some().into());
        let expand = Recipe::new(expand, [shrunk, b.into(), scales.into(), self.tiles.into()].into_iter().chain(outputs));
        let mut list = vec![shrink, expand];
        if let (true, [gate, up], [out]) = (self.swiglu, &self.products[..], &self.outputs[..]) {
            list.push(Recipe::new(Variant::new(&SWIGLU), [*gate, *up, *out].map(Bind::from)));
        }
        let tiles = cx.bound(self.tiles).first().copied().unwrap_or(0);
        let scratch = [self.scratch(tiles)].into_iter().chain(std::iter::repeat_n(IDLE_BYTES, idle)).collect();
        Ok(Recipes { list, scratch, ..Recipes::default() })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (outputs, tiles) = self.shape(cx)?;
        let count = outputs.first().map_or(0, Dims::count);
        let mut plan = Plan { outputs: self.outputs.iter().copied().zip(outputs).collect(), ..Plan::default() };
        if tiles > 0 {
            plan.steps.extend(self.steps(tiles)?.into_iter().flatten());
            plan.scratch = vec![self.scratch(tiles)];
            plan.scratch.resize(1 + MAX_MATRICES - self.products.len() - usize::from(self.swiglu), 0);
        } else if self.swiglu {
            let params = SwigluParams { count: u32::try_from(count).unwrap_or(u32::MAX), pad: [0; 3] };
            plan.steps.extend(Dispatch::items(SWIGLU_RECIPE, &params, count, 256)?);
        }
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (dims, _) = self.shape(cx)?;
        let mut results = self.updated(tensors);
        if let (true, [gate, up]) = (self.swiglu, &mut results[..]) {
            gate.iter_mut().zip(up).for_each(|(gate, up)| *gate *= *up / (1.0 + (-*gate).exp()));
        }
        for ((&out, dims), values) in self.outputs.iter().zip(dims).zip(results) {
            #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
            let values = values.into_iter().map(|value| value as f32).collect();
            tensors.set(out, dims, HostData::F32(values));
        }
        Ok(())
    }
}

#[cfg(any(test, feature = "reference"))]
impl Lora {
    /// The products with their updates, in double precision.
    fn updated(&self, tensors: &HostTensors) -> Vec<Vec<f64>> {
        let LoraMatrices { a, b, scales, rank, k, widths, .. } = &self.matrices;
        let (rank, k) = (*rank as usize, *k as usize);
        let [a, b] = [a, b].map(|&packed| halves(tensors.i32(packed)));
        let mut results: Vec<Vec<f64>> =
            self.products.iter().map(|&product| tensors.f32(product).iter().map(|&y| y.into()).collect()).collect();
        for tile in tensors.i32(self.tiles).chunks_exact(TILE_WORDS as usize) {
            let (Ok(slot), Ok(vectors)) = (usize::try_from(tile[0]), usize::try_from(tile[1])) else { continue };
            for row in tile[2..].iter().filter_map(|&row| usize::try_from(row).ok()) {
                let x = &tensors.f32(self.x)[row * k..][..k];
                let x: Vec<f64> = match self.norm {
                    Some((weight, eps)) => rms_norm::normalised(x, tensors.f32(weight), eps),
                    None => x.iter().map(|&x| x.into()).collect(),
                };
                let mut first = slot * widths.iter().sum::<u32>() as usize;
                for (matrix, (result, &width)) in results.iter_mut().zip(widths).enumerate() {
                    let own = slot * widths.len() + matrix;
                    let scale = f64::from(tensors.f32(*scales)[own]);
                    let shrunk: Vec<f64> = a[own * rank * k..][..(4 * vectors).min(rank) * k]
                        .chunks_exact(k)
                        .map(|a| a.iter().zip(&x).map(|(a, x)| a * x).sum::<f64>() * scale)
                        .collect();
                    for column in 0..width as usize {
                        let b = &b[(first + column) * rank..][..rank];
                        let update: f64 = b.iter().zip(&shrunk).map(|(b, shrunk)| b * shrunk).sum();
                        result[row * width as usize + column] += update;
                    }
                    first += width as usize;
                }
            }
        }
        results
    }
}

/// The 16-bit floats of packed words.
#[cfg(any(test, feature = "reference"))]
fn halves(words: &[i32]) -> Vec<f64> {
    let bits = |word: &i32| {
        let [a, b, c, d] = word.to_le_bytes();
        [[a, b], [c, d]].map(|bytes| half::f16::from_le_bytes(bytes).to_f64())
    };
    words.iter().flat_map(bits).collect()
}
