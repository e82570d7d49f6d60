//! Convolutions of images that are quantised when the graph runs.

use pteron_format::xnnpack::{self as file, ConvolutionKind, NodeKind};

use super::cases::{Conv, TOLERANCE, filter, per_channel};
use super::{Delegate, dynamic, float, spatial};
use crate::ops::q8_linear;

/// A delegate with one such convolution.
fn delegate(conv: &Conv) -> Delegate {
    let channels = conv.groups * conv.channels[1];
    let mut delegate = Delegate::default();
    let whole = [2, 6, 7, conv.groups * conv.channels[0]];
    let input = delegate.input(float(&whole));
    let rows = delegate.value(dynamic(&whole, 3));
    delegate.node(NodeKind::Convert { input, output: rows }, None);
    let axis = if conv.kind == ConvolutionKind::Depthwise { 3 } else { 0 };
    let quantization = per_channel(&mut delegate, channels, axis, true);
    let filter = filter(&mut delegate, file::DataType::QcInt8, &conv.filter_dims(), quantization);
    let bias = delegate.floats(&[channels], 4);
    let output = delegate.output(float(&conv.out_dims()));
    delegate.node(conv.node([rows, filter, bias, output]), None);
    let channels = whole[3];
    delegate.check(&[&[&whole], &[&[1, 5, 6, channels]]], TOLERANCE);
    delegate
}

#[test]
fn convolutions_of_dynamic_images() {
    for conv in Conv::all() {
        delegate(&conv);
    }
}

#[test]
fn pixels_of_dynamic_images_have_scales_of_their_own_where_a_layer_computes_them() {
    let alone = |groups, channels| Conv { kernel: spatial(1, 1), ..Conv::new(ConvolutionKind::Direct, groups, channels) };
    let padding = file::Padding { top: 1, right: 1, bottom: 1, left: 1 };
    for (conv, layer) in [
        (alone(1, [8, 6]), true),
        (alone(1, [12, 24]), true),
        (alone(2, [4, 4]), false),
        (Conv { stride: spatial(2, 2), ..alone(1, [8, 6]) }, false),
        (Conv { padding, ..alone(1, [8, 6]) }, false),
    ] {
        let operators = delegate(&conv).operators();
        assert_eq!(operators.contains(&q8_linear::rows::NAME), layer, "{operators:?}");
    }
}
