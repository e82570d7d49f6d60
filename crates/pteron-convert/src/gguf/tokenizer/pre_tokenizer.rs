//! The pre-tokenizers of byte-level BPE, by their names in GGUF files.

use serde_json::{Value, json};

/// A pre-tokenizer, and tokenizer settings that go with it.
#[derive(Debug)]
pub(super) struct PreTokenizer {
    /// Its names in `tokenizer.ggml.pre`.
    names: &'static [&'static str],
    /// Split patterns, applied in order.
    patterns: &'static [&'static str],
    /// Whether the normaliser is NFC.
    nfc: bool,
    /// Whether a word that is a token is not merged (`ignore_merges`).
    pub(super) ignore_merges: bool,
    /// Whether a BOS token is added if the file does not say.
    pub(super) adds_bos: bool,
}

const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA_3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const QWEN_2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

static PRE_TOKENIZERS: [PreTokenizer; 8] = [
    PreTokenizer {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "midm-2.0"],
        patterns: &[LLAMA_3],
        nfc: false,
        ignore_merges: true,
        adds_bos: true,
    },
    PreTokenizer { names: &["smaug-bpe", "dbrx"], patterns: &[LLAMA_3], nfc: false, ignore_merges: false, adds_bos: false },
    PreTokenizer { names: &["qwen2"], patterns: &[QWEN_2], nfc: true, ignore_merges: false, adds_bos: false },
    PreTokenizer {
        names: &["deepseek-r1-qwen", "megrez", "stablelm2"],
        patterns: &[QWEN_2],
        nfc: false,
        ignore_merges: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &["smollm", "starcoder", "refact", "codeshell", "minerva-7b"],
        patterns: &[r"\p{N}", GPT_2],
        nfc: false,
        ignore_merges: false,
        adds_bos: false,
    },
    PreTokenizer { names: &["tekken"], patterns: &[TEKKEN], nfc: false, ignore_merges: true, adds_bos: true },
    PreTokenizer {
        names: &["gpt-2", "phi-2", "olmo", "mpt", "gigachat", "mellum", "a.x-4.0", "trillion"],
        patterns: &[GPT_2],
        nfc: false,
        ignore_merges: false,
        adds_bos: false,
    },
    // Files older than the `pre` key.
    PreTokenizer {
        names: &["default"],
        patterns: &[r"[\p{P}\$\+<=>\^~\|]+", GPT_2, r"\p{N}+", "[0-9][0-9][0-9]"],
        nfc: false,
        ignore_merges: false,
        adds_bos: false,
    },
];

/// Returns the pre-tokenizer with this name.
pub(super) fn find(name: &str) -> Option<&'static PreTokenizer> {
    PRE_TOKENIZERS.iter().find(|pre_tokenizer| pre_tokenizer.names.contains(&name))
}

/// Returns all known names.
pub(super) fn names() -> Vec<String> {
    PRE_TOKENIZERS.iter().flat_map(|pre_tokenizer| pre_tokenizer.names).map(|&name| name.to_owned()).collect()
}

impl PreTokenizer {
    pub(super) fn normalizer(&self) -> Value {
        if self.nfc { json!({"type": "NFC"}) } else { Value::Null }
    }

    pub(super) fn pre_tokenizer(&self) -> Value {
        let split =
            |pattern| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
        let steps: Vec<Value> = self.patterns.iter().map(split).chain([bytes]).collect();
        json!({"type": "Sequence", "pretokenizers": steps})
    }
}
