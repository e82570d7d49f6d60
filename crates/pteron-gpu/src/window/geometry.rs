//! The arguments of a convolution that describe its windows, and the sizes that follow from them at live shapes.

use crate::args::Args;
use crate::error::OpError;
use crate::packing::WeightLayout;
use crate::shape::Dims;
use crate::window::{self, Window};

/// The arguments that describe windows and groups. Convolutions along one dimension are those of images with one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// The number of dimensions that are convolved.
    pub(crate) spatial: usize,
    /// Down and across.
    pub(crate) stride: [u32; 2],
    pub(crate) padding: [u32; 2],
    /// Padding after the input.
    pub(crate) after: [u32; 2],
    pub(crate) dilation: [u32; 2],
    pub(crate) transposed: bool,
    pub(crate) output_padding: [u32; 2],
    pub(crate) groups: u32,
}

/// The sizes of a convolution at live shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) batch: u32,
    /// Channels of a group.
    pub(crate) channels_in: u32,
    pub(crate) channels_out: u32,
    /// Height and width.
    pub(crate) input: [u32; 2],
    pub(crate) output: [u32; 2],
    pub(crate) windows: [Window; 2],
    /// The dims of the output, channels first.
    pub(crate) out: Dims,
}

/// A list with a number per dimension as numbers down and across.
fn pair(list: &[u32], unit: u32) -> [u32; 2] {
    match *list {
        [down, across] => [down, across],
        [across] => [unit, across],
        _ => [unit; 2],
    }
}

impl Geometry {
    /// Decodes `stride` to `groups`; an operator that is never transposed has no arguments for it. Where `uneven` is allowed, `padding`
    /// may have numbers before and after the input.
    ///
    /// # Errors
    /// Numbers that no convolution has.
    pub(crate) fn decode(args: &mut Args<'_>, x: Dims, may_transpose: bool, uneven: bool) -> Result<Self, OpError> {
        let spatial = match x.len() {
            3 | 4 => x.len() - 2,
            5 => return Err(OpError::new("input", format!("is {x}: convolution along three dimensions is not supported"))),
            _ => return Err(OpError::new("input", format!("is {x}, expected 3 or 4 dimensions"))),
        };
        let stride = pair(&window::sizes(args, "stride", spatial, 1)?, 1);
        let (before, after) = window::paddings(args, "padding", spatial, uneven)?;
        let [padding, after] = [before, after].map(|list| pair(&list, 0));
        let dilation = pair(&window::sizes(args, "dilation", spatial, 1)?, 1);
        let (mut transposed, mut output_padding) = (false, [0; 2]);
        if may_transpose {
            transposed = args.bool("transposed")?;
            output_padding = pair(&window::sizes(args, "output_padding", spatial, 0)?, 0);
        }
        let groups = args.int("groups")?;
        let Some(groups) = u32::try_from(groups).ok().filter(|&groups| groups > 0) else {
            return Err(OpError::new("groups", format!("is {groups}, expected at least 1")));
        };
        let geometry = Self { spatial, stride, padding, after, dilation, transposed, output_padding, groups };
        geometry.check_output_padding()?;
        Ok(geometry)
    }

    fn check_output_padding(&self) -> Result<(), OpError> {
        for axis in 0..2 {
            let (given, most) = (self.output_padding[axis], self.stride[axis].max(self.dilation[axis]));
            if self.transposed && given >= most {
                let reason = format!("is {given}, expected less than the stride or the dilation, {most}");
                return Err(OpError::new("output_padding", reason));
            }
        }
        Ok(())
    }

    /// The windows for a kernel of these sizes.
    fn windows(&self, kernel: [u32; 2]) -> [Window; 2] {
        std::array::from_fn(|axis| Window {
            kernel: kernel[axis],
            stride: self.stride[axis],
            padding: self.padding[axis],
            after: self.after[axis],
            dilation: self.dilation[axis],
        })
    }

    /// The order of weights that a call names, which for transposed convolutions has input channels first unless channels are last.
    pub(crate) fn order(&self, layout: WeightLayout) -> WeightLayout {
        if layout == WeightLayout::OutIn && self.transposed { WeightLayout::InOut } else { layout }
    }

    /// The dims of a weight in the order that PyTorch has, of those in another order.
    ///
    /// # Errors
    /// Dims that no such weight has.
    pub(crate) fn logical_weight(&self, layout: WeightLayout, weight: Dims) -> Result<Dims, OpError> {
        let fail = |expected: String| Err(OpError::new("weight", format!("is {weight}, expected {expected}")));
        match (layout, &*weight) {
            (WeightLayout::OutIn | WeightLayout::InOut, _) => Ok(weight),
            (WeightLayout::ChannelsLast, &[out, height, width, channels]) => {
                if !self.transposed {
                    return Ok(Dims::of([out, channels, height, width]));
                }
                match channels.checked_mul(self.groups).filter(|_| out.is_multiple_of(self.groups)) {
                    Some(all_in) => Ok(Dims::of([all_in, out / self.groups, height, width])),
                    None => fail(format!("output channels in {} groups", self.groups)),
                }
            }
            (WeightLayout::Depthwise, &[1, height, width, out]) if !self.transposed => Ok(Dims::of([out, 1, height, width])),
            _ => fail("four dimensions, channels last".to_owned()),
        }
    }

    /// Checks the shapes against one another, and computes the output's. All have channels first.
    ///
    /// # Errors
    /// Shapes that do not fit together, by argument and numbers.
    pub(crate) fn sizes(&self, x: Dims, weight: Dims, bias: Option<Dims>) -> Result<Sizes, OpError> {
        let fail = |argument, reason: String| Err(OpError::new(argument, reason));
        let rank = self.spatial + 2;
        if x.len() != rank {
            return fail("input", format!("is {x}, expected {rank} dimensions"));
        }
        if weight.len() != rank || weight[2..].contains(&0) {
            return fail("weight", format!("is {weight}, expected {rank} dimensions and a kernel of at least one element"));
        }
        let (groups, channels) = (self.groups, x[1]);
        if !channels.is_multiple_of(groups) {
            return fail("groups", format!("is {groups}, which does not divide the {channels} channels of the input"));
        }
        // The weight's first dims are out × in per group, or in × out per group if transposed.
        let (whole, per_group) = (weight[0], weight[1]);
        if !whole.is_multiple_of(groups) {
            return fail("groups", format!("is {groups}, which does not divide the {whole} channels of the weight"));
        }
        let fits = if self.transposed { whole == channels } else { per_group == channels / groups };
        if !fits {
            let reason = format!("is {weight}, but the input has {channels} channels in {groups} groups");
            return fail("weight", reason);
        }
        let channels_out = if self.transposed { per_group } else { whole / groups };
        let Some(all_out) = channels_out.checked_mul(groups) else {
            return fail("groups", format!("is {groups}, too many for {channels_out} output channels each"));
        };
        if let Some(bias) = bias.filter(|bias| bias.len() != 1 || bias[0] != all_out) {
            return fail("bias", format!("is {bias}, but the output has {all_out} channels"));
        }
        let [kernel, input] = [&weight[2..], &x[2..]].map(|dims| pair(dims, 1));
        let windows = self.windows(kernel);
        let mut output = [1; 2];
        for axis in 2 - self.spatial..2 {
            output[axis] = if self.transposed {
                windows[axis].transposed("input", input[axis], self.output_padding[axis])?
            } else {
                windows[axis].count("input", input[axis], false)?
            };
        }
        let mut out = x.with(1, all_out);
        for axis in 0..self.spatial {
            out = out.with(2 + axis, output[2 - self.spatial + axis]);
        }
        let (channels_in, batch) = (channels / groups, x[0]);
        Ok(Sizes { batch, channels_in, channels_out, input, output, windows, out })
    }
}

impl Sizes {
    /// The elements of a kernel.
    pub(crate) fn taps(&self) -> u32 {
        self.windows[0].kernel.saturating_mul(self.windows[1].kernel)
    }

    /// The pixels of the output of all images.
    pub(crate) fn pixels(&self) -> u64 {
        u64::from(self.batch) * u64::from(self.output[0]) * u64::from(self.output[1])
    }
}

/// Dims with channels first of dims with channels last.
pub(crate) fn channels_first(dims: &Dims) -> Option<Dims> {
    let last = dims.len().checked_sub(1).filter(|&last| last >= 2)?;
    let order = [0, last].into_iter().chain(1..last);
    Dims::new(&order.map(|axis| dims[axis]).collect::<Vec<_>>())
}

/// Dims with channels last of dims with channels first.
pub(crate) fn channels_last(dims: &Dims) -> Option<Dims> {
    let order = [0].into_iter().chain(2..dims.len()).chain([1]);
    Dims::new(&order.map(|axis| dims.get(axis).copied()).collect::<Option<Vec<_>>>()?)
}

/// The order of the weights, by name.
pub(crate) fn decode_layout(args: &mut Args<'_>) -> Result<WeightLayout, OpError> {
    let name = args.text("weight_layout")?;
    let found = WeightLayout::NAMED.iter().find(|(known, _)| *known == name);
    found.map(|&(_, layout)| layout).ok_or_else(|| OpError::new("weight_layout", format!("is {name:?}, which is no order")))
}
