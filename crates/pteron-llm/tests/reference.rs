//! Compares with the libraries that made the files of `tests/data`, whose outputs `make.py` there records.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use common::{data, tokenizer};
use pteron_llm::tokenizer::Format;
use pteron_llm::{ParseSpecial, ShowSpecial, Tokenizer};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    file: String,
    /// Texts, their ids, and what these decode to.
    encoded: Vec<(String, Vec<u32>, String)>,
    /// Ids that no text has, and what they decode to.
    decoded: Vec<(Vec<u32>, String)>,
}

fn expected() -> Vec<Expected> {
    serde_json::from_slice(&data("expected.json")).unwrap()
}

/// Special tokens are parsed from texts by `tokenizers` alone, and shown by none of the others.
fn parse(tokenizer: &Tokenizer) -> ParseSpecial {
    if tokenizer.format() == Format::HuggingFace { ParseSpecial::Yes } else { ParseSpecial::No }
}

#[test]
fn texts_have_the_same_ids() {
    for Expected { file, encoded, .. } in expected() {
        let tokenizer = tokenizer(&file);
        for (text, ids, _) in encoded {
            assert_eq!(tokenizer.encode(&text, parse(&tokenizer)).unwrap(), ids, "{file}: {text:?}");
        }
    }
}

#[test]
fn ids_have_the_same_texts() {
    for Expected { file, encoded, decoded, .. } in expected() {
        let tokenizer = tokenizer(&file);
        for (ids, text) in encoded.into_iter().map(|(_, ids, text)| (ids, text)).chain(decoded) {
            assert_eq!(tokenizer.decode(&ids, ShowSpecial::No), text, "{file}: {ids:?}");
        }
    }
}

#[test]
fn every_kind_is_known_by_its_bytes() {
    let format = |name| tokenizer(name).format();
    assert_eq!(format("bpe.model"), Format::SentencePiece);
    assert_eq!(format("unigram.model"), Format::SentencePiece);
    assert_eq!(format("tiktoken.model"), Format::Tiktoken);
    assert_eq!(format("fallback.json"), Format::HuggingFace);
}

#[test]
fn special_tokens_are_found_by_name_and_in_texts() {
    for (file, bos, eos) in
        [("bpe.model", Some(1), Some(2)), ("byte_level.json", Some(0), None), ("fallback.json", None, None)]
    {
        let tokenizer = tokenizer(file);
        assert_eq!((tokenizer.bos(), tokenizer.eos()), (bos, eos), "{file}");
        let (start, end) = (tokenizer.token_id("<s>").unwrap(), tokenizer.token_id("</s>").unwrap());
        assert!(tokenizer.is_special(start) && tokenizer.is_special(end), "{file}");
        let ids = tokenizer.encode("<s>air</s>", ParseSpecial::Yes).unwrap();
        assert_eq!((ids.first(), ids.last()), (Some(&start), Some(&end)), "{file}");
        assert_eq!(tokenizer.decode(&ids, ShowSpecial::No), "air", "{file}");
        assert!(tokenizer.decode(&ids, ShowSpecial::Yes).starts_with("<s>"), "{file}");
        let plain = tokenizer.encode("<s>air</s>", ParseSpecial::No).unwrap();
        assert!(!plain.contains(&start) && !plain.contains(&end), "{file}");
        assert_eq!(tokenizer.decode(&plain, ShowSpecial::No), "<s>air</s>", "{file}");
        assert!(tokenizer.special_tokens().contains(&(start, "<s>".to_owned())), "{file}");
    }
}

#[test]
fn prompts_start_as_their_tokenizer_says() {
    let prompt = |name| {
        let tokenizer = tokenizer(name);
        let plain = tokenizer.encode("air", ParseSpecial::No).unwrap();
        (tokenizer.encode_prompt("air", ParseSpecial::No).unwrap(), plain)
    };
    let (prompt_ids, plain) = prompt("byte_level.json");
    assert_eq!(prompt_ids, [&[0], plain.as_slice()].concat());
    let (prompt_ids, plain) = prompt("bpe.model");
    assert_eq!(prompt_ids, [&[1], plain.as_slice()].concat());
    let (prompt_ids, plain) = prompt("fallback.json");
    assert_eq!(prompt_ids, plain);
}

#[test]
fn tokens_have_bytes_and_ends_can_be_named() {
    let tokenizer = tokenizer("fallback.json");
    assert_eq!(tokenizer.token_bytes(3 + 0x0A).unwrap(), b"\n");
    let air = tokenizer.token_id("▁air").unwrap();
    assert_eq!(tokenizer.token_bytes(air).unwrap(), b" air");
    assert_eq!(tokenizer.token_bytes(tokenizer.vocab_size()), None);
    let tokenizer = tokenizer.with_bos_eos(Some("<s>"), Some("</s>")).unwrap();
    assert_eq!((tokenizer.bos(), tokenizer.eos()), (Some(1), Some(2)));
    let error = tokenizer.with_bos_eos(None, Some("<end>")).unwrap_err().to_string();
    assert!(error.contains("no token \"<end>\""), "{error}");
}

#[test]
fn files_that_are_no_tokenizers_are_refused() {
    for bytes in [b"".as_slice(), b"hello", b"PK\x03\x04", b"IQ== zero", &[0; 40], b"\n"] {
        assert!(Tokenizer::from_bytes(bytes).is_err(), "{bytes:?}");
    }
    let error = Tokenizer::from_bytes(b"hello world").unwrap_err().to_string();
    assert!(error.starts_with("the file is not a tokenizer: give a tokenizer.json"), "{error}");
    let error = Tokenizer::open("no/such/file").unwrap_err().to_string();
    assert!(error.starts_with("no/such/file: "), "{error}");
}
