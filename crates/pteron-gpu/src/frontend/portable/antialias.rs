//! Bilinear resizing of images with antialiasing: a smaller image is made of sums over all pixels that fall into one of its own.
//!
//! Each row and each column is a sum of others with fixed weights, so both directions are products with constant matrices.

use pteron_format::program::{ShapeDynamism, Value as PlanValue};

use super::PlanValues;
use super::flow::KernelArgs;
use crate::error::Result;
use crate::ir::{DataType, ValueId};

const LINEAR: &str = "aten.linear.default";
const PERMUTE: &str = "aten.permute_copy.default";

/// `_upsample_bilinear2d_aa(input, output_size, align_corners, scales_h, scales_w)`.
pub(super) fn upsample(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<()> {
    let (from, to) = (values.input_at(args, 0)?, super::first_output(values, args)?);
    let fixed = [from, to].iter().all(|&id| {
        let tensor = values.plan.value(id).and_then(PlanValue::as_tensor);
        tensor.is_some_and(|tensor| tensor.dynamism == ShapeDynamism::Static)
    });
    if !fixed {
        return Err(values.error("output_size", "differs between calls, which is not supported with antialiasing"));
    }
    let ((_, sizes), (dtype, out)) = (values.tensor_type(from)?, values.tensor_type(to)?);
    let (&[_, _, height, width], &[batch, channels, out_height, out_width]) = (sizes, out) else {
        return Err(values.error("input", format!("has sizes {sizes:?}, expected four")));
    };
    let align_corners = values.literal_at(args, 2, "align_corners")? != 0;
    // Both factors count, or neither.
    let [across, along] = match (factor(values, args, 3)?, factor(values, args, 4)?) {
        (Some(across), Some(along)) => [Some(across), Some(along)],
        _ => [None, None],
    };
    let input = values.tensor_in(args, 0)?;
    let columns = weights(values, width, out_width, step(width, out_width, align_corners, along))?;
    let rows = weights(values, height, out_height, step(height, out_height, align_corners, across))?;
    let none = values.builder.null()?;
    let wide = values.builder.compute(LINEAR, &[input, columns, none], dtype, &[batch, channels, height, out_width])?;
    let swap = values.builder.ints(&[0, 1, 3, 2])?;
    let turned = values.builder.compute(PERMUTE, &[wide, swap], dtype, &[batch, channels, out_width, height])?;
    let resized = values.builder.compute(LINEAR, &[turned, rows, none], dtype, &[batch, channels, out_width, out_height])?;
    let image = values.builder.compute(PERMUTE, &[resized, swap], dtype, out)?;
    values.assign(to, image)
}

/// A factor of the sizes, if the program has one.
fn factor(values: &PlanValues<'_>, args: &KernelArgs<'_>, index: usize) -> Result<Option<f64>> {
    match values.plan.value(values.input_at(args, index)?) {
        Some(PlanValue::Double(factor)) => Ok(Some(factor.0).filter(|factor| *factor > 0.0)),
        _ => Ok(None),
    }
}

/// The distance in the input of two neighbours of the output.
#[allow(clippy::cast_possible_truncation, reason = "ExecuTorch computes weights with 32-bit floats")]
fn step(size: u32, out: u32, align_corners: bool, factor: Option<f64>) -> f32 {
    let step = match factor {
        _ if align_corners && out > 1 => f64::from(size.saturating_sub(1)) / f64::from(out - 1),
        _ if align_corners => 0.0,
        Some(factor) => 1.0 / factor,
        None => f64::from(size) / f64::from(out.max(1)),
    };
    step as f32
}

/// The matrix `[out, size]` of weights, whose rows sum to 1.
fn weights(values: &mut PlanValues<'_>, size: u32, out: u32, step: f32) -> Result<ValueId> {
    // Before any is computed: the program decides how many.
    let count = u64::from(size).saturating_mul(out.into());
    values.builder.charge(usize::try_from(count.div_ceil(256)).unwrap_or(usize::MAX))?;
    let mut bytes = Vec::new();
    for index in 0..out {
        row(index, size, step).iter().for_each(|weight| bytes.extend_from_slice(&weight.to_le_bytes()));
    }
    values.builder.bytes(DataType::Float32, &[out, size], bytes)
}

/// The weights of an output pixel: a triangle around its centre, at least one pixel wide to both sides.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "sizes of images")]
fn row(index: u32, size: u32, step: f32) -> Vec<f32> {
    let centre = step * (index as f32 + 0.5);
    let reach = step.max(1.0);
    // Conversions of negative numbers give 0.
    let (first, end) = ((centre - reach + 0.5) as u32, ((centre + reach + 0.5) as u32).min(size));
    let triangle = |at: u32| (1.0 - ((at as f32 - centre + 0.5) / reach).abs()).max(0.0);
    let mut row: Vec<f32> = (0..size).map(|at| if (first..end).contains(&at) { triangle(at) } else { 0.0 }).collect();
    let sum: f32 = row.iter().sum();
    if sum > 0.0 {
        row.iter_mut().for_each(|weight| *weight /= sum);
    } else if let Some(nearest) = row.get_mut((centre as u32).min(size.saturating_sub(1)) as usize) {
        *nearest = 1.0;
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_those_of_pytorch() {
        // torch.nn.functional.interpolate(torch.eye(5)[None, None], (5, 2), mode="bilinear", antialias=True) by columns.
        let first = [7.0 / 22.0, 9.0 / 22.0, 5.0 / 22.0, 1.0 / 22.0, 0.0];
        let expected = [first, [first[4], first[3], first[2], first[1], first[0]]];
        for (index, expected) in (0..).zip(expected) {
            let found = row(index, 5, step(5, 2, false, None));
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
        }
        assert_eq!(row(2, 4, 1.0), [0.0, 0.0, 1.0, 0.0]);
    }

    #[test]
    fn steps_follow_corners_and_factors() {
        assert_eq!(step(9, 5, true, Some(7.0)), 2.0);
        assert_eq!(step(9, 1, true, None), 0.0);
        assert_eq!(step(9, 4, false, Some(0.5)), 2.0);
        assert_eq!(step(9, 3, false, None), 3.0);
    }
}
