use crate::ir::{DataType, Value};
use crate::reference::{HostData, HostTensor};
use crate::testing::{GraphBuilder, check, dims, f32s, load_error, noise, noise_bytes};

/// A linear of this operator, with `rows` at most.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) rows: u32,
    pub(crate) k: u32,
    pub(crate) n: u32,
    pub(crate) bias: bool,
    pub(crate) floats: bool,
    pub(crate) out: DataType,
}

impl Case {
    pub(crate) fn new(name: &'static str, rows: u32, k: u32, n: u32) -> Self {
        let out = if name.contains("q8ta_linear") { DataType::Int8 } else { DataType::Float32 };
        Self { name, rows, k, n, bias: true, floats: !name.contains("q8ta"), out }
    }

    pub(crate) fn builder(&self) -> GraphBuilder {
        let mut builder = GraphBuilder::new();
        let quantised = self.name.contains("q8ta");
        let x = builder.input(if self.floats { DataType::Float32 } else { DataType::Int8 }, &[self.rows, self.k]);
        let padded = self.n.next_multiple_of(4);
        let bytes = noise_bytes(7, (self.n * self.k) as usize);
        let row = |n: usize| &bytes[n * self.k as usize..][..self.k as usize];
        let sum = |n: u32| -> i32 {
            if n < self.n { row(n as usize).iter().map(|&byte| i32::from(byte.cast_signed())).sum() } else { 0 }
        };
        let sums: Vec<u8> = (0..padded).flat_map(|n| sum(n).to_le_bytes()).collect();
        let weight = builder.constant(DataType::Int8, &[self.n, self.k], bytes.clone());
        let scales: Vec<f32> = noise(3, padded as usize).iter().map(|value| 0.01 + value.abs() / 64.0).collect();
        let scales = builder.floats(&[padded], &scales);
        let mut args = vec![x];
        if quantised {
            args.extend([builder.float(0.0173), builder.int(-9), weight]);
            args.extend([builder.constant(DataType::Int32, &[padded], sums), scales]);
        } else {
            args.extend([weight, scales]);
        }
        if self.name.contains("q8ta_linear") {
            args.extend([builder.float(0.131), builder.int(4)]);
        }
        if !self.name.contains("int8pack") {
            args.push(if self.bias {
                builder.floats(&[padded], &noise(5, padded as usize))
            } else {
                builder.value(Value::Null)
            });
        }
        if self.name.contains("q8ta_linear") {
            args.push(builder.value(Value::String("none".to_owned())));
        }
        let out = builder.tensor(self.out, &[self.rows, self.n]);
        args.push(out);
        builder.call(self.name, &args);
        builder.output(out);
        builder
    }

    pub(crate) fn calls(&self, rows: &[u32]) -> Vec<Vec<HostTensor>> {
        let call = |&rows: &u32| {
            let (shape, count) = ([rows, self.k], (rows * self.k) as usize);
            if self.floats {
                return vec![f32s(&shape, noise(u64::from(rows) + 1, count))];
            }
            vec![HostTensor { dims: dims(&shape), data: HostData::U8(noise_bytes(u64::from(rows) + 1, count)) }]
        };
        rows.iter().map(call).collect()
    }
}

#[test]
fn linears_of_bytes_are_exact_at_live_rows() {
    for (rows, k, n) in [(9, 32, 12), (70, 40, 36), (5, 19, 7), (1, 260, 70)] {
        for bias in [true, false] {
            let case = Case { bias, ..Case::new("et_vk.q8ta_linear.default", rows, k, n) };
            check(&case.builder(), &case.calls(&[rows, 1, rows.div_ceil(2), 0]), 0.0);
        }
    }
}

#[test]
fn float_outputs_agree() {
    for name in ["et_vk.linear_q8ta_q8csw.default", "et_vk.linear_q8csw.default", "aten._weight_int8pack_mm.default"] {
        for (rows, k, n) in [(9, 32, 12), (70, 36, 40), (5, 19, 7)] {
            let case = Case::new(name, rows, k, n);
            check(&case.builder(), &case.calls(&[rows, 1, 3]), 1e-4);
        }
    }
    // Floats that are quantised on the way.
    let case = Case { floats: true, ..Case::new("et_vk.linear_q8ta_q8csw.default", 6, 20, 9) };
    check(&case.builder(), &case.calls(&[6, 2]), 1e-4);
}

#[test]
fn outputs_declared_as_bytes_are_floats_without_a_bias() {
    let case = Case { bias: false, out: DataType::Int8, ..Case::new("et_vk.linear_q8ta_q8csw.default", 6, 12, 9) };
    check(&case.builder(), &case.calls(&[6, 2]), 1e-4);
}

#[test]
fn bad_shapes_are_rejected_by_name_and_numbers() {
    let case = Case::new("et_vk.q8ta_linear.default", 4, 8, 4);
    let mut builder = case.builder();
    let Some(Value::Tensor(x)) = builder.graph.values.first_mut() else { unreachable!("the input comes first") };
    x.dims = vec![4, 12];
    let text = load_error(&builder);
    assert!(text.contains("`weights` is [4, 8], expected [4, 12] or more for activations of [4, 12]"), "{text}");
}
