use super::{AVG_CHANNELS_LAST, MAX_CHANNELS_LAST};
use crate::ir::{DataType, Value, ValueId};
use crate::reference::HostTensor;
use crate::testing::{GraphBuilder, check, f32s, load_error, noise};

const MAX: &str = "aten.max_pool2d_with_indices.default";
const AVG: &str = "aten.avg_pool2d.default";

/// Lists of an operator's arguments: kernel, stride, padding and dilation.
type Windows = [&'static [i64]; 4];

fn lists(builder: &mut GraphBuilder, lists: &[&[i64]]) -> Vec<ValueId> {
    lists.iter().map(|list| builder.value(Value::IntList(list.to_vec()))).collect()
}

fn max(x: &[u32], out: &[u32], windows: Windows, ceil: bool) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let mut args = vec![builder.input(DataType::Float32, x)];
    args.extend(lists(&mut builder, &windows));
    args.push(builder.value(Value::Bool(ceil)));
    let values = builder.tensor(DataType::Float32, out);
    let indices = builder.tensor(DataType::Int32, out);
    args.push(builder.value(Value::ValueList(vec![values, indices])));
    builder.call(MAX, &args);
    [values, indices].into_iter().for_each(|output| builder.output(output));
    builder
}

/// An average with `ceil_mode`, `count_include_pad` and `divisor_override`.
fn avg(x: &[u32], out: &[u32], windows: Windows, flags: [bool; 2], divisor: Option<i64>) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let mut args = vec![builder.input(DataType::Float32, x)];
    args.extend(lists(&mut builder, &windows[..3]));
    args.extend(flags.map(|flag| builder.value(Value::Bool(flag))));
    args.push(builder.value(divisor.map_or(Value::Null, Value::Int)));
    let out = builder.tensor(DataType::Float32, out);
    args.push(out);
    builder.call(AVG, &args);
    builder.output(out);
    builder
}

fn values(shape: &[u32]) -> Vec<HostTensor> {
    vec![f32s(shape, noise(u64::from(shape[0]) + 5, shape.iter().product::<u32>() as usize))]
}

#[test]
fn maxima_and_their_indices_at_any_shape() {
    let calls = |shapes: &[&[u32]]| shapes.iter().map(|shape| values(shape)).collect::<Vec<_>>();
    let builder = max(&[2, 3, 9, 8], &[2, 3, 5, 4], [&[3, 3], &[2, 2], &[1, 1], &[1, 1]], false);
    check(&builder, &calls(&[&[2, 3, 9, 8], &[1, 3, 1, 1], &[2, 3, 4, 7], &[0, 3, 4, 7]]), 0.0);
    let builder = max(&[1, 2, 8, 8], &[1, 2, 4, 3], [&[2, 3], &[], &[0], &[1, 1]], true);
    // Windows may be larger than the input, too: by less than a stride.
    check(&builder, &calls(&[&[1, 2, 8, 8], &[1, 2, 3, 5], &[1, 2, 1, 2], &[1, 2, 2, 1]]), 0.0);
    let builder = max(&[3, 11, 12], &[3, 7, 8], [&[3], &[1, 1], &[0, 0], &[2, 2]], false);
    check(&builder, &calls(&[&[3, 11, 12], &[1, 5, 5]]), 0.0);
}

#[test]
fn windows_with_nothing_inside_or_without_numbers() {
    // Both taps of the second window are outside of a single row.
    let builder = max(&[1, 1, 1, 4], &[1, 1, 1, 2], [&[2, 2], &[1, 2], &[2, 0], &[4, 1]], false);
    check(&builder, &[values(&[1, 1, 1, 4])], 0.0);
    let builder = max(&[1, 1, 2, 4], &[1, 1, 1, 2], [&[2, 2], &[2, 2], &[0, 0], &[1, 1]], false);
    let [nan, low] = [f32::NAN, f32::NEG_INFINITY];
    check(&builder, &[vec![f32s(&[1, 1, 2, 4], vec![1.0, nan, low, low, nan, 7.0, low, low])]], 0.0);
}

#[test]
fn averages_count_as_they_are_told() {
    let calls = |shapes: &[&[u32]]| shapes.iter().map(|shape| values(shape)).collect::<Vec<_>>();
    let windows: Windows = [&[3, 2], &[2, 2], &[1, 1], &[]];
    for (flags, divisor) in [([false, true], None), ([false, false], None), ([true, true], None), ([true, false], Some(-3))]
    {
        let out = if flags[0] { [2, 3, 5, 5] } else { [2, 3, 4, 4] };
        let builder = avg(&[2, 3, 8, 7], &out, windows, flags, divisor);
        check(&builder, &calls(&[&[2, 3, 8, 7], &[1, 3, 1, 2], &[2, 3, 5, 6]]), 1e-5);
    }
}

#[test]
fn channels_last_give_the_same() {
    for channels in [3, 8] {
        let x = [2, 6, 7, channels];
        let mut builder = GraphBuilder::new();
        let input = builder.input(DataType::Float32, &x);
        let out = [2, 3, 4, channels];
        let windows = lists(&mut builder, &[&[3, 3], &[2, 2], &[1, 1], &[1, 1]]);
        let [no, yes] = [false, true].map(|flag| builder.value(Value::Bool(flag)));
        let none = builder.value(Value::Null);
        let [largest, mean] = [0; 2].map(|_| builder.tensor(DataType::Float32, &out));
        builder.call(MAX_CHANNELS_LAST, &[&[input], &windows[..], &[no, largest]].concat());
        builder.call(AVG_CHANNELS_LAST, &[&[input], &windows[..3], &[no, yes, none, mean]].concat());
        [largest, mean].into_iter().for_each(|output| builder.output(output));
        check(&builder, &[values(&x), values(&[1, 2, 5, channels])], 1e-5);
    }
}

#[test]
fn windows_that_do_not_fit_are_refused() {
    let error = |windows, x: &[u32]| load_error(&max(x, &[1, 1, 9, 9], windows, false));
    let x: &[u32] = &[1, 1, 4, 4];
    assert!(error([&[5, 2], &[1], &[0], &[1]], x).contains("`self` has 4 elements with padding, but a window covers 5"));
    assert!(error([&[2, 2], &[0, 1], &[0], &[1]], x).contains("`stride` is [0, 1], expected numbers from 1"));
    assert!(error([&[2, 2], &[1], &[2, 0], &[1]], x).contains("`padding` is 2, expected at most half of the window's 2"));
    assert!(error([&[0, 2], &[1], &[0], &[1]], x).contains("`kernel_size` is [0, 2], expected numbers from 1"));
    assert!(error([&[2, 2], &[1], &[0], &[1]], &[4, 4]).contains("`self` is [4, 4], expected 3 or 4 dimensions"));
    let divided = avg(x, &[1, 1, 3, 3], [&[2, 2], &[1], &[0], &[]], [false, true], Some(0));
    assert!(load_error(&divided).contains("`divisor_override` is 0, expected an integer other than 0"));
}

#[test]
fn windows_divide_images_into_any_size() {
    use crate::testing::case::{Case, F, I, ints, x};
    for (size, out) in [([1, 1], [2, 3, 1, 1]), ([3, 2], [2, 3, 3, 2]), ([7, 9], [2, 3, 7, 9]), ([11, 4], [2, 3, 11, 4])] {
        let args = || [x(F, &[2, 3, 7, 9]), ints(&size)];
        Case::new("aten._adaptive_avg_pool2d.default", args(), (F, &out)).check(&[1], 1e-5);
        Case::listed("aten.adaptive_max_pool2d.default", args(), &[(F, &out), (I, &out)]).check(&[1], 0.0);
    }
    Case::new("aten.adaptive_avg_pool1d.default", [x(F, &[2, 3, 9]), ints(&[4])], (F, &[2, 3, 4])).check(&[1], 1e-5);
    let args = || [x(F, &[2, 3, 5, 7, 4]), ints(&[2, 3, 3])];
    let out: &[u32] = &[2, 3, 2, 3, 3];
    Case::new("aten._adaptive_avg_pool3d.default", args(), (F, out)).check(&[1], 1e-5);
    Case::listed("aten.adaptive_max_pool3d.default", args(), &[(F, out), (I, out)]).check(&[1], 0.0);
    let case = Case::new("aten._adaptive_avg_pool2d.default", [x(F, &[2, 3, 7, 9]), ints(&[-1, 2])], (F, &[2, 3, 1, 2]));
    assert!(load_error(&case.builder()).contains("`output_size` has -1, which no image can have"));
}
