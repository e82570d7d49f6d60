//! The weights of one call: one to three matrices whose rows are adjacent in one buffer, their scales, and their biases.

use super::Params;
use crate::args::Args;
use crate::error::OpError;
use crate::graph::{Elem, TensorInfo};
use crate::live::TensorId;
use crate::matmul::{Layout, Q4};
use crate::memory::{joined, padded};
use crate::packing::{Packing, RowTiles, ScaleTiles};
use crate::plan::{Bind, JoinedConstants, JoinedPart};

/// The most matrices per call: each has an output, and a kernel binds at most eight buffers.
pub(super) const MAX_MATRICES: usize = 3;

/// Values of k per unit of a tile.
pub(super) const UNIT_VALUES: u32 = 32;

/// The offset of an absent bias: biases begin at whole vectors, so none begins here.
pub(super) const NO_BIAS: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct WeightMatrices {
    list: Vec<WeightMatrix>,
    /// Common to all of them.
    pub(super) k: u32,
    pub(super) group: u32,
    /// Offsets in the scales buffer, in floats: the scales of each matrix, then the biases of those that have one.
    starts: Vec<u32>,
}

#[derive(Debug)]
pub(super) struct WeightMatrix {
    pub(super) weights: Q4,
    pub(super) layout: Layout,
    pub(super) bias: Option<TensorId>,
}

impl WeightMatrices {
    /// Decodes weights, scales, group size and biases.
    pub(super) fn take(args: &mut Args<'_>) -> Result<Self, OpError> {
        let weights = args.tensors("weights")?;
        let scales = args.tensors("scales")?;
        let group = args.int("group_size")?;
        let biases = args.optional_tensors("biases")?;
        if weights.is_empty() || weights.len() > MAX_MATRICES {
            return Err(OpError::new("weights", format!("has {} tensors, expected 1 to {MAX_MATRICES}", weights.len())));
        }
        for (name, found) in [("scales", scales.len()), ("biases", biases.len())] {
            if found != weights.len() {
                return Err(OpError::new(name, format!("has {found} tensors, expected {}", weights.len())));
            }
        }
        let tensors = weights.into_iter().zip(scales).zip(biases);
        let list = tensors.map(|((weight, scales), bias)| WeightMatrix::check(args, weight, scales, group, bias));
        Self::of(args, list.collect::<Result<_, _>>()?)
    }

    fn of(args: &Args<'_>, list: Vec<WeightMatrix>) -> Result<Self, OpError> {
        let Layout { k, group, .. } = list[0].layout;
        if let Some(other) = list.iter().map(|matrix| matrix.layout.k).find(|&own| own != k) {
            return Err(OpError::new("weights", format!("have rows of {k} and of {other} values, expected alike")));
        }
        let bytes = |part: &JoinedPart| {
            let TensorInfo { elem, bound } = args.info(part.tensor);
            part.bytes(elem.bytes(bound.count()))
        };
        let (starts, _) = joined(in_scales(&list).iter().map(bytes));
        let starts = starts.into_iter().map(|start| u32::try_from(start / 4)).collect::<Result<Vec<_>, _>>();
        let starts = starts.map_err(|_| OpError::new("scales", "take more than 32-bit indices reach"))?;
        Ok(Self { list, k, group, starts })
    }

    pub(super) fn list(&self) -> &[WeightMatrix] {
        &self.list
    }

    /// Units of 32 values per column of a tile.
    fn units(&self) -> u32 {
        (self.k / UNIT_VALUES).next_multiple_of(2)
    }

    /// The columns of each matrix.
    pub(super) fn widths(&self) -> impl Iterator<Item = u32> + '_ {
        self.list.iter().map(|matrix| matrix.layout.n)
    }

    /// The bindings of weights and scales, and the constants packed for them.
    pub(super) fn binds(&self) -> (Bind, Bind, Vec<JoinedConstants>) {
        let part = |matrix: &WeightMatrix| JoinedPart { tensor: matrix.weights.weight, packing: Some(matrix.tiles()) };
        let lists = [self.list.iter().map(part).collect(), in_scales(&self.list)];
        (Bind::Joined(0), Bind::Joined(1), lists.map(|parts| JoinedConstants { parts }).into())
    }

    /// Bytes of the larger of both bindings, if biases are no longer than they must be.
    pub(super) fn largest_binding(&self) -> u64 {
        let weights = self.list.iter().map(|matrix| matrix.tiles().bytes()).fold(0, u64::saturating_add);
        let scales = |matrix: &WeightMatrix| {
            let bias = if matrix.bias.is_some() { padded(4 * u64::from(matrix.layout.n)) } else { 0 };
            Packing::Scales(matrix.scale_tiles()).bytes().saturating_add(bias)
        };
        weights.max(self.list.iter().map(scales).fold(0, u64::saturating_add))
    }

    /// The parameters that follow from the weights alone, for all columns.
    pub(super) fn params(&self) -> Params {
        let scale_lanes = self.list[0].scale_tiles().lanes();
        let mut params = Params { k: self.k, units: self.units(), scale_lanes, ..Params::default() };
        params.first = [u32::MAX; 4];
        params.first_tile = [u32::MAX; 4];
        params.bias = [NO_BIAS; 4];
        let mut biases = self.starts[self.list.len()..].iter();
        for (index, matrix) in self.list.iter().enumerate() {
            params.first[index] = params.n;
            params.width[index] = matrix.layout.n;
            if let Some(&start) = matrix.bias.and_then(|_| biases.next()) {
                params.bias[index] = start;
            }
            params.first_tile[index] = params.tiles;
            params.n += matrix.layout.n;
            params.tiles += matrix.scale_tiles().tiles();
        }
        params
    }
}

/// The constants of the scales buffer, in order: scales of all matrices, then biases.
fn in_scales(list: &[WeightMatrix]) -> Vec<JoinedPart> {
    let scales = |matrix: &WeightMatrix| {
        let packing = Some(Packing::Scales(matrix.scale_tiles()));
        JoinedPart { tensor: matrix.weights.scales, packing }
    };
    let bias = |matrix: &WeightMatrix| matrix.bias.map(|tensor| JoinedPart { tensor, packing: None });
    list.iter().map(scales).chain(list.iter().filter_map(bias)).collect()
}

impl WeightMatrix {
    /// The layout of the weights on the GPU.
    fn tiles(&self) -> Packing {
        let Layout { n, k, weight_stride, .. } = self.layout;
        Packing::Rows(RowTiles { rows: n, stride: weight_stride, kept: k / 2 })
    }

    /// The layout of the scales.
    fn scale_tiles(&self) -> ScaleTiles {
        let Layout { n, k, group, scale_stride, .. } = self.layout;
        ScaleTiles { rows: n, stride: scale_stride, units: k / UNIT_VALUES, units_per_scale: group / UNIT_VALUES }
    }

    /// Checks a matrix: constants of the file, in whole vectors.
    fn check(
        args: &Args<'_>,
        weight: TensorId,
        scales: TensorId,
        group: i64,
        bias: Option<TensorId>,
    ) -> Result<Self, OpError> {
        for (name, tensor, elem) in
            [("weights", Some(weight), Elem::U8), ("scales", Some(scales), Elem::F32), ("biases", bias, Elem::F32)]
        {
            let Some(tensor) = tensor else { continue };
            let found = args.info(tensor).elem;
            if found != elem {
                return Err(OpError::new(name, format!("has elements {found:?}, supported: {:?}", [elem])));
            }
            if !args.is_constant(tensor) {
                return Err(OpError::new(name, format!("has tensor {tensor}, expected a constant")));
            }
        }
        let weights = Q4::new(args, weight, scales, group)?;
        let Some(layout) = weights.fixed() else { return Err(OpError::new("weights", "must be constants")) };
        let Layout { n, k, group, weight_stride, scale_stride } = layout;
        if !layout.in_vectors() || k == 0 {
            let what = format!(
                "has rows of {k} values in groups of {group}, {weight_stride} bytes a row and {scale_stride} scales a group, \
                 expected whole multiples of 32, 32, 16 and 4"
            );
            return Err(OpError::new("weights", what));
        }
        if n % 4 != 0 || n == 0 {
            return Err(OpError::new("weights", format!("has {n} rows, expected a multiple of 4")));
        }
        let long = |bias: &TensorId| {
            let dims = args.info(*bias).bound;
            dims.len() == 1 && dims[0] >= n
        };
        if let Some(short) = bias.filter(|bias| !long(bias)) {
            let dims = args.info(short).bound;
            return Err(OpError::new("biases", format!("has {dims}, but the output has {n} columns")));
        }
        Ok(Self { weights, layout, bias })
    }
}
