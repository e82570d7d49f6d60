//! The bundled model, and sequences of calls on it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]
#![allow(dead_code, reason = "no test binary uses all of it")]

pub(crate) mod build;
pub(crate) mod tokens;

use std::path::PathBuf;

use pteron::{Gpu, GpuOptions, LoadOptions, Method, Program, State, Tensor, block_on};

/// Positions in the model's context, and the most tokens per call.
pub(crate) const CONTEXT: u32 = 128;
pub(crate) const MOST_TOKENS: u32 = 127;
pub(crate) const VOCABULARY: i64 = 256;

/// Opens a separate device, so that other tests' work is not counted. `PTERON_ADAPTER` selects an adapter.
pub(crate) fn gpu() -> Gpu {
    let options = GpuOptions::default().with_adapter(std::env::var("PTERON_ADAPTER").ok());
    block_on(Gpu::open(&options)).expect("tests need an adapter; the test command installs one in software")
}

fn program_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/llama/tiny_4w/program.pte")
}

pub(crate) fn program_file() -> Vec<u8> {
    std::fs::read(program_path()).unwrap()
}

pub(crate) fn program() -> Program {
    Program::open(program_path()).unwrap()
}

pub(crate) fn load(gpu: &Gpu) -> Method {
    block_on(program().load(gpu, "forward", &LoadOptions::default())).unwrap()
}

/// The token at a position of the text with this seed.
pub(crate) fn token(seed: u32, position: u32) -> i64 {
    let mixed = (position + 1).wrapping_mul(2_654_435_761).wrapping_add(seed.wrapping_mul(40_503));
    i64::from(mixed >> 11) % VOCABULARY
}

/// The inputs for `count` tokens of a text, starting at a position.
pub(crate) fn inputs(seed: u32, position: u32, count: u32) -> [Tensor; 2] {
    let tokens: Vec<i64> = (position..position + count).map(|at| token(seed, at)).collect();
    [Tensor::from_i64(&[1, count], &tokens).unwrap(), Tensor::from_i64(&[1], &[position.into()]).unwrap()]
}

/// Runs tokens of a text and returns the bytes of the output.
pub(crate) fn step(method: &Method, state: &mut State, seed: u32, position: u32, count: u32) -> Vec<u8> {
    let outputs = block_on(method.call(state, &inputs(seed, position, count))).unwrap();
    assert_eq!(outputs.len(), 1);
    outputs[0].bytes().to_vec()
}

pub(crate) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
}

/// A deterministic pseudo-random generator.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
