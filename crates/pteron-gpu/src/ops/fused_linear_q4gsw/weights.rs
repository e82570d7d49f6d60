//! The weights of one call: one to three matrices that are rows of one in memory, their scales, and their biases.

use super::Params;
use crate::args::Args;
use crate::error::OpError;
use crate::graph::{Elem, TensorInfo};
use crate::live::TensorId;
use crate::matmul::{Layout, Q4};
use crate::memory::joined;
use crate::plan::Bind;

/// The most matrices of one call: each has an output, and a kernel binds eight buffers at most.
pub(super) const MAX_MATRICES: usize = 3;

/// Scales and biases begin at whole vectors, so no bias begins here.
pub(super) const NO_BIAS: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct WeightMatrices {
    list: Vec<WeightMatrix>,
    /// What all of them have in common.
    pub(super) k: u32,
    pub(super) group: u32,
    weight_stride: u32,
    /// Where the scales of each begin in their buffer, and then the biases of those that have one, counted in floats.
    starts: Vec<u32>,
}

#[derive(Debug)]
pub(super) struct WeightMatrix {
    pub(super) weights: Q4,
    pub(super) layout: Layout,
    pub(super) bias: Option<TensorId>,
}

impl WeightMatrices {
    /// Takes weights, scales, the group and biases from the arguments.
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
        let starts = starts.map_err(|_| OpError::new("scales", "are more than kernels index"))?;
        Ok(Self { list, k, group, weight_stride, starts })
    }

    pub(super) fn list(&self) -> &[WeightMatrix] {
        &self.list
    }

    /// The columns of each part.
    pub(super) fn widths(&self) -> impl Iterator<Item = u32> + '_ {
        self.list.iter().map(|part| part.layout.n)
    }

    /// What kernels bind for the weights and for the scales, and the constants that are joined for it. One alone is bound as it
    /// is, so that others can share it.
    pub(super) fn binds(&self) -> (Bind, Bind, Vec<Vec<TensorId>>) {
        let mut lists = Vec::new();
        let weights: Vec<TensorId> = self.list.iter().map(|part| part.weights.weight).collect();
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

    /// The parameters that follow from the weights alone, for the columns of all parts.
    pub(super) fn params(&self) -> Params {
        let mut params = Params { k: self.k, group: self.group, weight_stride: self.weight_stride, ..Params::default() };
        params.first = [u32::MAX; 4];
        params.bias = [NO_BIAS; 4];
        let mut biases = self.starts[self.list.len()..].iter();
        for (index, (part, &start)) in self.list.iter().zip(&self.starts).enumerate() {
            params.first[index] = params.n;
            params.width[index] = part.layout.n;
            params.scales[index] = start;
            params.scale_stride[index] = part.layout.scale_stride;
            if let Some(&start) = part.bias.and_then(|_| biases.next()) {
                params.bias[index] = start;
            }
            params.n += part.layout.n;
        }
        params
    }
}

/// What lies in the buffer of scales, in order: those of all parts, then the biases.
fn in_scales(list: &[WeightMatrix]) -> impl Iterator<Item = TensorId> + '_ {
    list.iter().map(|part| part.weights.scales).chain(list.iter().filter_map(|part| part.bias))
}

impl WeightMatrix {
    /// A part that the kernels can read: constants of the file, in whole vectors.
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
                return Err(OpError::new(name, format!("has tensor {tensor}, which is no constant of the file")));
            }
        }
        let weights = Q4::new(args, weight, scales, group)?;
        let Some(layout) = weights.fixed() else { return Err(OpError::new("weights", "are no constants of the file")) };
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
