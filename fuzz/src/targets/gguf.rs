//! GGUF checkpoints.

use pteron_convert::{Error, Gguf, Source};

use crate::mutate;
use crate::oracle;
use crate::seeds;
use crate::target::{Outcome, Target};

/// GGUF checkpoints.
pub const TARGET: Target = Target {
    name: "gguf",
    attacks: "pteron-convert: GGUF checkpoints, their metadata and rows",
    run,
    seeds: |root| seeds::with_extension(root, &["crates/pteron-convert/tests/gguf/data"], &["gguf"], 64 << 10),
    mutate: mutate::gguf_changed,
    max_len: 8192,
    dictionary: &["GGUF", "general.architecture", "general.alignment", "llama", "llama.block_count", "token_embd.weight"],
    ..Target::DEFAULT
};

/// Opens a GGUF file and, if it is a model, reads every row.
fn run(bytes: &[u8]) -> Outcome {
    let file = bytes.to_vec();
    let model = oracle::bounded_heap(bytes.len(), 24, 1 << 20, || Gguf::from_bytes("input.gguf", file));
    let model = match model {
        Ok(model) => model,
        Err(error) => return refused(&error, bytes.len()),
    };
    let config = model.config();
    for weight in config.weights() {
        let matrix = config.shape(weight);
        let mut numbers = vec![0.0; matrix.columns as usize];
        for row in 0..matrix.rows {
            model.row(weight, row, &mut numbers).expect("a weight that was found has its rows");
            model.int4_row(weight, row, 32);
        }
    }
    "accepted"
}

/// Checks the text of an error about an input of `len` bytes. Tensors that do not fit are listed, up to 64 of them.
pub(super) fn refused(error: &Error, len: usize) -> Outcome {
    match error {
        Error::Tensors { .. } => {
            oracle::error_text_below(len + (16 << 10), error);
            "tensors"
        }
        error => {
            oracle::error_text(error);
            "refused"
        }
    }
}
