//! Sections of a tensor along a dimension: the inputs of `cat`, the outputs of `split`.

use crate::error::OpError;
use crate::graph::Elem;
use crate::params;
use crate::plan::Dispatch;
use crate::shape::Dims;
use crate::strided_copy::{Kernel, Strategy};

/// The most sections per dispatch: with the whole tensor they are the eight storage buffers that every device binds.
pub(super) const SECTIONS: usize = 7;

params! {
    /// Parameters of the `cat` and `split` kernels.
    pub(super) struct Params {
        starts: [u32; SECTIONS + 1], section_vectors: [u32; SECTIONS + 1], total: u32, rows: u32, first: u32, width: u32, count: u32, pad: [u32; 3],
    }
}

/// The strategies for sections of elements of this type.
pub(super) fn strategies(elem: Elem) -> impl Iterator<Item = &'static Strategy> {
    Strategy::of(elem).iter().filter(|strategy| matches!(strategy.kernel, Kernel::Vec4 | Kernel::Elements))
}

/// A tensor as a matrix whose columns are divided into sections.
#[derive(Debug)]
pub(super) struct Sections {
    rows: u32,
    /// The first column of each section, and the end of the last.
    starts: Vec<u32>,
}

impl Sections {
    /// Divides a tensor of dims `whole` into sections of these lengths along `axis`, which add up to it.
    pub(super) fn new(whole: &Dims, axis: usize, lengths: impl IntoIterator<Item = u32>) -> Self {
        let count = |dims: &[u32]| Dims::new(dims).map_or(0, |dims| dims.count_u32());
        let inner = count(&whole[axis + 1..]);
        let mut starts = vec![0];
        let mut end = 0;
        for length in lengths {
            end += length * inner;
            starts.push(end);
        }
        Self { rows: count(&whole[..axis]), starts }
    }

    /// The starts of a dispatch's sections, and the end of the last.
    fn starts(&self, dispatch: usize) -> &[u32] {
        let first = dispatch * SECTIONS;
        &self.starts[first..(first + SECTIONS + 1).min(self.starts.len())]
    }

    fn total(&self) -> u32 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The first strategy whose vectors are aligned with a dispatch's sections, and the index of its recipe.
    pub(super) fn strategy(&self, elem: Elem, dispatch: usize) -> Option<(usize, &'static Strategy)> {
        let recipes = dispatch * strategies(elem).count()..;
        recipes.zip(strategies(elem)).find(|(_, strategy)| self.is_aligned(dispatch, strategy.lanes))
    }

    /// Whether every section of a dispatch starts and ends at a vector of `lanes` elements in every row. The end of the tensor may be
    /// padding.
    fn is_aligned(&self, dispatch: usize, lanes: u32) -> bool {
        let (rows, total) = (self.rows, self.total());
        let aligned = |&start: &u32| start.is_multiple_of(lanes) || (rows == 1 && start == total);
        self.starts(dispatch).iter().all(aligned) && aligned(&total)
    }

    /// Parameters of a dispatch, counted in a strategy's loads; `None` if its sections are empty.
    fn params(&self, dispatch: usize, strategy: &Strategy) -> Option<Params> {
        let loads = |column: u32| column.div_ceil(strategy.lanes);
        let starts = self.starts(dispatch);
        let (&first, &end) = (starts.first()?, starts.last()?);
        if first == end {
            return None;
        }
        let mut params = Params { total: loads(self.total()), rows: self.rows, ..Params::default() };
        params.starts = [loads(end); SECTIONS + 1];
        params.starts.iter_mut().zip(starts).for_each(|(to, &start)| *to = loads(start));
        (params.first, params.width) = (loads(first), loads(end) - loads(first));
        params.count = params.rows * params.width;
        Some(params)
    }

    /// A dispatch that concatenates its sections. The element kernel visits the whole output.
    ///
    /// # Errors
    /// More workgroups than a grid can have.
    pub(super) fn join(&self, dispatch: usize, recipe: usize, strategy: &Strategy) -> Result<Option<Dispatch>, OpError> {
        let Some(mut params) = self.params(dispatch, strategy) else { return Ok(None) };
        if strategy.kernel == Kernel::Elements {
            params.count = params.rows * params.total;
        }
        let per_thread = if strategy.kernel == Kernel::Vec4 { 4 } else { 1 };
        Dispatch::items(recipe, &params, params.count.div_ceil(strategy.loads_per_vector()).into(), 256 * per_thread)
    }

    /// A dispatch that splits its sections off. The element kernel writes each section by itself.
    ///
    /// # Errors
    /// More workgroups than a grid can have.
    pub(super) fn split(&self, dispatch: usize, recipe: usize, strategy: &Strategy) -> Result<Option<Dispatch>, OpError> {
        let Some(mut params) = self.params(dispatch, strategy) else { return Ok(None) };
        if strategy.kernel == Kernel::Vec4 {
            return Dispatch::items(recipe, &params, params.count.into(), 1024);
        }
        let mut vectors = 0;
        for section in 0..SECTIONS {
            params.section_vectors[section] = vectors;
            let width = params.starts[section + 1] - params.starts[section];
            vectors += (params.rows * width).div_ceil(strategy.loads_per_vector());
        }
        params.section_vectors[SECTIONS] = vectors;
        Dispatch::items(recipe, &params, vectors.into(), 256)
    }
}
