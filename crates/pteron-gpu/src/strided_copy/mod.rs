//! Strided copies, shared by operators that move elements: the output is written in order, its elements are loaded by
//! strides or by index, in the widest vectors that the layout allows.

pub(crate) mod gather;
pub(crate) mod strides;
mod transpose;

use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{Include, KernelDef, Variant};
use crate::live::{Scalar, TensorId};
use crate::plan::{Bind, Dispatch, Plan, PlanCx, Recipe, Recipes};
use crate::shape::{Dims, MAX_RANK};
use crate::{includes, params};
use strides::{Axis, StridedDims};
use transpose::{Blocks, TransposeTiles};

/// WGSL that kernels of copies share.
pub(crate) const INCLUDES: &[Include] =
    includes!["copy_params", "packed_elements", "strided_index", "thread_vectors", "transpose_blocks", "transpose_params",];

pub(crate) static VEC4: KernelDef = KernelDef::new("copy_vec4", include_str!("copy_vec4.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .with_variants(|| variants(Kernel::Vec4));
pub(crate) static ELEMENTS: KernelDef = KernelDef::new("copy_elements", include_str!("copy_elements.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .with_variants(|| variants(Kernel::Elements));
pub(crate) static TRANSPOSE: KernelDef =
    KernelDef::new("transpose", include_str!("transpose.wgsl"), transpose::Params::FIELDS).with_includes(&[INCLUDES]);
pub(crate) static TRANSPOSE_VEC4: KernelDef =
    KernelDef::new("transpose_vec4", include_str!("transpose_vec4.wgsl"), transpose::Params::FIELDS)
        .with_includes(&[INCLUDES]);
pub(crate) static TRANSPOSE_BYTES: KernelDef =
    KernelDef::new("transpose_bytes", include_str!("transpose_bytes.wgsl"), transpose::Params::FIELDS)
        .with_includes(&[INCLUDES]);

params! {
    /// Parameters of `copy_vec4.wgsl` and `copy_elements.wgsl`.
    pub(crate) struct Params {
        dims: [u32; MAX_RANK], strides: [u32; 2 * MAX_RANK], rank: u32, count: u32, rows: u32, base: u32,
        limit: u32, wrap: u32, index_stride: u32, vectors_per_row: u32,
    }
}

/// A strided view of a source: for each index of `axes` the element at `offset` + Σ index · stride.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StridedView {
    pub(crate) dims: Dims,
    /// Outermost first; their product is that of `dims`.
    axes: Vec<Axis>,
    offset: u32,
    /// A divisor of `offset` at every step with the same shapes; 0 for an offset that stays 0.
    offset_divisor: u32,
}

impl StridedView {
    /// Every element in order.
    pub(crate) fn all(dims: Dims) -> Self {
        Self::new(dims, dims.strides().map(i64::from))
    }

    /// `dims` with these strides, from the first element on.
    pub(crate) fn new(dims: Dims, strides: impl IntoIterator<Item = i64>) -> Self {
        Self::with_axes(dims, dims.iter().copied().zip(strides))
    }

    /// The same with axes given as lengths and strides, outermost first; a dim may consist of several.
    pub(crate) fn with_axes(dims: Dims, axes: impl IntoIterator<Item = (u32, i64)>) -> Self {
        let axes = axes.into_iter().map(|(dim, stride)| Axis { dim, strides: [stride, 0] }).collect();
        Self { dims, axes, offset: 0, offset_divisor: 0 }
    }

    /// The same from an index of a dimension on. A symbolic index may differ at the next step, so that only the dimension's stride is
    /// known to divide the offset.
    pub(crate) fn starting_at(mut self, index: u32, stride: u32, symbol: Option<Scalar>) -> Self {
        // An empty view may start past the end of the tensor; it loads nothing.
        self.offset = index.saturating_mul(stride);
        self.offset_divisor = if matches!(symbol, Some(Scalar::Live(_))) { stride } else { self.offset };
        self
    }
}

/// The kernel of a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Copies vectors of four words that are contiguous on both sides.
    Vec4,
    /// Transposes in tiles of 4 × 4 blocks.
    TransposeBlocks,
    /// Transposes in tiles of words.
    Transpose,
    /// Gathers single words or bytes.
    Elements,
}

/// A way to copy elements: the kernel, the elements per load (`lanes`) and, for packed bytes, the loads per word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strategy {
    pub(crate) kernel: Kernel,
    pub(crate) lanes: u32,
    pub(crate) per_word: u32,
}

const fn strategy(kernel: Kernel, lanes: u32, per_word: u32) -> Strategy {
    Strategy { kernel, lanes, per_word }
}

/// Fastest first. The last of each covers every layout.
const OF_WORDS: &[Strategy] = &[
    strategy(Kernel::Vec4, 4, 1),
    strategy(Kernel::TransposeBlocks, 1, 1),
    strategy(Kernel::Transpose, 1, 1),
    strategy(Kernel::Elements, 1, 1),
];
const OF_BYTES: &[Strategy] = &[
    strategy(Kernel::Vec4, 16, 1),
    strategy(Kernel::TransposeBlocks, 4, 1),
    strategy(Kernel::Transpose, 4, 1),
    strategy(Kernel::Elements, 4, 1),
    strategy(Kernel::TransposeBlocks, 1, 4),
    strategy(Kernel::Elements, 1, 4),
];

impl Strategy {
    /// The strategies for elements of this type.
    pub(crate) fn of(elem: Elem) -> &'static [Self] {
        match elem {
            Elem::F32 | Elem::I32 => OF_WORDS,
            // No operator of this family takes f16 state.
            Elem::F16 => &[],
            Elem::U8 | Elem::I8 | Elem::Bool => OF_BYTES,
        }
    }

    /// The most output vectors that begin in a row, if threads are better assigned across rows than along them: for packed bytes in long
    /// rows that are adjacent in the source. 0 if not.
    fn vectors_per_row(&self, axes: &[Axis]) -> u32 {
        match axes {
            [row, next, ..] if self.kernel == Kernel::Elements && self.per_word > 1 => {
                let transposed = row.strides[0].abs() > 1 && next.strides[0].abs() == 1;
                if transposed && row.dim >= self.loads_per_vector() && next.dim >= 32 {
                    row.dim / self.loads_per_vector() + 2
                } else {
                    0
                }
            }
            _ => 0,
        }
    }

    /// Loads per stored vector of four words.
    pub(crate) fn loads_per_vector(&self) -> u32 {
        if self.kernel == Kernel::Vec4 { 1 } else { 4 * self.per_word }
    }

    /// The blocks of a transpose tile, if the strategy transposes.
    fn blocks(&self) -> Option<Blocks> {
        match (self.kernel, self.per_word) {
            (Kernel::Vec4 | Kernel::Elements, _) => None,
            (Kernel::Transpose, _) => Some(Blocks { bits: 11, side: 1, spans_outer: false }),
            // 2^bits is `BLOCKS` in their kernels.
            (Kernel::TransposeBlocks, 1) => Some(Blocks { bits: 8, side: 4, spans_outer: true }),
            (Kernel::TransposeBlocks, _) => Some(Blocks { bits: 9, side: 4, spans_outer: true }),
        }
    }

    fn variant(&self, addressing: &Addressing) -> Variant {
        let addressed = |variant: Variant| {
            let head = "fn source_index(x: vec4<u32>, y: vec4<u32>) -> vec4<u32>";
            variant.with_function(head, addressing.wgsl).labelled(addressing.label)
        };
        match self.kernel {
            Kernel::Vec4 => addressed(Variant::new(&VEC4)),
            Kernel::Elements => addressed(Variant::new(&ELEMENTS).with("PER_WORD", self.per_word)),
            Kernel::Transpose => Variant::new(&TRANSPOSE),
            Kernel::TransposeBlocks if self.per_word == 1 => Variant::new(&TRANSPOSE_VEC4),
            Kernel::TransposeBlocks => Variant::new(&TRANSPOSE_BYTES),
        }
    }
}

/// How a kernel turns a strided index into a source index.
#[derive(Debug)]
pub(crate) struct Addressing {
    label: &'static str,
    wgsl: &'static str,
    /// Whether tiles can be transposed: not where offsets depend on data.
    tiles: bool,
}

/// Adds the view's offset, a word of the step block.
pub(crate) static BY_OFFSET: Addressing = Addressing { label: "copy", wgsl: "x + words[params.base]", tiles: true };
/// Adds the offset of a gathered index.
pub(crate) static BY_INDEX: Addressing = Addressing {
    label: "gather",
    wgsl: "x + gathered_offset(vec4<u32>(words[y.x], words[y.y], words[y.z], words[y.w]))",
    tiles: false,
};

fn variants(kernel: Kernel) -> Vec<Variant> {
    let of = |addressing: &'static Addressing| {
        addressing
            .strategies(Elem::U8)
            .filter(move |strategy| strategy.kernel == kernel)
            .map(|strategy| strategy.variant(addressing))
    };
    of(&BY_OFFSET).chain(of(&BY_INDEX)).collect()
}

impl Addressing {
    fn strategies(&self, elem: Elem) -> impl Iterator<Item = &'static Strategy> + use<> {
        let tiles = self.tiles;
        Strategy::of(elem).iter().filter(move |strategy| tiles || strategy.blocks().is_none())
    }

    /// The recipes for elements of this type. `words` are the indices or the step block.
    pub(crate) fn recipes(&self, elem: Elem, from: TensorId, words: Bind, out: TensorId) -> Vec<Recipe> {
        self.strategies(elem).map(|strategy| Recipe::new(strategy.variant(self), [from.into(), words, out.into()])).collect()
    }

    /// Dispatches the first strategy that covers the axes, and returns its elements per load. `start` is a divisor of every offset that
    /// is added to the strided index; `given` are the parameters of those offsets, in elements.
    ///
    /// # Errors
    /// More elements, axes or workgroups than kernels count.
    pub(crate) fn dispatch(
        &self,
        elem: Elem,
        (axes, start): (&[Axis], i64),
        given: Params,
    ) -> Result<(Option<Dispatch>, u32), OpError> {
        check_count(elem, axes.iter().fold(1, |count: u64, axis| count.saturating_mul(axis.dim.into())))?;
        let axes = strides::collapse(axes);
        for (recipe, strategy) in self.strategies(elem).enumerate() {
            let Some(axes) = strides::vectorise(&axes, strategy.lanes, start) else { continue };
            if let Some(blocks) = strategy.blocks() {
                let Some(tile) = TransposeTiles::new(&axes, start / i64::from(strategy.lanes), blocks) else { continue };
                return Ok((tile.dispatch(recipe, given.base)?, strategy.lanes));
            }
            let Some(StridedDims { dims, strides, rank }) = StridedDims::new(&axes) else {
                let reason = format!("needs {} axes, kernels support {MAX_RANK}", axes.len());
                return Err(OpError::new("out", reason));
            };
            let (count, vectors_per_row) = (strides::count(&axes), strategy.vectors_per_row(&axes));
            let rows = count / dims[0];
            let params = Params {
                dims,
                strides,
                rank,
                count,
                rows,
                vectors_per_row,
                index_stride: given.index_stride / strategy.lanes,
                ..given
            };
            // The kernels define the number of vectors per workgroup.
            let step = match (strategy.kernel, vectors_per_row) {
                (Kernel::Vec4, _) => Dispatch::items(recipe, &params, count.into(), 1024),
                (_, 0) => Dispatch::items(recipe, &params, count.div_ceil(strategy.loads_per_vector()).into(), 512),
                (_, vectors_per_row) => {
                    Dispatch::groups(recipe, &params, u64::from(rows.div_ceil(32)) * u64::from(vectors_per_row.div_ceil(16)))
                }
            };
            return Ok((step?, strategy.lanes));
        }
        // The last strategy covers every layout; types without strategies have no operator that copies them.
        Ok((None, 1))
    }
}

/// Checks that kernels can index `count` elements.
///
/// # Errors
/// More elements than that.
pub(crate) fn check_count(elem: Elem, count: u64) -> Result<(), OpError> {
    if elem.bytes(count) > u64::from(u32::MAX) {
        return Err(OpError::new("out", format!("has {count} elements, more than kernels index")));
    }
    Ok(())
}

/// The recipes that copy a view.
pub(crate) fn recipes(elem: Elem, from: TensorId, out: TensorId) -> Recipes {
    Recipes { step_words: 1, ..Recipes::of(BY_OFFSET.recipes(elem, from, Bind::Step, out)) }
}

/// Copies a view; its offset is the operator's step word.
///
/// # Errors
/// As [`Addressing::dispatch`].
pub(crate) fn plan(cx: &PlanCx<'_>, elem: Elem, out: TensorId, view: &StridedView) -> Result<Plan, OpError> {
    if view.dims.count() == 0 {
        return Ok(Plan { step_words: vec![0], ..Plan::new(out, view.dims, None) });
    }
    let given = Params { base: cx.step_base(), ..Params::default() };
    let (step, lanes) = BY_OFFSET.dispatch(elem, (&view.axes, view.offset_divisor.into()), given)?;
    Ok(Plan { step_words: vec![view.offset / lanes], ..Plan::new(out, view.dims, step) })
}
