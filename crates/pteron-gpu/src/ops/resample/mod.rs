//! Resampling of images: upsampling to a size or by factors, sampling at the points of a grid, and the points of a feature map.

mod grid_priors;
mod grid_sampler;
#[cfg(test)]
mod tests;
mod upsample;

use crate::args::Args;
use crate::error::OpError;
use crate::ops::{OpDef, names};
use crate::plan::Op;
use crate::shape::Dims;
pub(crate) use upsample::CHANNELS_LAST;

/// The operators of the family: names and decoders.
const TABLE: &[(&str, Decode)] = &[
    ("aten.upsample_nearest2d.vec", upsample::decode_nearest),
    ("aten.upsample_bilinear2d.vec", upsample::decode_bilinear),
    (CHANNELS_LAST, upsample::decode_bilinear),
    ("aten.grid_sampler_2d.default", grid_sampler::decode),
    ("et_vk.grid_priors.default", grid_priors::decode),
];

type Decode = fn(&mut Args<'_>) -> Result<Box<dyn Op>, OpError>;

static NAMES: [&str; TABLE.len()] = names!(TABLE, 0);

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef {
    names: &NAMES,
    internal: &[CHANNELS_LAST],
    kernels: &[&upsample::KERNEL, &grid_sampler::KERNEL, &grid_priors::KERNEL],
    decode: |args| args.row(TABLE).1(args),
};

/// The dims of a batch of images: batch, channels, height and width.
fn image(name: &'static str, dims: &Dims) -> Result<[u32; 4], OpError> {
    <[u32; 4]>::try_from(&**dims).map_err(|_| OpError::new(name, format!("is {dims}, expected four dimensions")))
}

/// The number of elements as kernels count it.
fn counted(dims: &Dims) -> Result<u32, OpError> {
    let count = u32::try_from(dims.count()).ok().filter(|&count| count <= u32::MAX / 4);
    count.ok_or_else(|| OpError::new("out", format!("is {dims}, more than kernels index: {} elements", u32::MAX / 4)))
}
