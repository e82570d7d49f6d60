//! The tokenizers of `tests/data`.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![allow(dead_code, reason = "not every test uses all of it")]

use pteron_llm::Tokenizer;

/// The files, those of JSON last.
pub(crate) const FILES: [&str; 6] =
    ["bpe.model", "unigram.model", "suffix.model", "tiktoken.model", "byte_level.json", "fallback.json"];

/// The bytes of a test file.
pub(crate) fn data(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The tokenizer of a file.
pub(crate) fn tokenizer(name: &str) -> Tokenizer {
    Tokenizer::from_bytes(&data(name)).unwrap()
}
