use super::NAME;
use crate::ir::{DataType, Value};
use crate::reference::{HostData, HostTensor};
use crate::testing::{GraphBuilder, check, dims, load_error, noise, noise_bytes};

/// A call of the operator.
#[derive(Clone)]
struct Case {
    x: [u32; 4],
    /// As it is in memory.
    weight: [u32; 4],
    layout: &'static str,
    out: [u32; 4],
    stride: [i64; 2],
    /// Above, left, below and right.
    padding: [i64; 4],
    dilation: [i64; 2],
    transposed: bool,
    output_padding: [i64; 2],
    groups: i64,
    bias: bool,
    bounds: [i64; 2],
}

impl Case {
    fn new(x: [u32; 4], weight: [u32; 4], out: [u32; 4]) -> Self {
        Self {
            x,
            weight,
            layout: "channels_last",
            out,
            stride: [1; 2],
            padding: [0; 4],
            dilation: [1; 2],
            transposed: false,
            output_padding: [0; 2],
            groups: 1,
            bias: true,
            bounds: [-128, 127],
        }
    }

    fn builder(&self) -> GraphBuilder {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Int8, &self.x);
        let (channels, count) = (self.out[3], self.weight.iter().product::<u32>() as usize);
        let weight = builder.constant(DataType::Int8, &self.weight, noise_bytes(7, count));
        let layout = builder.value(Value::String(self.layout.to_owned()));
        let scales: Vec<f32> = noise(3, channels as usize).iter().map(|value| 0.003 + value.abs() / 400.0).collect();
        let scales = builder.floats(&[channels], &scales);
        #[expect(clippy::cast_possible_truncation, reason = "the numbers are small")]
        let biases: Vec<i32> = noise(5, channels as usize).iter().map(|value| (value * 3000.0) as i32).collect();
        let bias = match self.bias {
            true => builder.constant(DataType::Int32, &[channels], bytemuck::cast_slice(&biases).to_vec()),
            false => builder.value(Value::Null),
        };
        let mut args = vec![x, builder.float(0.0173), builder.int(-9), weight, layout, scales, bias];
        args.extend([builder.float(0.131), builder.int(4)]);
        args.extend(self.bounds.map(|bound| builder.int(bound)));
        for list in [&self.stride[..], &self.padding, &self.dilation] {
            args.push(builder.value(Value::IntList(list.to_vec())));
        }
        args.push(builder.value(Value::Bool(self.transposed)));
        args.push(builder.value(Value::IntList(self.output_padding.to_vec())));
        args.push(builder.int(self.groups));
        let out = builder.tensor(DataType::Int8, &self.out);
        args.push(out);
        builder.call(NAME, &args);
        builder.output(out);
        builder
    }

    /// Compares with the reference, also at smaller shapes.
    fn check(&self, sizes: &[[u32; 3]]) {
        let call = |&[images, height, width]: &[u32; 3]| {
            let shape = [images, height, width, self.x[3]];
            let bytes = noise_bytes(u64::from(height * 31 + width), shape.iter().product::<u32>() as usize);
            vec![HostTensor { dims: dims(&shape), data: HostData::U8(bytes) }]
        };
        let bound = [self.x[0], self.x[1], self.x[2]];
        let calls: Vec<_> = [bound].iter().chain(sizes).map(call).collect();
        check(&self.builder(), &calls, 0.0);
    }
}

#[test]
fn convolutions_are_exact_at_live_sizes() {
    let sizes = [[1, 5, 6], [1, 3, 3], [0, 7, 9]];
    for case in [
        Case { padding: [1; 4], ..Case::new([1, 7, 9, 8], [12, 3, 3, 8], [1, 7, 9, 12]) },
        Case { padding: [1; 4], ..Case::new([2, 7, 9, 3], [5, 3, 3, 3], [2, 7, 9, 5]) },
        Case {
            padding: [1, 0, 0, 2],
            stride: [2, 3],
            bounds: [-100, 90],
            ..Case::new([1, 7, 9, 4], [7, 3, 2, 4], [1, 3, 4, 7])
        },
        Case { dilation: [1, 2], bias: false, ..Case::new([1, 7, 9, 8], [6, 3, 2, 8], [1, 5, 7, 6]) },
        Case { groups: 2, padding: [1; 4], ..Case::new([2, 7, 9, 8], [6, 3, 3, 4], [2, 7, 9, 6]) },
        Case { groups: 2, padding: [1; 4], ..Case::new([2, 7, 9, 6], [10, 3, 3, 3], [2, 7, 9, 10]) },
        Case::new([1, 7, 9, 36], [70, 1, 1, 36], [1, 7, 9, 70]),
        Case { padding: [2; 4], ..Case::new([1, 7, 9, 20], [40, 3, 3, 20], [1, 9, 11, 40]) },
    ] {
        case.check(&sizes);
    }
}

#[test]
fn depthwise_and_transposed_convolutions_are_exact() {
    let depthwise = |x, weight, out, groups| Case { layout: "depthwise", groups, ..Case::new(x, weight, out) };
    let transposed = |x, weight, out| Case { transposed: true, stride: [2, 2], ..Case::new(x, weight, out) };
    for case in [
        Case { padding: [1; 4], ..depthwise([1, 7, 9, 8], [1, 3, 3, 8], [1, 7, 9, 8], 8) },
        Case { stride: [2, 1], ..depthwise([2, 7, 9, 3], [1, 2, 4, 3], [2, 3, 6, 3], 3) },
        Case { padding: [2; 4], dilation: [2, 2], ..depthwise([1, 7, 9, 5], [1, 3, 3, 10], [1, 7, 9, 10], 5) },
        transposed([1, 7, 9, 8], [6, 2, 2, 8], [1, 14, 18, 6]),
        Case { padding: [1; 4], output_padding: [1, 1], ..transposed([1, 7, 9, 3], [5, 3, 3, 3], [1, 14, 18, 5]) },
        Case { groups: 2, padding: [1, 0, 0, 1], ..transposed([2, 7, 9, 8], [4, 2, 3, 4], [2, 13, 18, 4]) },
    ] {
        case.check(&[[1, 5, 6], [1, 4, 4]]);
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let good = || Case::new([1, 7, 9, 8], [12, 3, 3, 8], [1, 5, 7, 12]);
    for (case, text) in [
        (Case { bounds: [-129, 127], ..good() }, "`output_min` is -129, expected -128 to 127"),
        (Case { bounds: [3, 2], ..good() }, "`output_max` is 2, less than output_min, 3"),
        (Case { layout: "channels_first", ..good() }, "`weight_layout` has channels first"),
        (Case { weight: [12, 3, 3, 4], ..good() }, "but the input has 8 channels in 1 groups"),
        (Case { layout: "depthwise", ..good() }, "expected four dimensions, channels last"),
    ] {
        let error = load_error(&case.builder());
        assert!(error.contains(text), "{error}");
    }
}
