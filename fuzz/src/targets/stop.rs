//! Text as it comes: token ids to characters, and the strings that end it.

use std::sync::OnceLock;

use pteron_llm::{ShowSpecial, StopConditions, Tokenizer};

use crate::generate::Choices;
use crate::seeds;
use crate::target::{Outcome, Target};

/// Stop strings over any cut of a text.
pub const STOP: Target = Target {
    name: "stop",
    attacks: "pteron-llm: stop strings over any cut of a text",
    run: stop,
    seeds: seeds::entropy,
    max_len: 512,
    smoke: 50_000,
    ..Target::DEFAULT
};

/// Any token ids.
pub const STREAM: Target = Target {
    name: "stream",
    attacks: "pteron-llm: text of any token ids, by each kind of tokenizer",
    run: stream,
    seeds: seeds::entropy,
    max_len: 512,
    smoke: 50_000,
    ..Target::DEFAULT
};

fn stop(bytes: &[u8]) -> Outcome {
    let mut choices = Choices::new(bytes);
    let strings: Vec<String> = (0..choices.below(5)).map(|_| choices.text(4)).collect();
    let Ok(stop) = StopConditions::new(strings.clone(), vec![choices.u32()]) else {
        assert!(strings.iter().any(String::is_empty), "stop strings are refused without a reason");
        return "refused";
    };
    let mut pieces = Vec::new();
    while !choices.is_empty() {
        pieces.push(choices.text(6));
    }
    let whole = pieces.concat();
    let shown = |pieces: &[String]| {
        let mut filter = stop.filter();
        let mut text: String = pieces.iter().map(|piece| filter.push(piece)).collect();
        let hit = filter.matched();
        text += &filter.finish();
        (text, hit)
    };
    let (text, hit) = shown(&pieces);
    assert!(shown(std::slice::from_ref(&whole)) == (text.clone(), hit), "the cut of a text makes a difference");
    match hit {
        None => assert!(text == whole, "text is lost"),
        Some(index) => {
            assert!(whole[text.len()..].starts_with(&strings[index]), "the text ends elsewhere");
            assert!(strings.iter().all(|stop| !text.contains(stop.as_str())), "a stop string is shown");
        }
    }
    if hit.is_some() { "stopped" } else { "passed" }
}

fn tokenizers() -> &'static [Tokenizer] {
    static TOKENIZERS: OnceLock<Vec<Tokenizer>> = OnceLock::new();
    macro_rules! file {
        ($name:literal) => {
            &include_bytes!(concat!("../../../crates/pteron-llm/tests/data/", $name))[..]
        };
    }
    TOKENIZERS.get_or_init(|| {
        let files = [
            file!("byte_level.json"),
            file!("fallback.json"),
            file!("tiktoken.model"),
            file!("bpe.model"),
            file!("suffix.model"),
            file!("unigram.model"),
        ];
        files.map(|file| Tokenizer::from_bytes(file).expect("a tokenizer of the tests")).into()
    })
}

fn stream(bytes: &[u8]) -> Outcome {
    let mut choices = Choices::new(bytes);
    let tokenizer = choices.pick(tokenizers());
    let show = if choices.bool() { ShowSpecial::Yes } else { ShowSpecial::No };
    let mut ids = Vec::new();
    let size = tokenizer.vocab_size() as usize;
    while !choices.is_empty() {
        let id = if choices.chance(10) { choices.u32() } else { u32::try_from(choices.below(size + 2)).unwrap_or(u32::MAX) };
        ids.push(id);
    }
    let mut stream = tokenizer.decode_stream(show);
    let mut text = String::new();
    for &id in &ids {
        let before = text.len();
        stream.push_into(id, &mut text);
        let most = tokenizer.token_bytes(id).map_or(0, |bytes| bytes.len());
        // What was held back may come out with it, each byte as U+FFFD.
        assert!(text.len() - before <= 3 * most + 16, "a token of {most} bytes gives {} bytes", text.len() - before);
    }
    text += &stream.finish();
    assert!(text == tokenizer.decode(&ids, show), "a stream is another text than the whole");
    if text.contains('\u{fffd}') { "broken" } else { "whole" }
}
