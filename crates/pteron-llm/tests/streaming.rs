//! Text decoded token by token equals text decoded at once, for any tokens.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use common::{FILES, tokenizer};
use proptest::prelude::*;
use pteron_llm::{ParseSpecial, ShowSpecial, Tokenizer};

fn tokenizers() -> [(&'static str, Tokenizer); FILES.len()] {
    FILES.map(|name| (name, tokenizer(name)))
}

/// The pieces of a stream, the last of them from its end.
fn pieces(tokenizer: &Tokenizer, ids: &[u32], show: ShowSpecial) -> Vec<String> {
    let mut stream = tokenizer.decode_stream(show);
    let mut pieces: Vec<_> = ids.iter().map(|&id| stream.push(id)).collect();
    assert!(!stream.is_pending() || tokenizer.decode(ids, show).ends_with('\u{FFFD}'));
    pieces.push(stream.finish());
    pieces
}

/// Checks that no later token changes text already shown: it is a prefix of the text that all tokens decode to.
fn check(name: &str, tokenizer: &Tokenizer, ids: &[u32]) -> Result<(), TestCaseError> {
    for show in [ShowSpecial::No, ShowSpecial::Yes] {
        let whole = tokenizer.decode(ids, show);
        let pieces = pieces(tokenizer, ids, show);
        prop_assert_eq!(pieces.concat(), whole.as_str(), "{} {:?}", name, ids);
        let mut shown = String::new();
        for (count, piece) in pieces.iter().take(ids.len()).enumerate() {
            shown += piece;
            // What is shown after some tokens is in the text of these tokens alone, too, if they end well.
            let part = tokenizer.decode(&ids[..=count], show);
            prop_assert!(part.starts_with(&shown), "{} {:?} {:?} {:?}", name, ids, part, shown);
        }
    }
    Ok(())
}

fn texts() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[ a-z]{0,6}",
        "[\u{4e00}-\u{4e20}翼気]{1,3}",
        prop::sample::select(vec!["🪽", "👩‍👩‍👧", "🇬🇷", "e\u{301}", "  ", "\n", "▁", "\u{FFFD}", "é", "ﬁ"])
            .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(part, 0..10).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn texts_come_through(text in texts()) {
        for (name, tokenizer) in tokenizers() {
            let ids = tokenizer.encode(&text, ParseSpecial::No).unwrap();
            check(name, &tokenizer, &ids)?;
            // All but the unigram models keep every character; the others drop spaces or have no bytes.
            if !matches!(name, "unigram.model" | "suffix.model" | "bpe.model" | "fallback.json") {
                prop_assert_eq!(tokenizer.decode(&ids, ShowSpecial::No), text.as_str(), "{}", name);
            }
        }
    }

    #[test]
    fn any_tokens_come_through(numbers in prop::collection::vec(any::<u32>(), 0..24)) {
        for (name, tokenizer) in tokenizers() {
            // A few beyond the vocabulary, which give nothing.
            let bound = tokenizer.vocab_size() + 3;
            let ids: Vec<u32> = numbers.iter().map(|number| number % bound).collect();
            check(name, &tokenizer, &ids)?;
        }
    }

    /// Characters that are spelled in bytes, with bytes missing.
    #[test]
    fn broken_characters_come_through(text in "[a🪽é日]{1,8}", missing in prop::collection::vec(any::<prop::sample::Index>(), 0..4)) {
        for (name, tokenizer) in tokenizers() {
            let mut ids = tokenizer.encode(&text, ParseSpecial::No).unwrap();
            for index in &missing {
                if !ids.is_empty() {
                    ids.remove(index.index(ids.len()));
                }
            }
            check(name, &tokenizer, &ids)?;
        }
    }
}

#[test]
fn a_character_of_four_tokens_is_shown_with_the_last() {
    for (name, tokenizer) in tokenizers() {
        let ids = tokenizer.encode("a🪽", ParseSpecial::No).unwrap();
        if name == "unigram.model" {
            continue;
        }
        let pieces = pieces(&tokenizer, &ids, ShowSpecial::No);
        let wing = pieces.iter().position(|piece| piece.contains('🪽')).unwrap();
        let before: Vec<_> = pieces[wing - 3..wing].to_vec();
        assert_eq!(before, ["", "", ""], "{name}: {pieces:?}");
    }
}

#[test]
fn the_space_before_the_first_word_is_dropped_once() {
    for name in ["bpe.model", "fallback.json"] {
        let tokenizer = &tokenizer(name);
        let air = tokenizer.encode("air", ParseSpecial::No).unwrap();
        let ids = [&[1], air.as_slice(), air.as_slice()].concat();
        assert_eq!(pieces(tokenizer, &ids, ShowSpecial::No).concat(), "air air", "{name}");
    }
}
