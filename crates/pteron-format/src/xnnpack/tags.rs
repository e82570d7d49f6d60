//! The tags of node kinds in the file.

use super::{BinaryOp, ConvolutionKind, UnaryOp};

pub(super) const FULLY_CONNECTED: u8 = 2;
pub(super) const SOFTMAX: u8 = 3;
pub(super) const STATIC_TRANSPOSE: u8 = 5;
pub(super) const STATIC_RESIZE_BILINEAR_2D: u8 = 9;
pub(super) const STATIC_CONSTANT_PAD: u8 = 10;
pub(super) const AVG_POOLING_2D: u8 = 11;
pub(super) const MAX_POOLING_2D: u8 = 14;
pub(super) const CONVERT: u8 = 18;
pub(super) const GLOBAL_AVG_POOLING_2D: u8 = 19;
pub(super) const STATIC_RESHAPE: u8 = 20;
pub(super) const ARG_MAX_POOLING_2D: u8 = 21;
pub(super) const LEAKY_RELU: u8 = 25;
pub(super) const ELU: u8 = 29;
pub(super) const STATIC_SLICE: u8 = 35;
/// A kind that exporters once wrote. ExecuTorch refuses it.
pub(super) const SCALED_DOT_PRODUCT_ATTENTION: u8 = 36;
pub(super) const BATCH_MATRIX_MULTIPLY: u8 = 37;

/// The tags of concatenations, by the number of inputs.
pub(super) const CONCATENATE: [(u8, usize); 4] = [(32, 2), (33, 3), (34, 4), (38, 5)];

pub(super) const CONVOLUTION: [(u8, ConvolutionKind); 3] =
    [(7, ConvolutionKind::Direct), (13, ConvolutionKind::Depthwise), (39, ConvolutionKind::Transposed)];

pub(super) const BINARY: [(u8, BinaryOp); 7] = [
    (1, BinaryOp::Add),
    (8, BinaryOp::Divide),
    (12, BinaryOp::Minimum),
    (15, BinaryOp::Multiply),
    (16, BinaryOp::Subtract),
    (26, BinaryOp::Maximum),
    (31, BinaryOp::PRelu),
];

/// Functions without parameters.
pub(super) const UNARY: [(u8, UnaryOp); 17] = [
    (4, UnaryOp::Sigmoid),
    (6, UnaryOp::Clamp),
    (17, UnaryOp::Floor),
    (22, UnaryOp::SquareRoot),
    (23, UnaryOp::Ceiling),
    (24, UnaryOp::HardSwish),
    (27, UnaryOp::Negate),
    (28, UnaryOp::Square),
    (30, UnaryOp::Abs),
    (40, UnaryOp::ReciprocalSquareRoot),
    (41, UnaryOp::Log),
    (42, UnaryOp::Gelu),
    (43, UnaryOp::Tanh),
    (44, UnaryOp::Exp),
    (45, UnaryOp::Sin),
    (46, UnaryOp::Copy),
    (47, UnaryOp::Cos),
];

/// The entry of a tag.
pub(super) fn of_tag<T: Copy>(list: &[(u8, T)], tag: u8) -> Option<T> {
    list.iter().find(|entry| entry.0 == tag).map(|entry| entry.1)
}

/// The tag of an entry; 0, which no reader accepts, if it has none.
pub(super) fn tag_of<T: Copy + PartialEq>(list: &[(u8, T)], item: T) -> u8 {
    list.iter().find(|entry| entry.1 == item).map_or(0, |entry| entry.0)
}

/// Flags of nodes.
pub(super) mod flags {
    /// The filter, or the second matrix, is transposed.
    pub(in super::super) const TRANSPOSED: u32 = 1;
    /// Corner pixels keep their place.
    pub(in super::super) const ALIGN_CORNERS: u32 = 8;
    /// Reduced dims stay as 1. Set on pooling, where it changes nothing.
    pub(in super::super) const KEEP_DIMS: u32 = 64;
}
