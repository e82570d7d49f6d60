//! Tokenizers: their files, then prompts and token ids through them.

use std::path::Path;

use pteron_llm::{ParseSpecial, ShowSpecial, Tokenizer};

use crate::generate::{Choices, tokenizer_json};
use crate::mutate;
use crate::oracle;
use crate::seeds::{self, Input};
use crate::target::{Outcome, Target};

/// Where the small files of every kind are.
const DATA: &str = "crates/pteron-llm/tests/data";
/// Characters of a prompt that are used.
const MAX_PROMPT: usize = 512;

/// `tokenizer.json` as JSON.
pub const JSON: Target = Target {
    name: "tokenizer_json",
    attacks: "pteron-llm: tokenizer.json as JSON, then encoding and decoding",
    run: |bytes| {
        let (file, prompt) = mutate::split(bytes);
        tried(file, &String::from_utf8_lossy(prompt))
    },
    seeds: |root| {
        let mut seeds = with_prompts(seeds::with_extension(root, &[DATA], &["json"], 8 << 10));
        seeds.extend(generated());
        seeds
    },
    mutate: mutate::json_with_prompt,
    max_len: 6144,
    heap: 512 << 20,
    dictionary: &[
        "\"type\":",
        "\"Sequence\"",
        "\"normalizers\":",
        "\"pretokenizers\":",
        "\"decoders\":",
        "\"ByteLevel\"",
        "\"Metaspace\"",
        "\"Replace\"",
        "\"Prepend\"",
        "\"Split\"",
        "\"Regex\":",
        "\"Precompiled\"",
        "\"BPE\"",
        "\"Unigram\"",
        "\"WordLevel\"",
        "\"merges\":",
        "\"vocab\":",
        "\"added_tokens\":",
        "\"normalized\":true",
        "\"lstrip\":true",
        "\"single_word\":true",
    ],
    ..Target::DEFAULT
};

/// `tokenizer.json` made part by part.
pub const TYPED: Target = Target {
    name: "tokenizer_typed",
    attacks: "pteron-llm: every part of tokenizer.json combined with every other, then encoding and decoding",
    run: |bytes| {
        let (file, prompt) = tokenizer_json(&mut Choices::new(bytes));
        tried(&file, &prompt)
    },
    seeds: seeds::entropy,
    max_len: 512,
    heap: 512 << 20,
    ..Target::DEFAULT
};

/// `SentencePiece` models.
pub const SENTENCEPIECE: Target = Target {
    name: "sentencepiece",
    attacks: "pteron-llm: SentencePiece models, then encoding and decoding",
    run: |bytes| {
        // Binary files hold zeros: a part of the file serves as prompt instead.
        let prompt = String::from_utf8_lossy(&bytes[bytes.len() / 2..]).into_owned();
        tried(bytes, &prompt)
    },
    seeds: |root| files(root, &["bpe.model", "suffix.model", "unigram.model"]),
    max_len: 8192,
    ..Target::DEFAULT
};

/// Llama 3's tiktoken files.
pub const TIKTOKEN: Target = Target {
    name: "tiktoken",
    attacks: "pteron-llm: tiktoken files, then encoding and decoding",
    run: |bytes| {
        let (file, prompt) = mutate::split(bytes);
        tried(file, &String::from_utf8_lossy(prompt))
    },
    seeds: |root| with_prompts(files(root, &["tiktoken.model"])),
    mutate: |rng, bytes, other| mutate::with_prompt(rng, bytes, other, mutate::text_changed),
    max_len: 4096,
    dictionary: &["IQ== 0\n", "<|begin_of_text|>", "<|eot_id|>", "==", " 1\n"],
    ..Target::DEFAULT
};

fn files(root: &Path, names: &[&str]) -> Vec<Input> {
    let all = seeds::with_extension(root, &[DATA], &["model"], 64 << 10);
    all.into_iter().filter(|input| names.iter().any(|name| input.name.ends_with(name))).collect()
}

/// The files, each with a prompt after it.
fn with_prompts(files: Vec<Input>) -> Vec<Input> {
    let prompt = "\0The air  above a wing <|user|> 翼 🪽\n it's 2024!".as_bytes();
    files.into_iter().map(|file| Input::new(file.name, [&file.bytes, prompt].concat())).collect()
}

/// Some generated tokenizers, as seeds for JSON mutations.
fn generated() -> Vec<Input> {
    let made = seeds::entropy(Path::new("")).into_iter().map(|entropy| {
        let (file, prompt) = tokenizer_json(&mut Choices::new(&entropy.bytes));
        Input::new(entropy.name, [&file[..], b"\0", prompt.as_bytes()].concat())
    });
    made.collect()
}

/// Reads a file and, if it is a tokenizer, encodes a prompt and decodes ids.
fn tried(file: &[u8], prompt: &str) -> Outcome {
    let patterns = file.windows(5).filter(|word| *word == b"Regex").count() as u64;
    // An engine for a regular expression may take much, whatever the file's size.
    let slack = (4 << 20) + patterns * (32 << 20);
    let tokenizer = oracle::bounded_heap(file.len(), 200, slack, || Tokenizer::from_bytes(file));
    let outcome = oracle::outcome(&tokenizer);
    let Ok(tokenizer) = tokenizer else { return outcome };
    let prompt: String = prompt.chars().take(MAX_PROMPT).collect();
    let len = file.len() + prompt.len();
    oracle::bounded_heap(len, 4096, slack, || used(&tokenizer, &prompt));
    outcome
}

fn used(tokenizer: &Tokenizer, prompt: &str) {
    for parse in [ParseSpecial::Yes, ParseSpecial::No] {
        let ids = match tokenizer.encode_prompt(prompt, parse) {
            Ok(ids) => ids,
            Err(error) => {
                oracle::error_text(&error);
                continue;
            }
        };
        let again = tokenizer.encode_prompt(prompt, parse).unwrap_or_default();
        assert!(again == ids, "a text is encoded in two ways");
        for show in [ShowSpecial::Yes, ShowSpecial::No] {
            let mut stream = tokenizer.decode_stream(show);
            let mut text: String = ids.iter().map(|&id| stream.push(id)).collect();
            text += &stream.finish();
            assert!(text == tokenizer.decode(&ids, show), "a stream is another text than the whole");
        }
    }
    let size = tokenizer.vocab_size();
    let ids: Vec<u32> = (0..size.min(64)).chain([size.saturating_sub(1), size, u32::MAX]).collect();
    let _ = tokenizer.decode(&ids, ShowSpecial::Yes);
    for id in ids {
        assert!(id < size || tokenizer.token_bytes(id).is_none(), "an id of {size} or more has a token");
    }
    for (id, _) in tokenizer.special_tokens() {
        assert!(id < size && tokenizer.is_special(id), "a special token that is none");
    }
}
