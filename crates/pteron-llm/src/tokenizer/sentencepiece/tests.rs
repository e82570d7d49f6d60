//! Models that are written by hand, for what training never makes.

use super::*;

/// A field of a message: a number, a text, or a float.
fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7F).unwrap() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
    bytes
}

fn number(field: usize, value: usize) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn bytes(field: usize, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len()), value.to_vec()].concat()
}

fn float(field: usize, value: f32) -> Vec<u8> {
    [varint(field << 3 | 5), value.to_le_bytes().to_vec()].concat()
}

const NORMAL: usize = 1;
const UNKNOWN: usize = 2;
const CONTROL: usize = 3;
const USER: usize = 4;
const UNUSED: usize = 5;
const BYTE: usize = 6;

fn pieces(pieces: &[(&str, f32, usize)]) -> Vec<u8> {
    let piece = |(text, score, kind): &(&str, f32, usize)| {
        bytes(1, &[bytes(1, text.as_bytes()), float(2, *score), number(3, *kind)].concat())
    };
    pieces.iter().flat_map(piece).collect()
}

/// No rewriting at all, so that the tests show pieces only.
fn plain() -> Vec<u8> {
    bytes(3, &[number(3, 0), number(4, 0)].concat())
}

fn bpe() -> Vec<u8> {
    bytes(2, &number(3, 2))
}

fn read(parts: &[Vec<u8>]) -> Result<SentencePiece, TokenizerError> {
    SentencePiece::read(&parts.concat())
}

fn encode(model: &SentencePiece, text: &str) -> Vec<u32> {
    model.encode(text, ParseSpecial::No).unwrap()
}

#[test]
fn unigram_takes_the_most_likely_way() {
    let list =
        [("<unk>", 0.0, UNKNOWN), ("a", -1.0, NORMAL), ("b", -1.0, NORMAL), ("ab", -1.5, NORMAL), ("ba", -1.9, NORMAL)];
    let model = read(&[pieces(&list), plain()]).unwrap();
    assert_eq!(encode(&model, "abab"), [3, 3]);
    assert_eq!(encode(&model, "aba"), [3, 1]);
    // Unknown characters in a row are one piece.
    assert_eq!(encode(&model, "axyzb"), [1, 0, 2]);
}

#[test]
fn symbols_of_the_user_win_and_unused_pieces_do_not() {
    let list = [("<unk>", 0.0, UNKNOWN), ("a", -1.0, NORMAL), ("b", -1.0, NORMAL), ("ab", 0.0, USER), ("aa", 5.0, UNUSED)];
    let model = read(&[pieces(&list), plain()]).unwrap();
    assert_eq!(encode(&model, "aaab"), [1, 1, 3]);
    let model = read(&[pieces(&list), plain(), bpe()]).unwrap();
    assert_eq!(encode(&model, "aaab"), [1, 1, 3]);
}

#[test]
fn merges_go_through_unused_pieces_and_are_undone_there() {
    let list = [
        ("<unk>", 0.0, UNKNOWN),
        ("a", -9.0, NORMAL),
        ("b", -9.0, NORMAL),
        ("ab", -1.0, UNUSED),
        ("abb", -2.0, NORMAL),
        ("bb", -3.0, NORMAL),
    ];
    let model = read(&[pieces(&list), plain(), bpe()]).unwrap();
    assert_eq!(encode(&model, "abb"), [4]);
    assert_eq!(encode(&model, "aba"), [1, 2, 1]);
    assert_eq!(encode(&model, "bb"), [5]);
}

#[test]
fn control_pieces_are_found_only_when_asked_for() {
    let list =
        [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL), ("▁a", -1.0, NORMAL), ("▁", -2.0, NORMAL)];
    let model = read(&[pieces(&list)]).unwrap();
    assert_eq!(model.encode("<s> a</s>a", ParseSpecial::Yes).unwrap(), [1, 3, 2, 3]);
    assert_eq!(encode(&model, "<s>"), [4, 0]);
    assert_eq!((model.bos(), model.eos(), model.vocab_size()), (Some(1), Some(2), 5));
    let renamed = bytes(2, &[bytes(46, b"<unk>"), bytes(47, b"<s>"), bytes(44, b"?")].concat());
    let model = read(&[pieces(&list), renamed]).unwrap();
    // What is unknown is no control piece, whatever its name.
    assert_eq!((model.bos(), model.eos()), (None, Some(1)));
    assert_eq!(model.token_bytes(0).unwrap(), b"?");
}

#[test]
fn leading_spaces_are_dropped_as_the_flags_say() {
    let list =
        [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("▁", -1.0, NORMAL), ("a", -1.0, NORMAL), ("▁a", -1.0, NORMAL)];
    let decode = |normalizer: &[u8], ids: &[u32]| {
        let model = read(&[pieces(&list), bytes(3, normalizer)]).unwrap();
        let (mut detokenizer, mut out) = (model.detokenizer(), String::new());
        ids.iter().for_each(|&id| model.push_token(id, ShowSpecial::No, &mut detokenizer, &mut out));
        detokenizer.finish(&mut out);
        out
    };
    // One space was put before the text: one is dropped. Where all would have been dropped, all are.
    assert_eq!(decode(&number(4, 0), &[1, 2, 2, 4, 4]), "  a a");
    assert_eq!(decode(&number(4, 1), &[1, 2, 2, 4, 4]), "a a");
    assert_eq!(decode(&plain()[2..], &[2, 4]), "  a");
}

#[test]
fn broken_models_are_one_sentence() {
    let error = |parts: &[Vec<u8>]| read(parts).unwrap_err().to_string();
    let unknown = ("<unk>", 0.0, UNKNOWN);
    assert!(error(&[pieces(&[("a", 0.0, NORMAL)])]).contains("one piece for what is unknown"));
    assert!(error(&[pieces(&[unknown, ("u", 0.0, UNKNOWN)])]).contains("one piece for what is unknown"));
    assert!(error(&[pieces(&[unknown, ("", 0.0, NORMAL)])]).contains("piece 1: it must have between 1 and"));
    assert!(error(&[pieces(&[unknown, (&"x".repeat(5000), 0.0, NORMAL)])]).contains("piece 1: it must have between 1 and"));
    assert!(error(&[pieces(&[unknown, ("a", f32::NAN, NORMAL)])]).contains("its score is not a finite number"));
    assert!(error(&[pieces(&[unknown, ("a", 0.0, 9)])]).contains("its type is not known"));
    assert!(error(&[pieces(&[unknown, ("<0xG0>", 0.0, BYTE)])]).contains("not written like <0x0A>"));
    assert!(error(&[pieces(&[unknown, ("a", 0.0, NORMAL), ("a", 0.0, NORMAL)])]).contains("pieces 1 and 2 are the same"));
    assert!(error(&[pieces(&[unknown]), bytes(2, &number(35, 1))]).contains("no piece for the byte 0x0"));
    assert!(error(&[pieces(&[unknown]), bytes(2, &number(3, 4))]).contains("only unigram and BPE"));
    assert!(error(&[pieces(&[unknown]), bytes(3, &bytes(2, b"xxxxx"))]).contains("table of characters"));
    assert!(error(&[pieces(&[unknown]), vec![0x0A, 0x7F]]).contains("ends in the middle"));
    assert!(error(&[]).contains("one piece for what is unknown"));
}
