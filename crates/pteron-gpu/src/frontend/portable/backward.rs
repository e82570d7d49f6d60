//! Gradients of convolutions and of pooling, as the operators that compute them. Programs that train hold them.

use pteron_format::program::{self as file, ShapeDynamism, Value as PlanValue};

use super::PlanValues;
use super::flow::KernelArgs;
use crate::error::Result;
use crate::ir::{DataType, ValueId};
use crate::window::Window;

const CONVOLUTION: &str = "aten.convolution.default";
const FLOAT: DataType = DataType::Float32;

/// The sizes of a tensor of four dims that the program fixes.
fn fixed(values: &PlanValues<'_>, args: &KernelArgs<'_>, index: usize, name: &'static str) -> Result<[u32; 4]> {
    let tensor = values.plan.value(values.input_at(args, index)?).and_then(PlanValue::as_tensor);
    let Some(tensor) = tensor.filter(|tensor| tensor.dynamism == ShapeDynamism::Static) else {
        return Err(values.error(name, "has sizes that differ between calls, which gradients do not support"));
    };
    <[u32; 4]>::try_from(tensor.sizes.as_slice())
        .map_err(|_| values.error(name, format!("has sizes {:?}, expected four", tensor.sizes)))
}

/// `max_pool2d_with_indices_backward(grad_output, self, …, indices)`: each gradient is added to the pixel that it came from.
pub(super) fn max_pool(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<()> {
    let ([planes, channels, height, width], out) = (fixed(values, args, 1, "self")?, super::first_output(values, args)?);
    let [.., rows, columns] = fixed(values, args, 0, "grad_output")?;
    let [gradient, indices] = [values.tensor_in(args, 0)?, values.tensor_in(args, 7)?];
    let [planes, pixels, places] = [(planes, channels), (height, width), (rows, columns)].map(|(a, b)| a.saturating_mul(b));
    let gradient = values.reshaped(gradient, &[planes, places])?;
    let indices = values.reshaped(indices, &[planes, places])?;
    let sizes = values.builder.ints(&[planes.into(), pixels.into()])?;
    let (zero, none, axis) = (values.builder.double(0.0)?, values.builder.null()?, values.builder.int(1)?);
    let zeros = [sizes, zero, none, none, none, none];
    let zeros = values.builder.compute("aten.full.default", &zeros, FLOAT, &[planes, pixels])?;
    let sums = [zeros, axis, indices, gradient];
    let sums = values.builder.compute("aten.scatter_add.default", &sums, FLOAT, &[planes, pixels])?;
    let (_, dims) = values.tensor_type(out)?;
    let image = values.reshaped(sums, dims)?;
    values.assign(out, image)
}

/// A convolution of which the gradients are wanted.
struct Convolution {
    /// Sizes of the gradient, the input and the weight.
    sizes: [[u32; 4]; 3],
    /// Of rows and of columns.
    windows: [Window; 2],
    groups: u32,
}

/// `convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
/// output_mask)`.
pub(super) fn convolution(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<()> {
    let sizes = [(0, "grad_output"), (1, "input"), (2, "weight")];
    let [gradient, input, weight] = sizes.map(|(index, name)| fixed(values, args, index, name));
    if values.literal_at(args, 7, "transposed")? != 0 {
        return Err(values.error("transposed", "is true, supported: false"));
    }
    let groups = u32::try_from(values.literal_at(args, 9, "groups")?).unwrap_or(0);
    let sizes = [gradient?, input?, weight?];
    let stride = pair(values, args, 4, "stride", 1)?;
    let padding = pair(values, args, 5, "padding", 0)?;
    let dilation = pair(values, args, 6, "dilation", 1)?;
    let window = |axis: usize| Window {
        kernel: sizes[2][2 + axis],
        stride: stride[axis],
        padding: padding[axis],
        after: padding[axis],
        dilation: dilation[axis],
    };
    let it = Convolution { sizes, windows: [window(0), window(1)], groups };
    let [[batch, outs, ..], [batch_in, ins, ..], [filters, ins_of_group, ..]] = it.sizes;
    let groups_fit = groups > 0 && ins_of_group.checked_mul(groups) == Some(ins) && outs.is_multiple_of(groups);
    if !groups_fit || filters != outs || batch_in != batch {
        return Err(values.error("grad_output", format!("has sizes {:?}, which do not fit the weight", it.sizes[0])));
    }
    let wanted = match values.plan.value(values.input_at(args, 10)?) {
        Some(PlanValue::BoolList(mask)) => mask.clone(),
        _ => return Err(values.error("output_mask", "is no list of bools")),
    };
    let tensors = [values.tensor_in(args, 0)?, values.tensor_in(args, 1)?, values.tensor_in(args, 2)?];
    for ((index, &id), _) in args.outputs.iter().enumerate().zip(&wanted).filter(|(_, wanted)| **wanted) {
        if !matches!(values.plan.value(id), Some(PlanValue::Tensor(_))) {
            continue;
        }
        let result = match index {
            0 => it.of_input(values, tensors)?,
            1 => it.of_weight(values, tensors)?,
            _ => of_bias(values, tensors[0], outs)?,
        };
        values.assign(id, result)?;
    }
    Ok(())
}

/// Two numbers, or one that counts for both. Each must be at least `least`.
fn pair(
    values: &mut PlanValues<'_>,
    args: &KernelArgs<'_>,
    index: usize,
    name: &'static str,
    least: u32,
) -> Result<[u32; 2]> {
    let Some(PlanValue::IntList(items)) = values.plan.value(values.input_at(args, index)?) else {
        return Err(values.error(name, "is no list of integers"));
    };
    let numbers = items.iter().map(|&id: &file::ValueId| number(values, id).filter(|number| *number >= least));
    match *numbers.collect::<Vec<_>>() {
        [Some(both)] => Ok([both; 2]),
        [Some(a), Some(b)] => Ok([a, b]),
        _ => Err(values.error(name, format!("is not two integers from {least} that the program fixes"))),
    }
}

fn number(values: &PlanValues<'_>, id: file::ValueId) -> Option<u32> {
    match values.plan.value(id) {
        Some(PlanValue::Int(number)) => u32::try_from(*number).ok(),
        _ => None,
    }
}

impl Convolution {
    /// The transposed convolution, padded to the input's size.
    fn of_input(&self, values: &mut PlanValues<'_>, [gradient, _, weight]: [ValueId; 3]) -> Result<ValueId> {
        let [gradient_sizes, input, _] = self.sizes;
        let mut rest = [0; 2];
        for (axis, window) in self.windows.iter().enumerate() {
            let last = u64::from(gradient_sizes[2 + axis].saturating_sub(1)).saturating_mul(window.stride.into());
            let covered = last.saturating_add(window.extent());
            let padded = u64::from(input[2 + axis]) + window.paddings();
            // The operator refuses what is no output padding.
            rest[axis] = i64::try_from(padded).unwrap_or(0).saturating_sub(i64::try_from(covered).unwrap_or(i64::MAX));
        }
        let args = self.args(values, [gradient, weight], self.windows, Some(rest))?;
        values.builder.compute(CONVOLUTION, &args, FLOAT, &input)
    }

    /// A convolution of the input by the gradient, which sums over the batch: channels of a group are its images, images its channels.
    fn of_weight(&self, values: &mut PlanValues<'_>, [gradient, input, _]: [ValueId; 3]) -> Result<ValueId> {
        let [gradient_sizes, [batch, channels, rows, columns], [outs, ins, height, width]] = self.sizes;
        let groups = self.groups;
        let image = values.reshaped(input, &[batch, groups, channels / groups, rows, columns])?;
        let image = values.permuted(image, &[2, 1, 0, 3, 4])?;
        let image = values.reshaped(image, &[ins, groups.saturating_mul(batch), rows, columns])?;
        let filter = values.permuted(gradient, &[1, 0, 2, 3])?;
        let over = |axis: usize| {
            let own = self.windows[axis];
            Window { kernel: gradient_sizes[2 + axis], stride: own.dilation, dilation: own.stride, ..own }
        };
        let windows = [over(0), over(1)];
        let args = self.args(values, [image, filter], windows, None)?;
        // Rows and columns that no window reaches make the result larger than the weight.
        let counts = [(windows[0], rows), (windows[1], columns)].map(|(window, size)| window.count("input", size, false));
        let mut dims = [ins, outs, 0, 0];
        for (dim, count) in dims[2..].iter_mut().zip(counts) {
            *dim = count.map_err(|error| values.error(error.argument, error.reason))?;
        }
        let mut sums = values.builder.compute(CONVOLUTION, &args, FLOAT, &dims)?;
        for (axis, wanted) in [(2usize, height), (3, width)] {
            if dims[axis] > wanted {
                dims[axis] = wanted;
                let bounds = [i64::try_from(axis).unwrap_or(0), 0, wanted.into(), 1];
                let mut args = vec![sums];
                for bound in bounds {
                    args.push(values.builder.int(bound)?);
                }
                sums = values.builder.compute("aten.slice_copy.Tensor", &args, FLOAT, &dims)?;
            }
        }
        values.permuted(sums, &[1, 0, 2, 3])
    }

    /// The arguments of a convolution with these windows, transposed if its output is padded.
    fn args(
        &self,
        values: &mut PlanValues<'_>,
        [x, weight]: [ValueId; 2],
        windows: [Window; 2],
        rest: Option<[i64; 2]>,
    ) -> Result<[ValueId; 9]> {
        let each = |size: fn(&Window) -> u32| windows.each_ref().map(|window| i64::from(size(window)));
        Ok([
            x,
            weight,
            values.builder.null()?,
            values.builder.ints(&each(|window| window.stride))?,
            values.builder.ints(&each(|window| window.padding))?,
            values.builder.ints(&each(|window| window.dilation))?,
            values.builder.bool(rest.is_some())?,
            values.builder.ints(&rest.unwrap_or_default())?,
            values.builder.int(self.groups.into())?,
        ])
    }
}

fn of_bias(values: &mut PlanValues<'_>, gradient: ValueId, outs: u32) -> Result<ValueId> {
    let (axes, keep, none) = (values.builder.ints(&[0, 2, 3])?, values.builder.bool(false)?, values.builder.null()?);
    values.builder.compute("aten.sum.dim_IntList", &[gradient, axes, keep, none], FLOAT, &[outs])
}
