//! Compares every tensor type with the `gguf` package for Python, whose outputs `data/make.py` recorded.

use pteron_convert::{Gguf, Source, Weight};
use serde::Deserialize;

use super::writer::{Writer, tiny};

#[derive(Deserialize)]
struct Row {
    name: String,
    id: u32,
    bytes: String,
    numbers: Vec<f32>,
}

impl Row {
    fn bytes(&self) -> Vec<u8> {
        let digits = self.bytes.as_bytes().chunks(2);
        digits.map(|digits| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()).collect()
    }

    /// A model whose embedding has the row twice, with heads of two numbers so that all else stays small.
    fn model(&self) -> Gguf {
        let width = self.numbers.len() as u64;
        let mut file = Writer::default().tensor("token_embd.weight", &[width, 2], self.id, self.bytes().repeat(2));
        file.keys = tiny("llama").keys;
        for (name, size) in [("embedding_length", width), ("attention.head_count", 1), ("attention.key_length", 2)] {
            file = file.key(&format!("llama.{name}"), u32::try_from(size).unwrap());
        }
        file =
            file.key("llama.block_count", 1).key("llama.feed_forward_length", 2).floats("output_norm.weight", &[width], 0);
        for name in ["attn_norm.weight", "ffn_norm.weight"] {
            file = file.floats(&format!("blk.0.{name}"), &[width], 0);
        }
        for name in ["attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up"] {
            file = file.floats(&format!("blk.0.{name}.weight"), &[width, 2], 0);
        }
        for name in ["attn_output", "ffn_down"] {
            file = file.floats(&format!("blk.0.{name}.weight"), &[2, width], 0);
        }
        Gguf::from_bytes(&self.name, file.bytes()).unwrap()
    }
}

fn rows() -> Vec<Row> {
    serde_json::from_str(include_str!("data/blocks.json")).unwrap()
}

#[test]
fn dequantised_blocks_match_the_reference() {
    let rows = rows();
    assert_eq!(rows.len(), 11);
    for row in rows {
        let model = row.model();
        for index in 0..2 {
            let mut numbers = vec![0.0; row.numbers.len()];
            model.row(Weight::Embedding, index, &mut numbers).unwrap();
            assert_eq!(numbers, row.numbers, "{}", row.name);
        }
    }
}

#[test]
fn four_bits_are_handed_out_as_they_are_in_groups_of_32_alone() {
    for row in rows() {
        let model = row.model();
        let handed = model.int4_row(Weight::Embedding, 1, 32);
        assert_eq!(handed.is_some(), row.name == "Q4_0", "{}", row.name);
        assert_eq!(model.int4_row(Weight::Embedding, 1, 64), None);
        let Some(handed) = handed else { continue };
        let nibbles = handed.nibbles.iter().flat_map(|byte| [byte & 0xF, byte >> 4]);
        let numbers = nibbles.enumerate().map(|(index, nibble)| (f32::from(nibble) - 8.0) * handed.scales[index / 32]);
        assert_eq!(numbers.collect::<Vec<_>>(), row.numbers);
        assert_eq!(model.int4_row(Weight::Embedding, 2, 32), None, "there is no such row");
    }
}
