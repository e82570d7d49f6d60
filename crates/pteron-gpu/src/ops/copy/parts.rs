//! A tensor and its parts along a dimension, for what puts them together and what takes them apart.

use super::strided::{Kernel, Way};
use crate::error::OpError;
use crate::graph::Elem;
use crate::params;
use crate::plan::Dispatch;
use crate::shape::Dims;

/// The most parts a dispatch has: with the whole they are the eight buffers every device binds.
pub(super) const PARTS: usize = 7;

params! {
    /// Of `cat.wgsl`, `split.wgsl` and their lanes.
    pub(super) struct Params {
        starts: [u32; PARTS + 1], items: [u32; PARTS + 1], total: u32, rows: u32, first: u32, width: u32, count: u32, pad: [u32; 3],
    }
}

/// Every way to copy parts of elements of this type.
pub(super) fn ways(elem: Elem) -> impl Iterator<Item = &'static Way> {
    Way::of(elem).iter().filter(|way| matches!(way.kernel, Kernel::Items | Kernel::Lanes))
}

/// A tensor as rows of columns, cut into parts. A part has the same rows, and of each the columns between two cuts.
#[derive(Debug)]
pub(super) struct Parts {
    rows: u32,
    /// The first column of each part, and the end of the last.
    cuts: Vec<u32>,
}

impl Parts {
    /// A tensor of dims `whole` in parts that are so long along `axis`, which together have all of it.
    pub(super) fn new(whole: &Dims, axis: usize, lengths: impl IntoIterator<Item = u32>) -> Self {
        let count = |dims: &[u32]| Dims::new(dims).map_or(0, |dims| dims.count_u32());
        let inner = count(&whole[axis + 1..]);
        let mut cuts = vec![0];
        let mut end = 0;
        for length in lengths {
            end += length * inner;
            cuts.push(end);
        }
        Self { rows: count(&whole[..axis]), cuts }
    }

    /// The cuts around the parts of a dispatch.
    fn cuts(&self, dispatch: usize) -> &[u32] {
        let first = dispatch * PARTS;
        &self.cuts[first..(first + PARTS + 1).min(self.cuts.len())]
    }

    fn total(&self) -> u32 {
        self.cuts.last().copied().unwrap_or(0)
    }

    /// The first way whose units a dispatch's parts begin and end with, as its place among all recipes.
    pub(super) fn way(&self, elem: Elem, dispatch: usize) -> Option<(usize, &'static Way)> {
        let recipes = dispatch * ways(elem).count()..;
        recipes.zip(ways(elem)).find(|(_, way)| self.in_units(dispatch, way.lanes))
    }

    /// Whether every part of a dispatch begins and ends at whole units in every row. The end of everything may be cut short.
    fn in_units(&self, dispatch: usize, lanes: u32) -> bool {
        let (rows, total) = (self.rows, self.total());
        let whole = |&cut: &u32| cut.is_multiple_of(lanes) || (rows == 1 && cut == total);
        self.cuts(dispatch).iter().all(whole) && whole(&total)
    }

    /// Parameters of a dispatch that copies its parts in units of a way, four words at a time; `None` if they are empty.
    fn params(&self, dispatch: usize, way: &Way) -> Option<Params> {
        let units = |column: u32| column.div_ceil(way.lanes);
        let cuts = self.cuts(dispatch);
        let (&first, &end) = (cuts.first()?, cuts.last()?);
        if first == end {
            return None;
        }
        let mut params = Params { total: units(self.total()), rows: self.rows, ..Params::default() };
        params.starts = [units(end); PARTS + 1];
        params.starts.iter_mut().zip(cuts).for_each(|(start, &cut)| *start = units(cut));
        (params.first, params.width) = (units(first), units(end) - units(first));
        params.count = params.rows * params.width;
        Some(params)
    }

    /// A dispatch that puts its parts together. Where they begin anywhere it looks at everything.
    ///
    /// # Errors
    /// More workgroups than a grid can have.
    pub(super) fn join(&self, dispatch: usize, recipe: usize, way: &Way) -> Result<Option<Dispatch>, OpError> {
        let Some(mut params) = self.params(dispatch, way) else { return Ok(None) };
        if way.kernel == Kernel::Lanes {
            params.count = params.rows * params.total;
        }
        let per_thread = if way.kernel == Kernel::Items { 4 } else { 1 };
        Dispatch::items(recipe, &params, params.count.div_ceil(way.per_item()).into(), 256 * per_thread)
    }

    /// A dispatch that takes its parts out. Where they begin anywhere each is written by itself.
    ///
    /// # Errors
    /// More workgroups than a grid can have.
    pub(super) fn split(&self, dispatch: usize, recipe: usize, way: &Way) -> Result<Option<Dispatch>, OpError> {
        let Some(mut params) = self.params(dispatch, way) else { return Ok(None) };
        if way.kernel == Kernel::Items {
            return Dispatch::items(recipe, &params, params.count.into(), 1024);
        }
        let mut items = 0;
        for part in 0..PARTS {
            params.items[part] = items;
            let width = params.starts[part + 1] - params.starts[part];
            items += (params.rows * width).div_ceil(way.per_item());
        }
        params.items[PARTS] = items;
        Dispatch::items(recipe, &params, items.into(), 256)
    }
}
