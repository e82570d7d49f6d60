//! Pseudo-random constants, for benchmarks of programs whose weights are elsewhere.

use super::DecodedGraph;
use crate::ir::{ConstantId, DataType, Value};

/// The kind of a constant: its length in bytes, its element type, and the elements that one output of a layer reads, if it is a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    len: u64,
    dtype: Option<DataType>,
    fan_in: Option<u64>,
}

/// The constants of a graph as pseudo-random numbers. Weights keep activations about as large as they are.
#[derive(Clone, Debug)]
pub struct RandomConstants {
    seed: u64,
    kinds: Vec<Kind>,
}

impl RandomConstants {
    /// Creates the constants of a graph from a seed.
    #[must_use]
    pub fn new(graph: &DecodedGraph, seed: u64) -> Self {
        let mut kinds: Vec<Kind> =
            graph.source.constants.iter().map(|constant| Kind { len: constant.len, dtype: None, fan_in: None }).collect();
        for tensor in graph.source.values.iter().filter_map(Value::as_tensor) {
            if let Some(kind) = tensor.constant.and_then(|constant| kinds.get_mut(constant.index())) {
                let inner = tensor.dims.iter().skip(1).fold(1u64, |product, &dim| product.saturating_mul(dim.into()));
                kind.dtype = Some(tensor.dtype);
                kind.fan_in = (tensor.dims.len() > 1).then_some(inner);
            }
        }
        Self { seed, kinds }
    }

    /// The bytes of a constant; `None` if the graph has no such constant, or it is longer than memory can be.
    #[must_use]
    pub fn bytes(&self, constant: ConstantId) -> Option<Vec<u8>> {
        let kind = self.kinds.get(constant.index())?;
        let len = usize::try_from(kind.len).ok()?;
        let mut numbers = Numbers::new(self.seed, constant.0);
        let float = |number: f32| match kind.fan_in {
            #[allow(clippy::cast_precision_loss, reason = "a scale")]
            Some(fan_in) => (2.0 * number - 1.0) * (3.0 / fan_in.max(1) as f32).sqrt(),
            // Biases, and the scales, means and variances of norms.
            None => 0.5 + 0.5 * number,
        };
        let mut bytes = pteron_format::alloc::vec(len).ok()?;
        while bytes.len() < len {
            match kind.dtype {
                Some(DataType::Float32) => bytes.extend_from_slice(&float(numbers.next_float()).to_le_bytes()),
                Some(DataType::Float16) => {
                    bytes.extend_from_slice(&half::f16::from_f32(float(numbers.next_float())).to_le_bytes());
                }
                Some(DataType::BFloat16) => {
                    bytes.extend_from_slice(&half::bf16::from_f32(float(numbers.next_float())).to_le_bytes());
                }
                Some(DataType::Float64) => {
                    bytes.extend_from_slice(&f64::from(float(numbers.next_float())).to_le_bytes());
                }
                // Indices and sizes: zero names an element of everything.
                Some(DataType::Int16 | DataType::Int32 | DataType::Int64) => bytes.push(0),
                _ => bytes.push(numbers.next_word().to_le_bytes()[7]),
            }
        }
        bytes.truncate(len);
        Some(bytes)
    }
}

/// A generator of 64-bit numbers, xorshift with a multiplication.
struct Numbers(u64);

impl Numbers {
    fn new(seed: u64, stream: u32) -> Self {
        Self((seed ^ u64::from(stream).wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xD134_2543_DE82_EF95) | 1)
    }

    fn next_word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// From 0 up to 1.
    fn next_float(&mut self) -> f32 {
        #[allow(clippy::cast_precision_loss, reason = "24 bits are exact")]
        let number = (self.next_word() >> 40) as f32;
        number / 16_777_216.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::GraphBuilder;

    #[test]
    fn constants_follow_from_the_seed_and_keep_their_length() {
        let mut builder = GraphBuilder::new();
        let weight = builder.floats(&[8, 4, 3, 3], &[0.0; 288]);
        let bias = builder.floats(&[8], &[0.0; 8]);
        let x = builder.input(DataType::Float32, &[1, 4, 5, 5]);
        let [ones, zeros] = [1, 0].map(|item| builder.value(Value::IntList(vec![item; 2])));
        let (no, one) = (builder.value(Value::Bool(false)), builder.int(1));
        let out = builder.tensor(DataType::Float32, &[1, 8, 3, 3]);
        builder.call("aten.convolution.default", &[x, weight, bias, ones, zeros, ones, no, zeros, one, out]);
        builder.output(out);
        let graph = builder.decode().unwrap();
        let [first, again, other] = [1, 1, 2].map(|seed| RandomConstants::new(&graph, seed));
        let floats = |constants: &RandomConstants, id| -> Vec<f32> {
            bytemuck::pod_collect_to_vec(&constants.bytes(ConstantId(id)).unwrap())
        };
        let weights = floats(&first, 0);
        assert_eq!(weights.len(), 288);
        assert_eq!(weights, floats(&again, 0));
        assert_ne!(weights, floats(&other, 0));
        let largest = (3.0f32 / 36.0).sqrt();
        assert!(weights.iter().all(|weight| weight.abs() <= largest) && weights.iter().any(|weight| *weight < 0.0));
        assert!(floats(&first, 1).iter().all(|bias| (0.5..1.0).contains(bias)));
        assert_eq!(first.bytes(ConstantId(2)), None);
    }
}
