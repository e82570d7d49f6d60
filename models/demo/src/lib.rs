//! The small language model bundled with the `pteron` command, as bytes.
//!
//! A Llama with 15 million parameters and 4-bit weights that continues text in the style of technical documentation. It answers
//! no questions; the model card in the crate's README gives its training data, figures and limits.
//!
//! - [`PROGRAM`]: the `.pte` file, 10.5 MB
//! - [`TOKENIZER`]: its `tokenizer.json`
//! - [`GOLDENS`]: greedy continuations that PyTorch computed, to check that a device computes correctly

#![forbid(unsafe_code)]
#![no_std]

/// The ExecuTorch program, exported for the Vulkan backend. Its one method `forward` takes tokens and a position and returns logits.
pub static PROGRAM: &[u8] = include_bytes!("../model.pte");

/// The byte-level BPE tokenizer in the format of the `tokenizers` library. Token 0, `<|endoftext|>`, begins and ends a document.
pub static TOKENIZER: &[u8] = include_bytes!("../tokenizer.json");

/// Ten prompts with the 64 tokens that PyTorch continues each with by argmax, as JSON.
///
/// `prompts[i].prompt_ids` and `prompts[i].ids` hold the tokens, `prompts[i].prompt` the text. `program_sha256` is the hash of
/// [`PROGRAM`].
pub static GOLDENS: &str = include_str!("../goldens.json");
