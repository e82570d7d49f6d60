//! Weights of 4 bits in groups that share a scale: `weight` u8 `[n, ≥ k/2]` with the even column in the low half of a byte and
//! 8 for zero, `scales` `[k/group, ≥ n]`. Exporters pad rows of both.

use crate::args::Args;
use crate::error::OpError;
use crate::live::TensorId;
use crate::matmul::Params;
use crate::plan::PlanCx;
use crate::reference::HostTensors;
use crate::shape::Dims;

/// The tensors of 4-bit weights.
#[derive(Debug)]
pub(crate) struct Q4 {
    pub(crate) weight: TensorId,
    pub(crate) scales: TensorId,
    pub(crate) group: u32,
    /// How the weights lie, where the file fixes it.
    fixed: Option<Layout>,
}

/// How 4-bit weights lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) n: u32,
    pub(crate) k: u32,
    group: u32,
    weight_stride: u32,
    scale_stride: u32,
}

impl Q4 {
    /// Weights that have been taken from the arguments.
    pub(crate) fn new(args: &Args<'_>, weight: TensorId, scales: TensorId, group: i64) -> Result<Self, OpError> {
        let group = match u32::try_from(group) {
            Ok(group) if group > 0 => group,
            _ => return Err(OpError::new("group_size", format!("is {group}, expected at least 1"))),
        };
        let fixed = if args.is_constant(weight) && args.is_constant(scales) {
            Some(layout(group, args.info(weight).bound, args.info(scales).bound)?)
        } else {
            None
        };
        Ok(Self { weight, scales, group, fixed })
    }

    /// How the weights lie now.
    pub(crate) fn layout(&self, cx: &PlanCx<'_>) -> Result<Layout, OpError> {
        layout(self.group, cx.dims(self.weight), cx.dims(self.scales))
    }

    /// Whether it is certain that activations can be read in vectors of four.
    pub(crate) fn vectors_of_x(&self) -> bool {
        self.fixed.is_some_and(|layout| layout.k % 4 == 0)
    }

    /// Whether it is certain that rows are whole 16-byte vectors, each with one scale, and scales whole vectors.
    pub(crate) fn vectors_of_weights(&self) -> bool {
        self.fixed.is_some_and(|Layout { k, group, weight_stride, scale_stride, .. }| {
            k % 32 == 0 && group % 32 == 0 && weight_stride % 16 == 0 && scale_stride % 4 == 0
        })
    }

    /// The value of one weight as a whole number, for references.
    pub(crate) fn value(&self, layout: &Layout, tensors: &HostTensors, n: usize, k: usize) -> f64 {
        let byte = tensors.u8(self.weight)[n * layout.weight_stride as usize + k / 2];
        f64::from(if k.is_multiple_of(2) { byte & 0xf } else { byte >> 4 }) - 8.0
    }

    /// The scale of one weight, for references.
    pub(crate) fn scale(&self, layout: &Layout, tensors: &HostTensors, n: usize, k: usize) -> f64 {
        f64::from(tensors.f32(self.scales)[k / self.group as usize * layout.scale_stride as usize + n])
    }
}

impl Layout {
    /// The parameters of a product with these weights.
    pub(crate) fn fill(&self, params: Params) -> Params {
        let Self { group, weight_stride, scale_stride, .. } = *self;
        let words = (u64::from(self.n) * u64::from(weight_stride)).div_ceil(4);
        let last_word = u32::try_from(words.saturating_sub(1)).unwrap_or(u32::MAX);
        Params { group, weight_stride, scale_stride, last_word, ..params }
    }
}

fn layout(group: u32, weight: Dims, scales: Dims) -> Result<Layout, OpError> {
    if weight.len() != 2 {
        return Err(OpError::new("weight", format!("is {weight}, expected two dimensions")));
    }
    let (n, weight_stride) = (weight[0], weight[1]);
    if scales.len() != 2 || scales[1] < n {
        return Err(OpError::new("scales", format!("is {scales}, expected a scale for each of {n} rows in each group")));
    }
    let columns = u64::from(scales[0]) * u64::from(group);
    match u32::try_from(columns) {
        Ok(k) if u64::from(weight_stride) * 2 >= columns => {
            Ok(Layout { n, k, group, weight_stride, scale_stride: scales[1] })
        }
        _ => Err(OpError::new("scales", format!("is {scales} for groups of {group}, past the weight's {weight} bytes"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(dims: &[u32]) -> Dims {
        Dims::new(dims).unwrap()
    }

    #[test]
    fn layouts_are_checked() {
        let fits = layout(24, dims(&[7, 36]), dims(&[3, 8])).unwrap();
        assert_eq!((fits.n, fits.k, fits.weight_stride, fits.scale_stride), (7, 72, 36, 8));
        let params = fits.fill(Params::default());
        assert_eq!((params.group, params.last_word), (24, 62));
        assert!(layout(24, dims(&[7, 35]), dims(&[3, 8])).unwrap_err().reason.contains("past the weight's [7, 35]"));
        assert!(layout(24, dims(&[7, 36]), dims(&[3, 6])).unwrap_err().reason.contains("each of 7 rows"));
        assert!(layout(u32::MAX, dims(&[7, 36]), dims(&[3, 8])).is_err());
        assert!(layout(1, dims(&[7]), dims(&[3, 8])).is_err());
    }

    #[test]
    fn vectors_need_everything_aligned() {
        let q4 = |group, weight: &[u32], scales: &[u32]| Q4 {
            weight: TensorId(0),
            scales: TensorId(1),
            group,
            fixed: Some(layout(group, dims(weight), dims(scales)).unwrap()),
        };
        assert!(q4(32, &[6, 32], &[2, 8]).vectors_of_weights());
        assert!(!q4(32, &[6, 32], &[2, 6]).vectors_of_weights());
        assert!(!q4(16, &[6, 32], &[4, 8]).vectors_of_weights());
        assert!(!q4(32, &[6, 36], &[2, 8]).vectors_of_weights());
        assert!(q4(18, &[6, 36], &[4, 6]).vectors_of_x());
        assert!(!q4(6, &[6, 9], &[3, 6]).vectors_of_x());
    }
}
