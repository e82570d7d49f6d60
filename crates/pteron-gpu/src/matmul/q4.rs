//! 4-bit weights, `weight` u8 `[n, ≥ k/2]` with 8 for zero, and their scales. With scales per group, the even column is in
//! the low nibble of a byte and `scales` is `[k/group, ≥ n]`; exporters pad rows of both. Constant scales `[n, k/group, 1]`, row by row, are
//! transposed when they are uploaded. With one scale per row, the even column is in the high nibble and `scales` is `[n]`.

use crate::args::Args;
use crate::error::OpError;
use crate::live::TensorId;
use crate::matmul::Params;
use crate::packing::{Packing, Transposed};
use crate::plan::{Bind, JoinedConstants, JoinedPart, PlanCx};
#[cfg(any(test, feature = "reference"))]
use crate::reference::HostTensors;
use crate::shape::Dims;

/// The tensors of 4-bit weights.
#[derive(Debug)]
pub(crate) struct Q4 {
    pub(crate) weight: TensorId,
    pub(crate) scales: TensorId,
    scaling: Scaling,
    /// The layout of the weights, if the file fixes it.
    fixed: Option<Layout>,
}

/// The elements that share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scaling {
    /// This many columns of a row.
    Group(u32),
    /// A whole row, of this many columns.
    Row(u32),
}

/// The memory layout of 4-bit weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) group: u32,
    pub(crate) weight_stride: u32,
    /// Scales from one group to the next on the GPU.
    pub(crate) scale_stride: u32,
    /// Whether the constant has the scales of one row after another.
    pub(crate) by_row: bool,
}

impl Q4 {
    /// Creates weights with scales per group, taken from the arguments.
    pub(crate) fn new(args: &Args<'_>, weight: TensorId, scales: TensorId, group: i64) -> Result<Self, OpError> {
        let scale_dims = args.info(scales).bound;
        if scale_dims.len() > 2 {
            return Err(OpError::new("scales", format!("is {scale_dims}, expected two dimensions")));
        }
        Self::in_any_order(args, weight, scales, group)
    }

    /// As [`new`](Self::new); constant scales may also be `[n, k/group, 1]`, row by row.
    pub(crate) fn in_any_order(args: &Args<'_>, weight: TensorId, scales: TensorId, group: i64) -> Result<Self, OpError> {
        let weights = match u32::try_from(group) {
            Ok(group) if group > 0 => Self::with(args, weight, scales, Scaling::Group(group))?,
            _ => return Err(OpError::new("group_size", format!("is {group}, expected at least 1"))),
        };
        if weights.fixed.is_none() && args.info(scales).bound.len() > 2 {
            return Err(OpError::new("scales", "are computed row by row, expected a constant"));
        }
        Ok(weights)
    }

    /// The binding of the scales, and the constant packed for it if they are row by row.
    pub(crate) fn scales_bind(&self) -> (Bind, Vec<JoinedConstants>) {
        let Some(layout) = self.fixed.filter(|layout| layout.by_row) else { return (self.scales.into(), Vec::new()) };
        let columns = layout.k.checked_div(layout.group).unwrap_or(0);
        let packing = Packing::Transposed(Transposed { rows: layout.n, columns, stride: layout.scale_stride });
        let part = JoinedPart { tensor: self.scales, packing: Some(packing) };
        (Bind::Joined(0), vec![JoinedConstants { parts: vec![part] }])
    }

    /// Creates weights with one scale per row, taken from the arguments, for activations of `k` columns.
    pub(crate) fn by_row(args: &Args<'_>, weight: TensorId, scales: TensorId, k: u32) -> Result<Self, OpError> {
        Self::with(args, weight, scales, Scaling::Row(k))
    }

    fn with(args: &Args<'_>, weight: TensorId, scales: TensorId, scaling: Scaling) -> Result<Self, OpError> {
        let fixed = if args.is_constant(weight) && args.is_constant(scales) {
            Some(layout(scaling, args.info(weight).bound, args.info(scales).bound)?)
        } else {
            None
        };
        Ok(Self { weight, scales, scaling, fixed })
    }

    /// Columns per scale, if scales are per group.
    pub(crate) fn group(&self) -> Option<u32> {
        match self.scaling {
            Scaling::Group(group) => Some(group),
            Scaling::Row(_) => None,
        }
    }

    /// The live layout of the weights.
    pub(crate) fn layout(&self, cx: &PlanCx<'_>) -> Result<Layout, OpError> {
        layout(self.scaling, cx.dims(self.weight), cx.dims(self.scales))
    }

    /// The layout of the weights, if both they and their scales are constants of the file.
    pub(crate) fn fixed(&self) -> Option<Layout> {
        self.fixed
    }

    /// Whether activations can always be read in vectors of four.
    pub(crate) fn vectors_of_x(&self) -> bool {
        self.fixed.is_some_and(|layout| layout.k % 4 == 0)
    }

    /// Whether rows are always whole 16-byte vectors, each with one scale, and scales whole vectors.
    pub(crate) fn vectors_of_weights(&self) -> bool {
        self.fixed.is_some_and(|layout| layout.in_vectors())
    }

    /// The integer value of one weight, for references.
    #[cfg(any(test, feature = "reference"))]
    pub(crate) fn value(&self, layout: &Layout, tensors: &HostTensors, n: usize, k: usize) -> f64 {
        let byte = tensors.u8(self.weight)[n * layout.weight_stride as usize + k / 2];
        let low = k.is_multiple_of(2) != self.high_first();
        f64::from(if low { byte & 0xf } else { byte >> 4 }) - 8.0
    }

    /// Whether the even column is in the high nibble of a byte.
    pub(crate) fn high_first(&self) -> bool {
        matches!(self.scaling, Scaling::Row(_))
    }

    /// The scale of one weight, for references.
    #[cfg(any(test, feature = "reference"))]
    pub(crate) fn scale(&self, layout: &Layout, tensors: &HostTensors, n: usize, k: usize) -> f64 {
        let (group, groups) = (k / layout.group as usize, layout.k as usize / layout.group as usize);
        let at = if layout.by_row { n * groups + group } else { group * layout.scale_stride as usize + n };
        f64::from(tensors.f32(self.scales)[at])
    }
}

impl Layout {
    /// Whether rows are whole 16-byte vectors, each with one scale, and scales whole vectors.
    pub(crate) fn in_vectors(&self) -> bool {
        let Self { k, group, weight_stride, scale_stride, .. } = self;
        k % 32 == 0 && group % 32 == 0 && weight_stride % 16 == 0 && scale_stride % 4 == 0
    }

    /// The parameters of a product with these weights.
    pub(crate) fn fill(&self, params: Params) -> Params {
        let Self { group, weight_stride, scale_stride, .. } = *self;
        let words = (u64::from(self.n) * u64::from(weight_stride)).div_ceil(4);
        let last_word = u32::try_from(words.saturating_sub(1)).unwrap_or(u32::MAX);
        Params { group, weight_stride, scale_stride, last_word, ..params }
    }
}

fn layout(scaling: Scaling, weight: Dims, scales: Dims) -> Result<Layout, OpError> {
    if weight.len() != 2 {
        return Err(OpError::new("weight", format!("is {weight}, expected two dimensions")));
    }
    let (n, weight_stride) = (weight[0], weight[1]);
    match scaling {
        Scaling::Group(group) => in_groups(group, n, weight_stride, scales),
        Scaling::Row(k) => in_rows(k, n, weight_stride, scales),
    }
}

fn in_groups(group: u32, n: u32, weight_stride: u32, scales: Dims) -> Result<Layout, OpError> {
    let (groups, scale_stride, by_row) = match *scales {
        [groups, stride] if stride >= n => (groups, stride, false),
        // Whole vectors of the scales of a group.
        [rows, groups, 1] if rows == n => (groups, n.next_multiple_of(4), true),
        _ => {
            let reason = format!("is {scales}, expected a scale for each of {n} rows in each group");
            return Err(OpError::new("scales", reason));
        }
    };
    let columns = u64::from(groups) * u64::from(group);
    match u32::try_from(columns) {
        Ok(k) if u64::from(weight_stride) * 2 >= columns => Ok(Layout { n, k, group, weight_stride, scale_stride, by_row }),
        _ => {
            let what = format!("is {scales} for groups of {group}, past the weight's [{n}, {weight_stride}] bytes");
            Err(OpError::new("scales", what))
        }
    }
}

fn in_rows(k: u32, n: u32, weight_stride: u32, scales: Dims) -> Result<Layout, OpError> {
    if *scales != [n] {
        return Err(OpError::new("scales", format!("is {scales}, expected [{n}] for the weight's rows")));
    }
    if k.div_ceil(2) != weight_stride {
        let what = format!("has rows of {weight_stride} bytes, expected {} for {k} columns", k.div_ceil(2));
        return Err(OpError::new("weight", what));
    }
    // A single group, so that the group stride is never used.
    Ok(Layout { n, k, group: k.max(1), weight_stride, scale_stride: 0, by_row: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(dims: &[u32]) -> Dims {
        Dims::new(dims).unwrap()
    }

    #[test]
    fn layouts_are_checked() {
        let fits = layout(Scaling::Group(24), dims(&[7, 36]), dims(&[3, 8])).unwrap();
        assert_eq!((fits.n, fits.k, fits.weight_stride, fits.scale_stride), (7, 72, 36, 8));
        let params = fits.fill(Params::default());
        assert_eq!((params.group, params.last_word), (24, 62));
        assert!(
            layout(Scaling::Group(24), dims(&[7, 35]), dims(&[3, 8]))
                .unwrap_err()
                .reason
                .contains("past the weight's [7, 35]")
        );
        assert!(layout(Scaling::Group(24), dims(&[7, 36]), dims(&[3, 6])).unwrap_err().reason.contains("each of 7 rows"));
        assert!(layout(Scaling::Group(u32::MAX), dims(&[7, 36]), dims(&[3, 8])).is_err());
        assert!(layout(Scaling::Group(1), dims(&[7]), dims(&[3, 8])).is_err());
    }

    #[test]
    fn vectors_need_everything_aligned() {
        let q4 = |group, weight: &[u32], scales: &[u32]| Q4 {
            weight: TensorId(0),
            scales: TensorId(1),
            scaling: Scaling::Group(group),
            fixed: Some(layout(Scaling::Group(group), dims(weight), dims(scales)).unwrap()),
        };
        assert!(q4(32, &[6, 32], &[2, 8]).vectors_of_weights());
        assert!(!q4(32, &[6, 32], &[2, 6]).vectors_of_weights());
        assert!(!q4(16, &[6, 32], &[4, 8]).vectors_of_weights());
        assert!(!q4(32, &[6, 36], &[2, 8]).vectors_of_weights());
        assert!(q4(18, &[6, 36], &[4, 6]).vectors_of_x());
        assert!(!q4(6, &[6, 9], &[3, 6]).vectors_of_x());
    }
    #[test]
    fn rows_with_a_scale_each_are_one_group() {
        let fits = layout(Scaling::Row(64), dims(&[7, 32]), dims(&[7])).unwrap();
        assert_eq!((fits.n, fits.k, fits.group, fits.weight_stride), (7, 64, 64, 32));
        let odd = layout(Scaling::Row(63), dims(&[7, 32]), dims(&[7])).unwrap();
        assert_eq!((odd.k, odd.group), (63, 63));
        let error = layout(Scaling::Row(62), dims(&[7, 32]), dims(&[7])).unwrap_err();
        assert_eq!((error.argument, error.reason.as_str()), ("weight", "has rows of 32 bytes, expected 31 for 62 columns"));
        assert!(layout(Scaling::Row(64), dims(&[7, 32]), dims(&[1, 7])).unwrap_err().reason.contains("expected [7]"));
    }
}
