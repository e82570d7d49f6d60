//! No file, however broken, makes a tokenizer panic, hang, or take memory that the file does not justify.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use common::{FILES, data};
use proptest::prelude::*;
use pteron_llm::{ParseSpecial, ShowSpecial, Tokenizer};

/// Reads a file, uses it if it can be read, and checks how much memory that took at most.
fn try_out(file: &[u8]) {
    let memory = allocation_counter::measure(|| {
        let Ok(tokenizer) = Tokenizer::from_bytes(file) else { return };
        for text in ["The air  above a wing <|user|> 翼 🪽\n", "▁▁\u{1}…"] {
            for parse in [ParseSpecial::Yes, ParseSpecial::No] {
                let ids = tokenizer.encode(text, parse).unwrap_or_default();
                let _text = tokenizer.decode(&ids, ShowSpecial::Yes);
            }
        }
        let ids: Vec<u32> = (0..600).chain([u32::MAX]).collect();
        let _text = tokenizer.decode(&ids, ShowSpecial::No);
        assert!(ids.iter().all(|&id| id < tokenizer.vocab_size() || tokenizer.token_bytes(id).is_none()));
    });
    // A regular expression may take much, and a file may have some.
    let patterns = file.windows(5).filter(|word| word == b"Regex").count() as u64;
    let limit = (8 << 20) + ((patterns * 32) << 20) + 1000 * file.len() as u64;
    assert!(memory.bytes_max < limit, "{} bytes for a file of {}", memory.bytes_max, file.len());
}

#[test]
fn files_cut_short_anywhere() {
    for name in FILES {
        let file = data(name);
        for len in (0..file.len()).step_by(7) {
            try_out(&file[..len]);
        }
    }
}

#[test]
fn lengths_that_the_file_does_not_have() {
    // A message, a piece and a table of characters that claim to be far longer than the file.
    try_out(b"\x0A\xFF\xFF\xFF\xFF\x7F");
    try_out(b"\x0A\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01a");
    try_out(b"\x0A\x09\x0A\x05<unk>\x18\x02\x1A\x07\x12\x05\xFC\xFF\xFF\xFFx");
    let table = r#"{"type":"Precompiled","precompiled_charsmap":"/P///w=="}"#;
    let json = format!(r#"{{"normalizer":{table},"model":{{"type":"WordLevel","vocab":{{"a":0}},"unk_token":"a"}}}}"#);
    try_out(json.as_bytes());
    try_out(format!("{{\"model\":{}", "[".repeat(100_000)).as_bytes());
}

/// Regular expressions that others have hung or fallen over.
#[test]
fn patterns_that_explode() {
    let deep = format!("{}a{}", "(".repeat(5000), ")".repeat(5000));
    for pattern in
        [r"(?:\\w{999}){999}", r"(\\w{999}){999}\\1", r"((a*)*)*\\1b", r"(?=(a+))a*b\\1", "(?:a?){500}a{500}", &deep]
    {
        let split = format!(r#"{{"type":"Split","pattern":{{"Regex":"{pattern}"}},"behavior":"Isolated","invert":false}}"#);
        let model = r#"{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}"#;
        let json = format!(r#"{{"pre_tokenizer":{split},"model":{model}}}"#);
        try_out(json.as_bytes());
        if let Ok(tokenizer) = Tokenizer::from_bytes(json.as_bytes()) {
            tokenizer.encode(&"a".repeat(200), ParseSpecial::No).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn files_with_other_bytes(
        file in prop::sample::select(&FILES[..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut file = data(file);
        for (index, byte) in changes {
            let at = index.index(file.len());
            file[at] = byte;
        }
        try_out(&file);
    }

    /// Bytes change to others that mean something, so that more of the file is reached.
    #[test]
    fn json_with_other_words(
        file in prop::sample::select(&FILES[4..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..4),
    ) {
        let file = String::from_utf8(data(file)).unwrap();
        let mut words: Vec<&str> = file.split_inclusive(['"', ',', ':', '[', ']', '{', '}']).collect();
        for (from, to) in changes {
            let (from, to) = (from.index(words.len()), to.index(words.len()));
            words[to] = words[from];
        }
        try_out(words.concat().as_bytes());
    }

    #[test]
    fn any_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..200), start in "[\n{Q]") {
        bytes.splice(0..0, start.bytes());
        try_out(&bytes);
    }
}
