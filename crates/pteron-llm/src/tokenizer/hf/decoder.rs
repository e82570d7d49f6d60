//! The decoder of `tokenizer.json`, in a form that works token by token.
//!
//! The steps that the `tokenizers` crate applies to a list of tokens are split into a conversion of each token, whether it is
//! bytes, and trimming of the whole text. Results are the same, with one difference: where a character spelled in byte tokens is
//! broken, each of its bytes becomes U+FFFD; that crate also replaces the whole characters next to it.

use std::borrow::Cow;

use serde_json::Value;

use super::super::detokenize::{Broken, Detokenizer, Trim};
use super::fields::{character, flatten, kind};

/// The largest factor by which a decoder may lengthen a token; decoders in use do not lengthen tokens.
const MAX_GROWTH: usize = 16;

/// One step of a decoder.
#[derive(Debug, PartialEq)]
enum Step {
    Replace { from: String, to: String },
    Metaspace { space: char, drop_first: bool },
    Strip(Trim),
}

impl Step {
    /// How many times as long a token can become.
    fn growth(&self) -> usize {
        match self {
            Self::Replace { from, to } => to.len().div_ceil(from.len().max(1)).max(1),
            _ => 1,
        }
    }
}

/// How the rest of a token becomes text.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Spelling {
    Text,
    /// Tokens like `<0x0A>` are bytes.
    ByteFallback,
    /// Each character represents a byte.
    ByteLevel,
}

#[derive(Debug, PartialEq)]
pub(super) struct Decoder {
    steps: Vec<Step>,
    spelling: Spelling,
    trim: Trim,
    /// The separator of tokens.
    between: &'static str,
}

impl Decoder {
    pub(super) fn new(part: Option<&Value>) -> Result<Self, String> {
        let mut decoder = Self { steps: Vec::new(), spelling: Spelling::Text, trim: Trim::default(), between: "" };
        if part.is_none() {
            decoder.between = " ";
        }
        let mut joined = false;
        for step in flatten("decoder", part, "decoders")? {
            match (kind(step), decoder.spelling, joined) {
                ("Fuse", ..) => joined = true,
                ("ByteFallback", Spelling::Text, false) => decoder.spelling = Spelling::ByteFallback,
                ("ByteLevel", Spelling::Text, false) => {
                    decoder.spelling = Spelling::ByteLevel;
                    joined = true;
                }
                ("Replace", Spelling::Text, false) => decoder.steps.push(replace(step)?),
                ("Metaspace", Spelling::Text, false) => decoder.steps.push(metaspace(step)?),
                ("Strip", Spelling::Text, false) => decoder.steps.push(Step::Strip(strip(step)?)),
                ("Strip", _, true) if decoder.trim == Trim::default() => decoder.trim = strip(step)?,
                (kind, ..) => {
                    return Err(format!(
                        "its decoder has a step {kind:?} that cannot be used, or not in that place; those that work are \
                         ByteLevel, or Replace, Metaspace and Strip before ByteFallback, Fuse and Strip"
                    ));
                }
            }
        }
        let growth = decoder.steps.iter().map(Step::growth).fold(1usize, usize::saturating_mul);
        if growth > MAX_GROWTH {
            return Err(format!("its decoder could make a token more than {MAX_GROWTH} times as long"));
        }
        Ok(decoder)
    }

    pub(super) fn detokenizer(&self) -> Detokenizer {
        let broken = if self.spelling == Spelling::ByteFallback { Broken::EachByte } else { Broken::EachSequence };
        Detokenizer::new(broken, self.trim)
    }

    pub(super) fn join(&self, token: &str, detokenizer: &mut Detokenizer, out: &mut String) {
        let first = !std::mem::replace(&mut detokenizer.started, true);
        if !first {
            detokenizer.text(self.between, out);
        }
        let text = self.apply(token, first);
        match self.spelling {
            Spelling::Text => detokenizer.text(&text, out),
            Spelling::ByteFallback => match byte_of(&text) {
                Some(byte) => detokenizer.bytes(&[byte], out),
                None => detokenizer.text(&text, out),
            },
            Spelling::ByteLevel => detokenizer.bytes(&spelled(&text), out),
        }
    }

    /// The bytes of a token inside a text.
    pub(super) fn bytes(&self, token: &str) -> Vec<u8> {
        let text = self.apply(token, false);
        match self.spelling {
            Spelling::Text => text.into_owned().into_bytes(),
            Spelling::ByteFallback => byte_of(&text).map_or_else(|| text.as_bytes().to_vec(), |byte| vec![byte]),
            Spelling::ByteLevel => spelled(&text),
        }
    }

    fn apply<'a>(&self, token: &'a str, first: bool) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(token);
        for step in &self.steps {
            text = Cow::Owned(match step {
                Step::Replace { from, to } => text.replace(from, to),
                Step::Metaspace { space, drop_first: true } if first => text.replace(*space, ""),
                Step::Metaspace { space, .. } => text.replace(*space, " "),
                Step::Strip(trim) => {
                    let (mut detokenizer, mut out) = (Detokenizer::new(Broken::default(), *trim), String::new());
                    detokenizer.text(&text, &mut out);
                    detokenizer.finish(&mut out);
                    out
                }
            });
        }
        text
    }
}

fn replace(step: &Value) -> Result<Step, String> {
    let from = step.pointer("/pattern/String").and_then(Value::as_str).filter(|from| !from.is_empty());
    match (from, step.get("content").and_then(Value::as_str)) {
        (Some(from), Some(to)) => Ok(Step::Replace { from: from.to_owned(), to: to.to_owned() }),
        _ => Err("its decoder replaces something else than one text by another, which is not supported".to_owned()),
    }
}

fn metaspace(step: &Value) -> Result<Step, String> {
    let space = character(step, "replacement").ok_or("its Metaspace decoder has no replacement character")?;
    let never = step.get("prepend_scheme").and_then(Value::as_str) == Some("never");
    let no_prefix = step.get("add_prefix_space").and_then(Value::as_bool) == Some(false);
    Ok(Step::Metaspace { space, drop_first: !never && !no_prefix })
}

fn strip(step: &Value) -> Result<Trim, String> {
    let count = |name| step.get(name).and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok());
    match (character(step, "content"), count("start"), count("stop")) {
        (Some(content), Some(start), Some(end)) => Ok(Trim { content, start, end }),
        _ => Err("its decoder strips, but does not say what and how often".to_owned()),
    }
}

/// The byte of a token such as `<0x0A>`.
fn byte_of(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    u8::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 2)
}

/// The bytes of a token whose characters represent bytes. A token with any other character is its own text.
fn spelled(token: &str) -> Vec<u8> {
    token.chars().map(byte_level).collect::<Option<_>>().unwrap_or_else(|| token.as_bytes().to_vec())
}

/// The byte that a character represents in byte-level tokens: itself if it is printable in Latin-1; all other bytes are numbered
/// in order from U+0100.
fn byte_level(character: char) -> Option<u8> {
    let visible = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    match u8::try_from(character) {
        Ok(byte) => Some(byte).filter(visible),
        Err(_) => {
            let nth = usize::try_from(u32::from(character).checked_sub(0x100)?).ok()?;
            (0..=255).filter(|byte| !visible(byte)).nth(nth)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use tokenizers::{Decoder as _, DecoderWrapper};

    use super::*;

    fn ours(part: &Value, tokens: &[String]) -> String {
        let decoder = Decoder::new(Some(part)).unwrap();
        let (mut detokenizer, mut out) = (decoder.detokenizer(), String::new());
        tokens.iter().for_each(|token| decoder.join(token, &mut detokenizer, &mut out));
        detokenizer.finish(&mut out);
        out
    }

    fn theirs(part: &Value, tokens: &[String]) -> String {
        let decoder: DecoderWrapper = serde_json::from_value(part.clone()).unwrap();
        decoder.decode(tokens.to_vec()).unwrap()
    }

    fn llama_2() -> Value {
        json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})
    }

    fn byte_level_decoder() -> Value {
        json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})
    }

    #[test]
    fn every_byte_has_its_character() {
        let alphabet = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
        let mut bytes: Vec<u8> = alphabet.into_iter().map(|character| byte_level(character).unwrap()).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<_>>());
        assert_eq!(
            (byte_level('Ġ'), byte_level('Ċ'), byte_level(' '), byte_level('日')),
            (Some(b' '), Some(b'\n'), None, None)
        );
    }

    #[test]
    fn byte_tokens_become_characters() {
        let tokens = ["▁a", "<0xF0>", "<0x9F>", "<0xAA>", "<0xBD>", "▁b", "<0x4>", "<0xZZ>"].map(str::to_owned);
        assert_eq!(ours(&llama_2(), &tokens), "a🪽 b<0x4><0xZZ>");
        assert_eq!(theirs(&llama_2(), &tokens), "a🪽 b<0x4><0xZZ>");
    }

    #[test]
    fn only_the_broken_bytes_are_replaced() {
        let tokens = ["<0xC3>", "<0xA9>", "<0xFF>", "<0xE6>", "<0x97>", "x"].map(str::to_owned);
        assert_eq!(ours(&llama_2(), &tokens), "é\u{FFFD}\u{FFFD}\u{FFFD}x");
    }

    #[test]
    fn decoders_that_double_the_text_are_rejected() {
        let double = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
        let sequence = |count| json!({"type": "Sequence", "decoders": vec![double.clone(); count]});
        assert!(Decoder::new(Some(&sequence(4))).is_ok());
        assert!(Decoder::new(Some(&sequence(40))).unwrap_err().contains("more than 16 times as long"));
        assert!(Decoder::new(Some(&sequence(65))).unwrap_err().contains("65 steps"));
    }

    #[test]
    fn decoders_that_cannot_stream_are_rejected() {
        let fuse = json!({"type": "Fuse"});
        let replace = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "b"});
        for part in [
            json!({"type": "CTC", "pad_token": "x", "word_delimiter_token": "|", "cleanup": true}),
            json!({"type": "Sequence", "decoders": [fuse, replace]}),
            json!({"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"}),
            json!({"type": "Strip", "content": "ab", "start": 1, "stop": 0}),
            json!({"type": "Metaspace"}),
            json!({}),
        ] {
            assert!(Decoder::new(Some(&part)).is_err(), "{part}");
        }
    }

    fn tokens() -> impl Strategy<Value = Vec<String>> {
        let pieces = prop_oneof![
            "[▁ aé🪽日Ġ]{0,4}",
            Just("▁".to_owned()),
            Just("<0xC3>".to_owned()),
            any::<char>().prop_map(String::from),
        ];
        prop::collection::vec(pieces, 0..12)
    }

    proptest! {
        #[test]
        fn the_reference_decodes_the_same(tokens in tokens()) {
            let whole = tokens.iter().filter(|token| !token.starts_with("<0x")).cloned().collect::<Vec<_>>();
            for part in [
                llama_2(),
                json!({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}),
                json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}),
                json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": true}),
                json!({"type": "Strip", "content": "▁", "start": 1, "stop": 0}),
            ] {
                prop_assert_eq!(ours(&part, &whole), theirs(&part, &whole), "{}", part);
            }
            // Broken bytes and all.
            prop_assert_eq!(ours(&byte_level_decoder(), &tokens), theirs(&byte_level_decoder(), &tokens));
        }
    }
}
