//! The copy kernels: an output written in order, its elements from wherever strides or indices lead, in the widest units that
//! the layout allows.

use super::axes::{self, Axis, Walk};
use super::tile::{self, Cells, Tile};
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::{Scalar, TensorId};
use crate::params;
use crate::plan::{Bind, Dispatch, Plan, PlanCx, Recipe, Recipes};
use crate::shape::{Dims, MAX_RANK};

pub(crate) static ITEMS: KernelDef =
    KernelDef::new("copy", include_str!("copy.wgsl"), Params::FIELDS).with_variants(|| variants(Kernel::Items));
pub(crate) static LANES: KernelDef =
    KernelDef::new("copy_lanes", include_str!("copy_lanes.wgsl"), Params::FIELDS).with_variants(|| variants(Kernel::Lanes));
pub(crate) static TILE: KernelDef = KernelDef::new("copy_tile", include_str!("copy_tile.wgsl"), tile::Params::FIELDS);
pub(crate) static TILE_VECTORS: KernelDef =
    KernelDef::new("copy_tile_vectors", include_str!("copy_tile_vectors.wgsl"), tile::Params::FIELDS);
pub(crate) static TILE_BYTES: KernelDef =
    KernelDef::new("copy_tile_bytes", include_str!("copy_tile_bytes.wgsl"), tile::Params::FIELDS);

params! {
    /// Of `copy.wgsl` and `copy_lanes.wgsl`.
    pub(crate) struct Params {
        dims: [u32; MAX_RANK], steps: [u32; 2 * MAX_RANK], rank: u32, count: u32, rows: u32, base: u32,
        limit: u32, wrap: u32, pitch: u32, slots: u32,
    }
}

/// Which elements of a source an output has: for each index of `axes` the one at `offset` + Σ index · step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Window {
    pub(crate) dims: Dims,
    /// Outermost first; together they count what `dims` count.
    axes: Vec<Axis>,
    offset: u32,
    /// What `offset` is a multiple of while shapes stay, 0 standing for all numbers.
    unit: u32,
}

impl Window {
    /// Every element in order.
    pub(crate) fn all(dims: Dims) -> Self {
        Self::new(dims, dims.strides().map(i64::from))
    }

    /// From the first element on, `dims` with these strides.
    pub(crate) fn new(dims: Dims, strides: impl IntoIterator<Item = i64>) -> Self {
        Self::walking(dims, dims.iter().copied().zip(strides))
    }

    /// The same where a dim of the output may be several axes: lengths and strides, outermost first.
    pub(crate) fn walking(dims: Dims, axes: impl IntoIterator<Item = (u32, i64)>) -> Self {
        let axes = axes.into_iter().map(|(dim, step)| Axis { dim, steps: [step, 0] }).collect();
        Self { dims, axes, offset: 0, unit: 0 }
    }

    /// The same from an index of a dimension on. Where the index is symbolic it may be any other in the next step, so that
    /// nothing but the dimension's stride is certain of the offset.
    pub(crate) fn starting_at(mut self, index: u32, stride: u32, symbol: Option<Scalar>) -> Self {
        // An empty window may start past the end of the tensor, and nothing is read.
        self.offset = index.saturating_mul(stride);
        self.unit = if matches!(symbol, Some(Scalar::Live(_))) { stride } else { self.offset };
        self
    }
}

/// What a way to copy runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Four words at a time, which lie together on both sides.
    Items,
    /// A transpose, in tiles of cells of four by four units.
    TileCells,
    /// A transpose, in tiles.
    Tile,
    /// One unit at a time.
    Lanes,
}

/// A way to copy, with the elements in a unit and, where a unit is not four words, the units in a word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) kernel: Kernel,
    pub(crate) lanes: u32,
    pub(crate) per_word: u32,
}

const fn way(kernel: Kernel, lanes: u32, per_word: u32) -> Way {
    Way { kernel, lanes, per_word }
}

/// Best first. The last of each takes anything.
const OF_WORDS: &[Way] =
    &[way(Kernel::Items, 4, 1), way(Kernel::TileCells, 1, 1), way(Kernel::Tile, 1, 1), way(Kernel::Lanes, 1, 1)];
const OF_BYTES: &[Way] = &[
    way(Kernel::Items, 16, 1),
    way(Kernel::TileCells, 4, 1),
    way(Kernel::Tile, 4, 1),
    way(Kernel::Lanes, 4, 1),
    way(Kernel::TileCells, 1, 4),
    way(Kernel::Lanes, 1, 4),
];

impl Way {
    /// Every way to copy elements of this type.
    pub(crate) fn of(elem: Elem) -> &'static [Self] {
        match elem {
            Elem::F32 | Elem::I32 => OF_WORDS,
            // Only attention touches them.
            Elem::F16 => &[],
            Elem::U8 | Elem::I8 | Elem::Bool => OF_BYTES,
        }
    }

    /// How many items can begin in a row, if packed units are better written below each other than behind each other: where
    /// rows are long and lie side by side in the source.
    fn slots(&self, axes: &[Axis]) -> u32 {
        match axes {
            [row, next, ..] if self.kernel == Kernel::Lanes && self.per_word > 1 => {
                let aside = row.steps[0].abs() > 1 && next.steps[0].abs() == 1;
                if aside && row.dim >= self.per_item() && next.dim >= 32 { row.dim / self.per_item() + 2 } else { 0 }
            }
            _ => 0,
        }
    }

    /// Units in four words, which kernels write at once.
    pub(crate) fn per_item(&self) -> u32 {
        if self.kernel == Kernel::Items { 1 } else { 4 * self.per_word }
    }

    /// What tiles are made of, where this way has any.
    fn cells(&self) -> Option<Cells> {
        match (self.kernel, self.per_word) {
            (Kernel::Items | Kernel::Lanes, _) => None,
            (Kernel::Tile, _) => Some(Cells { bits: 11, side: 1, several: false }),
            // As many as `CELLS` in their kernels.
            (Kernel::TileCells, 1) => Some(Cells { bits: 8, side: 4, several: true }),
            (Kernel::TileCells, _) => Some(Cells { bits: 9, side: 4, several: true }),
        }
    }

    fn variant(&self, place: &Place) -> Variant {
        let placed = |variant: Variant| {
            let head = "fn place(x: vec4<u32>, y: vec4<u32>) -> vec4<u32>";
            variant.with_function(head, place.wgsl).labelled(place.label)
        };
        match self.kernel {
            Kernel::Items => placed(Variant::new(&ITEMS)),
            Kernel::Lanes => placed(Variant::new(&LANES).with("PER_WORD", self.per_word)),
            Kernel::Tile => Variant::new(&TILE),
            Kernel::TileCells if self.per_word == 1 => Variant::new(&TILE_VECTORS),
            Kernel::TileCells => Variant::new(&TILE_BYTES),
        }
    }
}

/// What leads from where strides point to where elements are.
#[derive(Debug)]
pub(crate) struct Place {
    label: &'static str,
    wgsl: &'static str,
    /// Whether elements can be moved by tiles: where they are does not depend on data.
    tiles: bool,
}

/// The window's offset, a word of the step block.
pub(crate) static OFFSET: Place = Place { label: "copy", wgsl: "x + words[params.base]", tiles: true };
/// An index among indices.
pub(crate) static PICKED: Place =
    Place { label: "gather", wgsl: "x + picked(vec4<u32>(words[y.x], words[y.y], words[y.z], words[y.w]))", tiles: false };

fn variants(kernel: Kernel) -> Vec<Variant> {
    let of =
        |place: &'static Place| place.ways(Elem::U8).filter(move |way| way.kernel == kernel).map(|way| way.variant(place));
    of(&OFFSET).chain(of(&PICKED)).collect()
}

impl Place {
    fn ways(&self, elem: Elem) -> impl Iterator<Item = &'static Way> + use<> {
        let tiles = self.tiles;
        Way::of(elem).iter().filter(move |way| tiles || way.cells().is_none())
    }

    /// Every way to copy elements of this type. `words` are the indices or the step block.
    pub(crate) fn recipes(&self, elem: Elem, from: TensorId, words: Bind, out: TensorId) -> Vec<Recipe> {
        self.ways(elem).map(|way| Recipe::new(way.variant(self), [from.into(), words, out.into()])).collect()
    }

    /// Copies what axes walk with the first way that they allow, and says how many elements its units have. `start` is what
    /// everything that is added to the walk is a multiple of; `given` are the parameters that say what that is, in elements.
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
        let axes = axes::join(axes);
        for (recipe, way) in self.ways(elem).enumerate() {
            let Some(axes) = axes::in_units(&axes, way.lanes, start) else { continue };
            if let Some(cells) = way.cells() {
                let Some(tile) = Tile::new(&axes, start / i64::from(way.lanes), cells) else { continue };
                return Ok((tile.dispatch(recipe, given.base)?, way.lanes));
            }
            let Some(Walk { dims, steps, rank }) = Walk::new(&axes) else {
                let reason = format!("needs {} axes to be walked, kernels walk {MAX_RANK}", axes.len());
                return Err(OpError::new("out", reason));
            };
            let (count, slots) = (axes::count(&axes), way.slots(&axes));
            let rows = count / dims[0];
            let params = Params { dims, steps, rank, count, rows, slots, pitch: given.pitch / way.lanes, ..given };
            // What a workgroup writes: see the kernels.
            let step = match (way.kernel, slots) {
                (Kernel::Items, _) => Dispatch::items(recipe, &params, count.into(), 1024),
                (_, 0) => Dispatch::items(recipe, &params, count.div_ceil(way.per_item()).into(), 512),
                (_, slots) => {
                    Dispatch::groups(recipe, &params, u64::from(rows.div_ceil(32)) * u64::from(slots.div_ceil(16)))
                }
            };
            return Ok((step?, way.lanes));
        }
        // One element at a time always fits.
        Ok((None, 1))
    }
}

/// As many elements as a kernel can find, which no tensor of a file has more of.
///
/// # Errors
/// More than that.
pub(crate) fn check_count(elem: Elem, count: u64) -> Result<(), OpError> {
    if elem.bytes(count) > u64::from(u32::MAX) {
        return Err(OpError::new("out", format!("has {count} elements, more than kernels index")));
    }
    Ok(())
}

/// Every way to copy a window.
pub(crate) fn recipes(elem: Elem, from: TensorId, out: TensorId) -> Recipes {
    Recipes { step_words: 1, ..Recipes::of(OFFSET.recipes(elem, from, Bind::Step, out)) }
}

/// Copies a window; where it starts is the operator's step word.
///
/// # Errors
/// As [`Place::dispatch`].
pub(crate) fn plan(cx: &PlanCx<'_>, elem: Elem, out: TensorId, window: &Window) -> Result<Plan, OpError> {
    if window.dims.count() == 0 {
        return Ok(Plan { step_words: vec![0], ..Plan::new(out, window.dims, None) });
    }
    let given = Params { base: cx.step_base(), ..Params::default() };
    let (step, lanes) = OFFSET.dispatch(elem, (&window.axes, window.unit.into()), given)?;
    Ok(Plan { step_words: vec![window.offset / lanes], ..Plan::new(out, window.dims, step) })
}
