//! Arbitrary bytes: reading them returns a model or an error.

use proptest::prelude::*;
use pteron_convert::{Gguf, Source};

use super::writer::{F32, Value, Writer, tiny, with_tokenizer};

/// Opening may hold this many times the input on the heap,
const HEAP_FACTOR: u64 = 16;
/// and this much more.
const HEAP_SLACK: u64 = 1 << 20;

/// Opens bytes, and reads all rows if they are a model. Returns whether they are.
fn probe(bytes: Vec<u8>) -> bool {
    let limit = HEAP_FACTOR * bytes.len() as u64 + HEAP_SLACK;
    let mut opened = None;
    let heap = allocation_counter::measure(|| opened = Some(Gguf::from_bytes("x.gguf", bytes))).bytes_max;
    assert!(heap <= limit, "{heap} bytes on the heap, more than {limit}");
    match opened.unwrap() {
        Ok(model) => {
            let config = model.config();
            for weight in config.weights() {
                let matrix = config.shape(weight);
                let mut numbers = vec![0.0; matrix.columns as usize];
                (0..matrix.rows).for_each(|row| model.row(weight, row, &mut numbers).unwrap());
            }
            true
        }
        Err(error) => {
            let text = error.to_string();
            assert!(!text.is_empty() && text.len() < 8192, "{text}");
            assert!(!text.chars().any(char::is_control), "{text:?}");
            false
        }
    }
}

fn sentence_pieces(file: Writer) -> Writer {
    let tokens = ["<unk>", "<s>", "</s>", "<0x0A>", "▁", "a", "b", "ab", "▁ab", "<|user|>", "[PAD]"];
    file.key("tokenizer.ggml.model", "llama")
        .key("tokenizer.ggml.tokens", Value::Texts(tokens.map(str::to_owned).to_vec()))
        .key("tokenizer.ggml.token_type", Value::I32s(vec![2, 3, 3, 6, 1, 1, 1, 1, 1, 4, 5]))
        .key("tokenizer.ggml.scores", Value::F32s(vec![0.0, 0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -4.0, -5.0, 0.0, 0.0]))
        .key("tokenizer.ggml.bos_token_id", 1)
        .key("tokenizer.ggml.eos_token_id", 2)
        .key("tokenizer.chat_template", "{{ bos_token }}")
}

/// Valid files of several kinds.
fn seeds() -> Vec<Vec<u8>> {
    let divisors = [1.0f32, 2.0].into_iter().flat_map(f32::to_le_bytes).collect();
    let first = with_tokenizer(tiny("llama")).tensor("rope_freqs.weight", &[2], F32, divisors);
    let written = include_bytes!("data/written.gguf").to_vec();
    vec![first.bytes(), sentence_pieces(tiny("qwen2")).bytes(), tiny("qwen3").bytes(), written]
}

#[test]
fn a_file_that_is_cut_short_anywhere_is_refused() {
    for seed in seeds() {
        assert!(probe(seed.clone()));
        for len in 0..seed.len() {
            let whole = probe(seed[..len].to_vec());
            // The last tensor may be followed by bytes that only fill up.
            assert!(!whole || seed[len..].iter().all(|&byte| byte == 0), "{len} of {} bytes", seed.len());
        }
    }
}

#[test]
fn memory_follows_from_the_input() {
    let mut file = tiny("llama");
    for index in 0..20_000 {
        file.keys.push((format!("{index:x}"), Value::Bool(true)));
    }
    let template = file.tensors[0].clone();
    for index in 0..20_000 {
        file.tensors.push(super::writer::Tensor {
            name: format!("{index:x}"),
            dims: Vec::new(),
            bytes: vec![0; 4],
            ..template.clone()
        });
    }
    file.alignment = 4;
    assert!(!probe(file.key("general.alignment", 4).bytes()));
    let tokens: Vec<String> = (0..12).map(|len| "a".repeat(len)).collect();
    let file = tiny("llama").key("tokenizer.ggml.tokens", Value::Texts(tokens));
    assert!(probe(file.key("tokenizer.ggml.model", "llama").bytes()));
}

#[derive(Clone, Debug)]
enum Change {
    Byte(usize, u8),
    Number(usize, u64),
    Cut(usize),
    Remove(usize, usize),
    Insert(usize, Vec<u8>),
}

impl Change {
    fn apply(self, bytes: &mut Vec<u8>) {
        let place = |at: usize, bytes: &[u8]| at % bytes.len().max(1);
        match self {
            Self::Byte(at, flip) => {
                let at = place(at, bytes);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= flip);
            }
            Self::Number(at, number) => {
                let at = place(at, bytes);
                bytes.iter_mut().skip(at).zip(number.to_le_bytes()).for_each(|(byte, new)| *byte = new);
            }
            Self::Cut(at) => bytes.truncate(at),
            Self::Remove(at, len) => {
                let at = place(at, bytes);
                bytes.drain(at..bytes.len().min(at + len));
            }
            Self::Insert(at, more) => {
                let at = place(at, bytes);
                bytes.splice(at..at, more);
            }
        }
    }
}

/// Places are where keys and descriptions are, for the most part: what numbers a tensor has changes little.
fn change() -> impl Strategy<Value = Change> {
    let at = || prop_oneof![4 => 0..3000usize, 1 => any::<usize>()];
    let number = prop_oneof![
        any::<u64>(),
        0..64u64,
        (0..64u32).prop_map(|bit| 1 << bit),
        (0..64u32).prop_map(|bit| u64::MAX >> bit),
    ];
    prop_oneof![
        6 => (at(), 1..=255u8).prop_map(|(at, flip)| Change::Byte(at, flip)),
        3 => (at(), number).prop_map(|(at, number)| Change::Number(at, number)),
        1 => (0..9000usize).prop_map(Change::Cut),
        1 => (at(), 1..64usize).prop_map(|(at, len)| Change::Remove(at, len)),
        1 => (at(), prop::collection::vec(any::<u8>(), 1..64)).prop_map(|(at, more)| Change::Insert(at, more)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn no_change_of_a_valid_file_is_a_panic(seed in 0..4usize, changes in prop::collection::vec(change(), 1..6)) {
        let mut bytes = seeds().swap_remove(seed);
        changes.into_iter().for_each(|change| change.apply(&mut bytes));
        probe(bytes);
    }
}
