//! The weights of one call: one to three matrices whose rows are adjacent in one buffer, their scales, and their biases.

use super::Params;
use crate::args::Args;
use crate::error::OpError;
use crate::graph::{Elem, TensorInfo};
use crate::live::TensorId;
use crate::matmul::{Layout, Q4};
use crate::memory::joined;
use crate::plan::Bind;

/// The most matrices per call: each has an output, and a kernel binds at most eight buffers.
pub(super) const MAX_MATRICES: usize = 3;

/// The offset of an absent bias: biases begin at whole vectors, so none begins here.
pub(super) const NO_BIAS: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct WeightMatrices {
    list: Vec<WeightMatrix>,
    /// Common to all of them.
    pub(super) k: u32,
    pub(super) group: u32,
    weight_stride: u32,
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
        let Layout { k, group, weight_stride, .. } = list[0].layout;
        for WeightMatrix { layout, .. } in &list {
            if (layout.k, layout.weight_stride) != (k, weight_stride) {
                let (own, stride) = (layout.k, layout.weight_stride);
                let what =
                    format!("have rows of {k} values in {weight_stride} bytes and of {own} in {stride}, expected alike");
                return Err(OpError::new("weights", what));
            }
        }
        let bytes = |tensor: TensorId| {
            let TensorInfo { elem, bound } = args.info(tensor);
            elem.bytes(bound.count())
        };
        let (starts, _) = joined(in_scales(&list).map(bytes));
        let starts = starts.into_iter().map(|start| u32::try_from(start / 4)).collect::<Result<Vec<_>, _>>();
        let starts = starts.map_err(|_| OpError::new("scales", "take more than 32-bit indices reach"))?;
        Ok(Self { list, k, group, weight_stride, starts })
    }

    pub(super) fn list(&self) -> &[WeightMatrix] {
        &self.list
    }

    /// The columns of each matrix.
    pub(super) fn widths(&self) -> impl Iterator<Item = u32> + '_ {
        self.list.iter().map(|matrix| matrix.layout.n)
    }

    /// The bindings of weights and scales, and the constants joined for them. A single constant is bound as it is, so that other
    /// operators can share it.
    pub(super) fn binds(&self) -> (Bind, Bind, Vec<Vec<TensorId>>) {
        let mut lists = Vec::new();
        let weights: Vec<TensorId> = self.list.iter().map(|matrix| matrix.weights.weight).collect();
        let scales: Vec<TensorId> = in_scales(&self.list).collect();
        let [weights, scales] = [weights, scales].map(|list| match list.as_slice() {
            &[one] => one.into(),
            _ => {
                lists.push(list);
                Bind::Joined(lists.len() - 1)
            }
        });
        (weights, scales, lists)
    }

    /// The parameters that follow from the weights alone, for all columns.
    pub(super) fn params(&self) -> Params {
        let mut params = Params { k: self.k, group: self.group, weight_stride: self.weight_stride, ..Params::default() };
        params.first = [u32::MAX; 4];
        params.bias = [NO_BIAS; 4];
        let mut biases = self.starts[self.list.len()..].iter();
        for (index, (matrix, &start)) in self.list.iter().zip(&self.starts).enumerate() {
            params.first[index] = params.n;
            params.width[index] = matrix.layout.n;
            params.scales[index] = start;
            params.scale_stride[index] = matrix.layout.scale_stride;
            if let Some(&start) = matrix.bias.and_then(|_| biases.next()) {
                params.bias[index] = start;
            }
            params.n += matrix.layout.n;
        }
        params
    }
}

/// The constants of the scales buffer, in order: scales of all matrices, then biases.
fn in_scales(list: &[WeightMatrix]) -> impl Iterator<Item = TensorId> + '_ {
    list.iter().map(|matrix| matrix.weights.scales).chain(list.iter().filter_map(|matrix| matrix.bias))
}

impl WeightMatrix {
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
