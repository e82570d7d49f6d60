use crate::ir::{DataType, Value, ValueId};
use crate::reference::{HostData, HostTensor};
use crate::testing::{GraphBuilder, check, dims, f32s, load_error, noise, noise_bytes};

/// A convolution of this operator. Arguments that the operator does not take are ignored.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) x: [u32; 4],
    pub(crate) channels: u32,
    pub(crate) kernel: [u32; 2],
    pub(crate) stride: [i64; 2],
    pub(crate) padding: [i64; 2],
    pub(crate) dilation: [i64; 2],
    pub(crate) output_padding: [i64; 2],
    pub(crate) groups: i64,
    pub(crate) bias: bool,
    pub(crate) activation: &'static str,
    /// Whether activations are floats.
    pub(crate) floats: bool,
}

impl Case {
    pub(crate) fn new(name: &'static str, x: [u32; 4], channels: u32, kernel: [u32; 2]) -> Self {
        Self {
            name,
            x,
            channels,
            kernel,
            stride: [1, 1],
            padding: [0, 0],
            dilation: [1, 1],
            output_padding: [0, 0],
            groups: 1,
            bias: true,
            activation: "none",
            floats: false,
        }
    }

    fn transposed(&self) -> bool {
        self.name.contains("transposed")
    }

    fn out(&self) -> [u32; 4] {
        let size = |axis: usize| {
            let [x, kernel] = [self.x[2 + axis], self.kernel[axis]].map(i64::from);
            let span = self.dilation[axis] * (kernel - 1) + 1;
            let size = if self.transposed() {
                (x - 1) * self.stride[axis] - 2 * self.padding[axis] + span + self.output_padding[axis]
            } else {
                (x + 2 * self.padding[axis] - span) / self.stride[axis].max(1) + 1
            };
            u32::try_from(size).unwrap_or(1)
        };
        [self.x[0], self.channels, size(0), size(1)]
    }

    fn weights(&self, builder: &mut GraphBuilder) -> ValueId {
        let group = self.x[1] / u32::try_from(self.groups.max(1)).unwrap();
        let k = self.kernel[0] * self.kernel[1] * group;
        let shape = if self.name.contains("dw") {
            vec![self.kernel[0], self.kernel[1], self.channels]
        } else {
            vec![self.channels, k.next_multiple_of(4)]
        };
        let count: u32 = shape.iter().product();
        let mut bytes = noise_bytes(7, count as usize);
        if shape.len() == 2 {
            // Exporters pad rows with zeros.
            bytes.chunks_exact_mut(shape[1] as usize).for_each(|row| row[k as usize..].fill(0));
        }
        builder.constant(DataType::Int8, &shape, bytes)
    }

    /// The sums of each output channel's weights.
    fn sums(&self, bytes: &[u8]) -> Vec<u8> {
        let channels = self.channels as usize;
        let of = |channel: usize| -> i32 {
            let row = bytes.len() / channels;
            (0..row).map(|k| i32::from(bytes[channel * row + k].cast_signed())).sum()
        };
        let padded = channels.next_multiple_of(4);
        (0..padded).flat_map(|channel| if channel < channels { of(channel) } else { 0 }.to_le_bytes()).collect()
    }

    pub(crate) fn builder(&self) -> GraphBuilder {
        let mut builder = GraphBuilder::new();
        let quantised = !self.name.contains("conv2d_q8csw");
        let quantises = quantised && !self.name.ends_with("q8ta_q8csw.default");
        let floats = self.floats || !quantised;
        let x = builder.input(if floats { DataType::Float32 } else { DataType::Int8 }, &self.x);
        let padded = self.channels.next_multiple_of(4);
        let weight = self.weights(&mut builder);
        let sums = self.sums(&builder.constants[builder.constants.len() - 1].clone());
        let scales: Vec<f32> = noise(3, padded as usize).iter().map(|value| 0.01 + value.abs() / 64.0).collect();
        let scales = builder.floats(&[padded], &scales);
        let mut args = vec![x];
        if quantised {
            args.extend([builder.float(0.0173), builder.int(-9)]);
        }
        args.push(weight);
        if quantised {
            args.push(builder.constant(DataType::Int32, &[padded], sums));
        }
        args.push(scales);
        if quantises {
            args.extend([builder.float(0.131), builder.int(4)]);
        }
        args.push(if self.bias {
            builder.floats(&[padded], &noise(5, padded as usize))
        } else {
            builder.value(Value::Null)
        });
        let kernel = self.kernel.map(i64::from);
        for list in [kernel, self.stride, self.padding] {
            args.push(builder.value(Value::IntList(list.to_vec())));
        }
        if self.transposed() {
            args.push(builder.value(Value::IntList(self.output_padding.to_vec())));
        }
        args.extend([builder.value(Value::IntList(self.dilation.to_vec())), builder.int(self.groups)]);
        if self.name.contains("q8ta_conv2d") {
            args.push(builder.value(Value::String(self.activation.to_owned())));
        }
        let out = builder.tensor(if quantises { DataType::Int8 } else { DataType::Float32 }, &self.out());
        args.push(out);
        builder.call(self.name, &args);
        builder.output(out);
        builder
    }

    /// Inputs of these heights and widths.
    pub(crate) fn calls(&self, sizes: &[[u32; 2]]) -> Vec<Vec<HostTensor>> {
        let call = |&[height, width]: &[u32; 2]| {
            let shape = [self.x[0], self.x[1], height, width];
            let count = shape.iter().product::<u32>() as usize;
            let seed = u64::from(height * 31 + width);
            if self.floats || self.name.contains("conv2d_q8csw") {
                return vec![f32s(&shape, noise(seed, count))];
            }
            vec![HostTensor { dims: dims(&shape), data: HostData::U8(noise_bytes(seed, count)) }]
        };
        sizes.iter().map(call).collect()
    }
}

const CONV: &str = "et_vk.q8ta_conv2d.default";
const DEPTHWISE: &str = "et_vk.q8ta_conv2d_dw.default";
const TRANSPOSED: &str = "et_vk.q8ta_conv2d_transposed.default";

#[test]
fn convolutions_are_exact_at_live_sizes() {
    let sizes = [[7, 9], [5, 6], [3, 3], [7, 4]];
    for case in [
        Case { padding: [1, 1], ..Case::new(CONV, [1, 8, 7, 9], 12, [3, 3]) },
        Case { padding: [1, 1], ..Case::new(CONV, [2, 3, 7, 9], 5, [3, 3]) },
        Case { padding: [1, 0], stride: [2, 3], ..Case::new(CONV, [1, 4, 7, 9], 7, [3, 2]) },
        Case { dilation: [1, 2], activation: "relu", ..Case::new(CONV, [1, 8, 7, 9], 6, [3, 2]) },
        Case { groups: 2, padding: [1, 1], ..Case::new(CONV, [2, 8, 7, 9], 6, [3, 3]) },
        Case { bias: false, ..Case::new(CONV, [1, 36, 7, 9], 70, [1, 1]) },
        Case { padding: [2, 2], ..Case::new(CONV, [1, 20, 7, 9], 40, [3, 3]) },
    ] {
        check(&case.builder(), &case.calls(&sizes), 0.0);
    }
}

#[test]
fn depthwise_and_transposed_convolutions_are_exact() {
    let sizes = [[7, 9], [5, 6], [4, 4]];
    for case in [
        Case { padding: [1, 1], groups: 8, ..Case::new(DEPTHWISE, [1, 8, 7, 9], 8, [3, 3]) },
        Case { stride: [2, 1], groups: 3, activation: "relu", ..Case::new(DEPTHWISE, [2, 3, 7, 9], 3, [2, 4]) },
        Case { padding: [2, 2], dilation: [2, 2], groups: 5, ..Case::new(DEPTHWISE, [1, 5, 7, 9], 10, [3, 3]) },
        Case { stride: [2, 2], ..Case::new(TRANSPOSED, [1, 8, 7, 9], 6, [2, 2]) },
        Case { stride: [2, 2], padding: [1, 1], output_padding: [1, 1], ..Case::new(TRANSPOSED, [1, 3, 7, 9], 5, [3, 3]) },
        Case { stride: [3, 1], dilation: [1, 2], groups: 2, ..Case::new(TRANSPOSED, [2, 8, 7, 9], 4, [2, 3]) },
    ] {
        check(&case.builder(), &case.calls(&sizes), 0.0);
    }
}

#[test]
fn float_activations_and_outputs_agree() {
    let sizes = [[7, 9], [4, 5]];
    for name in ["et_vk.conv2d_q8csw.default", "et_vk.conv2d_q8ta_q8csw.default"] {
        for (channels, kernel) in [(8, [3, 3]), (3, [2, 2]), (36, [1, 1])] {
            for floats in [false, true] {
                let case = Case { floats, padding: [1, 1], ..Case::new(name, [1, channels, 7, 9], 6, kernel) };
                check(&case.builder(), &case.calls(&sizes), 1e-4);
            }
        }
    }
}

#[test]
fn bad_arguments_are_rejected_by_name_and_numbers() {
    let good = || Case::new(CONV, [1, 4, 5, 6], 8, [3, 3]);
    let said = |case: Case| load_error(&case.builder());
    let text = said(Case { kernel: [7, 3], ..good() });
    assert!(text.contains("`kernel_size` of 7 spans 7 pixels, but the padded input has 5"), "{text}");
    let text = said(Case { stride: [1, 0], ..good() });
    assert!(text.contains("`stride` is [1, 0], expected numbers from 1"), "{text}");
    let text = said(Case { groups: 3, ..good() });
    assert!(text.contains("`groups` is 3, but the input has 4 channels and the output 8"), "{text}");
    let text = said(Case { activation: "tanh", ..good() });
    assert!(text.contains("`activation` is \"tanh\", supported: \"none\", \"relu\""), "{text}");
    let text = said(Case { groups: 1, ..Case::new(DEPTHWISE, [1, 4, 5, 6], 4, [3, 3]) });
    assert!(text.contains("must be the input's 4 channels, not 1"), "{text}");
    let text = said(Case { padding: [-1, 0], ..good() });
    assert!(text.contains("`padding` is [-1, 0], expected numbers from 0"), "{text}");
}
