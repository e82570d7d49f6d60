use crate::ir::{DataType, Value, ValueId};
use crate::reference::HostTensor;
use crate::testing::{DryRun, GraphBuilder, check, f32s, load_error, noise};

const TOLERANCE: f32 = 1e-4;

/// The arguments of a call.
#[derive(Clone)]
struct Call {
    x: Vec<u32>,
    weight: Vec<u32>,
    bias: bool,
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    /// The output padding, of a transposed convolution.
    transposed: Option<Vec<i64>>,
    groups: i64,
}

impl Call {
    fn new(x: &[u32], weight: &[u32]) -> Self {
        let spatial = x.len() - 2;
        Self {
            x: x.to_vec(),
            weight: weight.to_vec(),
            bias: true,
            stride: vec![1; spatial],
            padding: vec![0; spatial],
            dilation: vec![1; spatial],
            transposed: None,
            groups: 1,
        }
    }

    /// The output's bound, by the formulas of PyTorch's documentation.
    fn out(&self) -> Vec<u32> {
        let groups = u32::try_from(self.groups).unwrap();
        let channels = if self.transposed.is_some() { self.weight[1] * groups } else { self.weight[0] };
        let size = |axis: usize| {
            let [input, kernel] = [self.x[2 + axis], self.weight[2 + axis]].map(i64::from);
            let (stride, padding, dilation) = (self.stride[axis], self.padding[axis], self.dilation[axis]);
            let size = match &self.transposed {
                Some(more) => (input - 1) * stride - 2 * padding + dilation * (kernel - 1) + more[axis] + 1,
                None => (input + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1,
            };
            u32::try_from(size).unwrap()
        };
        [self.x[0], channels].into_iter().chain((0..self.x.len() - 2).map(size)).collect()
    }

    /// A graph with a constant weight, or with one that is an input.
    fn builder(&self, computed: bool) -> GraphBuilder {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, &self.x);
        let count = self.weight.iter().product::<u32>() as usize;
        let weight = match computed {
            true => builder.input(DataType::Float32, &self.weight),
            false => builder.floats(&self.weight, &noise(1, count)),
        };
        let dims = self.out();
        let bias = match self.bias {
            true => builder.floats(&[dims[1]], &noise(2, dims[1] as usize)),
            false => builder.value(Value::Null),
        };
        let out = builder.tensor(DataType::Float32, &dims);
        let args = self.args(&mut builder, x, weight, bias);
        builder.call("aten.convolution.default", &[&args[..], &[out]].concat());
        builder.output(out);
        builder
    }

    fn args(&self, builder: &mut GraphBuilder, x: ValueId, weight: ValueId, bias: ValueId) -> Vec<ValueId> {
        let [stride, padding, dilation] =
            [&self.stride, &self.padding, &self.dilation].map(|list| builder.value(Value::IntList(list.clone())));
        let transposed = builder.value(Value::Bool(self.transposed.is_some()));
        let none = vec![0; self.stride.len()];
        let output_padding = builder.value(Value::IntList(self.transposed.clone().unwrap_or(none)));
        let groups = builder.int(self.groups);
        vec![x, weight, bias, stride, padding, dilation, transposed, output_padding, groups]
    }
}

fn values(shape: &[u32]) -> HostTensor {
    f32s(shape, noise(u64::from(shape[shape.len() - 1]) + 3, shape.iter().product::<u32>() as usize))
}

/// Convolutions of every kind, with shapes other than the bound.
fn calls() -> Vec<(Call, Vec<Vec<u32>>)> {
    let image = |x: [u32; 4], weight: [u32; 4]| Call::new(&x, &weight);
    let sequence = |x: [u32; 3], weight: [u32; 3]| Call::new(&x, &weight);
    vec![
        (image([2, 3, 9, 11], [5, 3, 3, 3]), vec![vec![1, 3, 3, 3], vec![2, 3, 7, 4], vec![0, 3, 9, 11]]),
        (
            Call { stride: vec![2, 1], padding: vec![1, 2], dilation: vec![1, 3], ..image([1, 4, 12, 10], [8, 4, 3, 2]) },
            vec![vec![1, 4, 1, 3]],
        ),
        (Call { groups: 4, padding: vec![1, 1], ..image([1, 8, 6, 6], [12, 2, 3, 3]) }, vec![vec![1, 8, 2, 5]]),
        (Call { groups: 8, stride: vec![2, 2], ..image([2, 8, 9, 9], [16, 1, 3, 5]) }, vec![vec![2, 8, 4, 5]]),
        (Call { bias: false, ..image([1, 7, 5, 6], [6, 7, 1, 1]) }, vec![vec![1, 7, 1, 1]]),
        (
            Call {
                transposed: Some(vec![1, 0]),
                stride: vec![2, 3],
                padding: vec![1, 0],
                ..image([2, 4, 5, 4], [4, 6, 3, 2])
            },
            vec![vec![1, 4, 1, 2]],
        ),
        (
            Call {
                transposed: Some(vec![0, 0]),
                groups: 2,
                dilation: vec![2, 2],
                bias: false,
                ..image([1, 6, 4, 4], [6, 5, 3, 3])
            },
            vec![vec![1, 6, 2, 1]],
        ),
        (Call { stride: vec![5], ..sequence([2, 1, 53], [12, 1, 10]) }, vec![vec![1, 1, 10], vec![2, 1, 22]]),
        (Call { groups: 6, padding: vec![7], ..sequence([1, 6, 20], [6, 1, 15]) }, vec![vec![1, 6, 1]]),
        (
            Call { transposed: Some(vec![1]), stride: vec![2], padding: vec![1], ..sequence([2, 3, 7], [3, 4, 4]) },
            vec![vec![1, 3, 1]],
        ),
    ]
}

#[test]
fn every_kind_at_every_shape() {
    for (call, shapes) in calls() {
        let shapes = [vec![call.x.clone()], shapes].concat();
        let inputs: Vec<_> = shapes.iter().map(|shape| vec![values(shape)]).collect();
        check(&call.builder(false), &inputs, TOLERANCE);
    }
}

#[test]
fn weights_may_be_inputs_of_any_live_shape() {
    let call = Call { padding: vec![1, 1], ..Call::new(&[1, 3, 8, 8], &[4, 3, 3, 3]) };
    let mut builder = call.builder(true);
    // The bias fixes the number of channels.
    builder.graph.values[builder.graph.calls[0].args[2].index()] = Value::Null;
    let out = builder.graph.calls[0].args[9];
    let Value::Tensor(tensor) = &mut builder.graph.values[out.index()] else { panic!("the output is a tensor") };
    tensor.dims = vec![1, 4, 10, 10];
    let both = |x: &[u32], weight: &[u32]| vec![values(x), values(weight)];
    check(&builder, &[both(&[1, 3, 8, 8], &[4, 3, 3, 3]), both(&[1, 2, 4, 5], &[1, 2, 1, 2])], TOLERANCE);
}

#[test]
fn bounds_that_a_float_cannot_hold_are_none() {
    for (bounds, expected) in [([0.0, f64::MAX], [0.0, f32::INFINITY]), ([f64::MIN, 0.5], [f32::NEG_INFINITY, 0.5])] {
        let call = Call::new(&[1, 2, 5, 5], &[3, 2, 3, 3]);
        let mut builder = call.builder(false);
        let [low, high] = bounds.map(|bound| builder.float(bound));
        let mut args = builder.graph.calls.remove(0).args;
        let out = args.pop().unwrap();
        builder.call("et_vk.conv_with_clamp.default", &[&args[..], &[low, high, out]].concat());
        let graph = builder.decode().unwrap();
        let op: &super::Convolution = graph.nodes[0].op.downcast().unwrap();
        assert_eq!(op.bounds, expected);
        check(&builder, &[vec![values(&[1, 2, 5, 5])]], TOLERANCE);
    }
}

#[test]
fn not_a_number_passes_the_bounds() {
    let mut builder = Call { bias: false, ..Call::new(&[1, 1, 1, 4], &[1, 1, 1, 1]) }.builder(false);
    let [low, high] = [0.0, 1.0].map(|bound| builder.float(bound));
    let mut args = builder.graph.calls.remove(0).args;
    let out = args.pop().unwrap();
    builder.call("et_vk.conv_with_clamp.default", &[&args[..], &[low, high, out]].concat());
    check(&builder, &[vec![f32s(&[1, 1, 1, 4], vec![f32::NAN, -3.0, 0.25, 9.0])]], TOLERANCE);
}

#[test]
fn shapes_that_do_not_fit_are_refused_by_argument_and_numbers() {
    let base = || Call::new(&[1, 4, 6, 6], &[8, 4, 3, 3]);
    let refused = |call: Call, message: &str| {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, &call.x);
        let weight = builder.floats(&call.weight, &vec![0.5; call.weight.iter().product::<u32>() as usize]);
        let bias = if call.bias { builder.floats(&[8], &[0.0; 8]) } else { builder.value(Value::Null) };
        let out = builder.tensor(DataType::Float32, &[1, 8, 16, 16]);
        let args = call.args(&mut builder, x, weight, bias);
        builder.call("aten.convolution.default", &[&args[..], &[out]].concat());
        builder.output(out);
        let error = load_error(&builder);
        assert!(error.contains(message), "{error}");
    };
    let groups = |groups| Call { groups, ..base() };
    refused(Call { stride: vec![0, 1], ..base() }, "`stride` is [0, 1], expected numbers from 1 to");
    refused(Call { dilation: vec![0], ..base() }, "`dilation` is [0], expected numbers from 1 to");
    refused(Call { padding: vec![-1, 0], ..base() }, "`padding` is [-1, 0], expected numbers from 0 to");
    refused(Call { stride: vec![1; 3], ..base() }, "`stride` has 3 numbers, expected 2");
    refused(groups(0), "`groups` is 0, expected at least 1");
    refused(groups(3), "`groups` is 3, which does not divide the 4 channels of the input");
    refused(groups(2), "`weight` is [8, 4, 3, 3], but the input has 4 channels in 2 groups");
    refused(Call { weight: vec![8, 4, 7, 3], ..base() }, "`input` has 6 elements with padding, but a window covers 7");
    refused(Call { dilation: vec![1, 3], ..base() }, "`input` has 6 elements with padding, but a window covers 7");
    refused(Call { weight: vec![8, 4, 3], ..base() }, "`weight` is [8, 4, 3], expected 4 dimensions");
    refused(Call { weight: vec![8, 4, 0, 3], ..base() }, "`weight` is [8, 4, 0, 3], expected 4 dimensions and a kernel");
    refused(Call { weight: vec![6, 4, 3, 3], ..base() }, "`bias` is [8], but the output has 6 channels");
    refused(Call { padding: vec![i64::from(i32::MAX), 0], ..base() }, "at most 2147483647 are supported");
    let transposed = Call { transposed: Some(vec![1, 0]), weight: vec![4, 8, 3, 3], ..base() };
    refused(transposed.clone(), "`output_padding` is 1, expected less than the stride or the dilation, 1");
    refused(Call { transposed: Some(vec![0, 0]), padding: vec![4, 0], ..transposed }, "less a padding of 8");
    let volume = Call { x: vec![1, 4, 6, 6, 6], weight: vec![8, 4, 1, 1, 1], stride: vec![1; 3], ..base() };
    refused(volume, "`input` is [1, 4, 6, 6, 6]: convolution along three dimensions is not supported");
}

#[test]
fn a_live_input_smaller_than_the_kernel_changes_nothing() {
    let builder = Call::new(&[1, 4, 6, 6], &[8, 4, 3, 3]).builder(false);
    let mut dry_run = DryRun::new(&builder).unwrap();
    let error = dry_run.call(&[(&[1, 4, 2, 6], &[])]).unwrap_err().to_string();
    assert!(error.contains("`input` has 2 elements with padding, but a window covers 3"), "{error}");
    let out = *builder.graph.outputs.first().unwrap();
    assert_eq!(dry_run.dims(out), [1, 8, 4, 4]);
    dry_run.call(&[(&[1, 4, 3, 5], &[])]).unwrap();
    assert_eq!(dry_run.dims(out), [1, 8, 1, 3]);
}
