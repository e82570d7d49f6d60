//! Largest indices of the kernels.

use super::Params;
use crate::kernel::reach::{Counts, DispatchView, Reached, count};

/// The parameters of a call with outputs, and the elements of its input, channels of its bias and elements of its output.
struct Elements {
    params: Params,
    input: Counts,
    bias: Counts,
    output: Counts,
}

impl Elements {
    /// `None` for parameters that no plan produces.
    fn of(call: &DispatchView<'_>) -> Option<Self> {
        let params = call.params::<Params>()?;
        let sizes =
            [params.pixels, params.output_h, params.output_w, params.groups, params.splits, params.vectors, params.kernel_w];
        let exact = u64::from(params.all_in) == u64::from(params.channels_in) * u64::from(params.groups)
            && u64::from(params.all_out) == u64::from(params.channels_out) * u64::from(params.groups)
            && params.all_out.is_multiple_of(4)
            && params.vectors == params.channels_in.div_ceil(4);
        if sizes.contains(&0) || !exact {
            return None;
        }
        // Images are whole: pixels of an image are at most those of all.
        let plane = u64::from(params.output_h) * u64::from(params.output_w);
        let images = u32::try_from(u64::from(params.pixels).checked_div(plane)?).ok()?;
        if u64::from(images).checked_mul(plane)? != u64::from(params.pixels) {
            return None;
        }
        let input = count(images) * count(params.input_h) * count(params.input_w) * count(params.all_in);
        let bias = count(if params.has_bias == 1 { params.all_out } else { 0 });
        let output = count(params.pixels) * count(params.all_out);
        Some(Self { params, input, bias, output })
    }

    fn addend(&self, call: &DispatchView<'_>) -> Counts {
        if call.flag("HAS_ADDEND") { self.output } else { count(0) }
    }

    /// Adds the input: in vectors if the kernel reads those, which then are whole.
    fn read(&self, call: &DispatchView<'_>, in_fours: bool) -> Option<Reached> {
        match call.type_bytes("L")? {
            16 if in_fours => Some(Reached::new().fours(self.input, 16)),
            4 => Some(Reached::new().array(self.input, 4)),
            _ => None,
        }
    }
}

/// Products in tiles (`fused_convolution_gemm.wgsl`, `fused_convolution_coop_matrix.wgsl`): pixels and tiles of channels past the last
/// repeat it.
pub(super) fn gemm(call: &DispatchView<'_>) -> Option<Reached> {
    let elements = Elements::of(call)?;
    let params = &elements.params;
    let rows_fit =
        u64::from(params.rows) >= u64::from(params.kernel_h) * u64::from(params.kernel_w) * u64::from(params.vectors) * 4;
    let whole =
        params.rows.is_multiple_of(32) && params.split_rows.is_multiple_of(32) && params.channels_out.is_multiple_of(4);
    if params.tiles == 0 || !rows_fit || !whole {
        return None;
    }
    let read = elements.read(call, params.channels_in.is_multiple_of(4))?;
    let weights = count(params.groups) * count(params.tiles) * count(params.rows) * count(16);
    let weight_bytes = if call.variant.kernel.cooperative_matrix { 8 } else { 16 };
    let read = read.fours(weights, weight_bytes).fours(elements.bias, 16);
    let partial = call.flag("PARTIAL");
    let addend = if partial { count(0) } else { elements.addend(call) };
    let outputs = if partial { elements.output * count(params.splits) } else { elements.output };
    Some(read.fours(addend, 16).fours(outputs, 16))
}

/// Partial sums (`fused_convolution_sum.wgsl`).
pub(super) fn sum(call: &DispatchView<'_>) -> Option<Reached> {
    let elements = Elements::of(call)?;
    let read = Reached::new().fours(elements.output * count(elements.params.splits), 16).fours(elements.bias, 16);
    Some(read.fours(elements.addend(call), 16).fours(elements.output, 16))
}

/// Depthwise convolution (`fused_convolution_depthwise.wgsl`).
pub(super) fn depthwise(call: &DispatchView<'_>) -> Option<Reached> {
    let elements = Elements::of(call)?;
    let params = &elements.params;
    if params.channels_in != 1 {
        return None;
    }
    let read = elements.read(call, params.channels_out == 1)?;
    let weights = count(params.kernel_h) * count(params.kernel_w) * count(params.all_out);
    Some(read.fours(weights, 16).fours(elements.bias, 16).fours(elements.addend(call), 16).fours(elements.output, 16))
}
