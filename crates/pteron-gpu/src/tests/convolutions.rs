//! Hand-written graphs of convolutions and their neighbours that no exporter writes.

use super::operators::Sample;
use crate::ir::{DataType, Value, ValueId};
use crate::live::TensorId;
use crate::ops::convolution::fused::{FusedConvolution, SILU};
use crate::packing::WeightLayout;
use crate::reference::HostTensor;
use crate::testing::{GraphBuilder, f32s, noise};
use crate::window::geometry::Geometry;

pub(super) fn samples() -> Vec<Sample> {
    let names = ["et_vk.conv1d_pw.default", "et_vk.conv1d_dw.default"];
    let mut samples: Vec<Sample> = names.into_iter().map(along_one_dimension).collect();
    samples.extend([as_gemm(), largest(), last_channels(), fused()]);
    samples
}

fn images(shapes: &[&[u32]]) -> Vec<Vec<HostTensor>> {
    let values = |shape: &&[u32]| vec![f32s(shape, noise(3, shape.iter().product::<u32>() as usize))];
    shapes.iter().map(values).collect()
}

fn lists(builder: &mut GraphBuilder, lists: &[&[i64]]) -> Vec<ValueId> {
    lists.iter().map(|list| builder.value(Value::IntList(list.to_vec()))).collect()
}

/// Sequences, with bounds of the result or without.
fn along_one_dimension(name: &str) -> Sample {
    let mut builder = GraphBuilder::new();
    let pointwise = name.contains("_pw");
    let x = builder.input(DataType::Float32, &[2, 6, 9]);
    let (dims, groups): ([u32; 3], i64) = if pointwise { ([4, 6, 1], 1) } else { ([6, 1, 3], 6) };
    let weight = builder.floats(&dims, &noise(1, dims.iter().product::<u32>() as usize));
    let bias = builder.floats(&dims[..1], &noise(2, dims[0] as usize));
    let padding: i64 = if pointwise { 0 } else { 1 };
    let mut args = vec![x, weight, bias];
    args.extend(lists(&mut builder, &[&[1], &[padding], &[1]]));
    args.push(builder.int(groups));
    if pointwise {
        args.extend([builder.float(-0.5), builder.value(Value::Null)]);
    }
    let out = builder.tensor(DataType::Float32, &[2, dims[0], 9]);
    args.push(out);
    builder.call(name, &args);
    builder.output(out);
    (builder, images(&[&[2, 6, 9], &[1, 6, 4], &[2, 6, 1]]))
}

fn as_gemm() -> Sample {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[1, 3, 7, 8]);
    let weight = builder.floats(&[5, 3, 3, 3], &noise(1, 135));
    let mut args = vec![x, weight, builder.value(Value::Null)];
    args.extend(lists(&mut builder, &[&[2, 2], &[1, 1], &[1, 1]]));
    args.push(builder.value(Value::Bool(false)));
    args.extend(lists(&mut builder, &[&[0, 0]]));
    let out = builder.tensor(DataType::Float32, &[1, 5, 4, 4]);
    args.extend([builder.int(1), out]);
    builder.call("et_vk.conv2d_gemm.default", &args);
    builder.output(out);
    (builder, images(&[&[1, 3, 7, 8], &[1, 3, 2, 5]]))
}

fn largest() -> Sample {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[2, 3, 6, 5]);
    let mut args = vec![x];
    args.extend(lists(&mut builder, &[&[2, 2], &[2, 2], &[0, 0], &[1, 1]]));
    let out = builder.tensor(DataType::Float32, &[2, 3, 3, 3]);
    args.extend([builder.value(Value::Bool(true)), out]);
    builder.call("aten.max_pool2d.default", &args);
    builder.output(out);
    (builder, images(&[&[2, 3, 6, 5], &[1, 3, 3, 2]]))
}

/// Operators on tensors with channels last.
fn last_channels() -> Sample {
    let mut builder = GraphBuilder::new();
    let dims = [2, 6, 5, 8];
    let x = builder.input(DataType::Float32, &dims);
    let [weight, bias, mean, variance] = [1, 2, 3, 4].map(|seed| {
        let values: Vec<f32> = noise(seed, 8).iter().map(|value| value.abs() + 0.1).collect();
        builder.floats(&[8], &values)
    });
    let (eps, tenth, no) = (builder.float(1e-5), builder.float(0.1), builder.value(Value::Bool(false)));
    let [normal, grouped] = [(); 2].map(|()| builder.tensor(DataType::Float32, &dims));
    builder.call(crate::ops::batch_norm::CHANNELS_LAST, &[x, weight, bias, mean, variance, tenth, eps, normal]);
    let [means, rstds] = [(); 2].map(|()| builder.tensor(DataType::Float32, &[2, 4]));
    let list = builder.value(Value::ValueList(vec![grouped, means, rstds]));
    let sizes = [2, 8, 30, 4].map(|size| builder.int(size));
    builder.call(crate::ops::group_norm::CHANNELS_LAST, &[&[normal, weight, bias], &sizes[..], &[eps, list]].concat());
    let windows = lists(&mut builder, &[&[2, 2], &[2, 2], &[0, 0], &[1, 1]]);
    let [largest, average] = [(); 2].map(|()| builder.tensor(DataType::Float32, &[2, 3, 2, 8]));
    builder.call("pteron.max_pool2d_channels_last", &[&[grouped], &windows[..], &[no, largest]].concat());
    let none = builder.value(Value::Null);
    builder.call("pteron.avg_pool2d_channels_last", &[&[grouped], &windows[..3], &[no, no, none, average]].concat());
    [largest, average].into_iter().for_each(|output| builder.output(output));
    (builder, images(&[&dims, &[1, 4, 3, 8]]))
}

/// A convolution with everything that fusions add to it.
fn fused() -> Sample {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[2, 6, 5, 8]);
    let weight = builder.floats(&[8, 8, 3, 3], &noise(1, 576));
    let bias = builder.floats(&[8], &noise(2, 8));
    let out = builder.tensor(DataType::Float32, &[2, 6, 5, 8]);
    let [x, weight, bias, out] = [x, weight, bias, out].map(|value| TensorId(value.0));
    let geometry = Geometry {
        spatial: 2,
        stride: [1; 2],
        padding: [1; 2],
        after: [1; 2],
        dilation: [1; 2],
        transposed: false,
        output_padding: [0; 2],
        groups: 1,
    };
    let (bias, activation, addend) = (Some(bias), Some(SILU), Some(x));
    let (layout, bounds, addend_first) = (WeightLayout::OutIn, [-2.0, 2.0], true);
    let call = FusedConvolution { x, weight, layout, bias, geometry, bounds, activation, addend, addend_first, out };
    let call = call.call(&mut builder.graph);
    builder.graph.calls.push(call);
    builder.output(ValueId(out.0));
    (builder, images(&[&[2, 6, 5, 8], &[1, 4, 3, 8]]))
}
