//! How byte-level tokenizers cut a text before they look for tokens: a table by the names that files use.

use serde_json::{Value, json};

/// A way to cut texts, and what comes with it.
#[derive(Debug)]
pub(super) struct Cut {
    /// Its names in `tokenizer.ggml.pre`.
    names: &'static [&'static str],
    /// Each cuts what the ones before it have left, into what it matches and what lies between.
    patterns: &'static [&'static str],
    /// Whether characters are composed first.
    composed: bool,
    /// Whether a part that is a token is one, however it could be merged.
    pub(super) whole: bool,
    /// Whether texts begin with a token of their own if the file does not say.
    pub(super) begins: bool,
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

static CUTS: [Cut; 8] = [
    Cut {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "midm-2.0"],
        patterns: &[LLAMA_3],
        composed: false,
        whole: true,
        begins: true,
    },
    Cut { names: &["smaug-bpe", "dbrx"], patterns: &[LLAMA_3], composed: false, whole: false, begins: false },
    Cut { names: &["qwen2"], patterns: &[QWEN_2], composed: true, whole: false, begins: false },
    Cut {
        names: &["deepseek-r1-qwen", "megrez", "stablelm2"],
        patterns: &[QWEN_2],
        composed: false,
        whole: false,
        begins: false,
    },
    Cut {
        names: &["smollm", "starcoder", "refact", "codeshell", "minerva-7b"],
        patterns: &[r"\p{N}", GPT_2],
        composed: false,
        whole: false,
        begins: false,
    },
    Cut { names: &["tekken"], patterns: &[TEKKEN], composed: false, whole: true, begins: true },
    Cut {
        names: &["gpt-2", "phi-2", "olmo", "mpt", "gigachat", "mellum", "a.x-4.0", "trillion"],
        patterns: &[GPT_2],
        composed: false,
        whole: false,
        begins: false,
    },
    // From before ways to cut had names.
    Cut {
        names: &["default"],
        patterns: &[r"[\p{P}\$\+<=>\^~\|]+", GPT_2, r"\p{N}+", "[0-9][0-9][0-9]"],
        composed: false,
        whole: false,
        begins: false,
    },
];

/// The way to cut that has this name.
pub(super) fn find(name: &str) -> Option<&'static Cut> {
    CUTS.iter().find(|cut| cut.names.contains(&name))
}

/// Every name that is known.
pub(super) fn names() -> Vec<String> {
    CUTS.iter().flat_map(|cut| cut.names).map(|&name| name.to_owned()).collect()
}

impl Cut {
    pub(super) fn normalizer(&self) -> Value {
        if self.composed { json!({"type": "NFC"}) } else { Value::Null }
    }

    pub(super) fn pre_tokenizer(&self) -> Value {
        let split =
            |pattern| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
        let steps: Vec<Value> = self.patterns.iter().map(split).chain([bytes]).collect();
        json!({"type": "Sequence", "pretokenizers": steps})
    }
}
