//! What a session must know of a program.
//!
//! Exporters write facts into a program as constant methods ([`PartialMetadata::from_constants`]). What they leave out comes from a sidecar
//! file ([`PartialMetadata::from_sidecar`]), from flags, from the shapes of the method, or from the tokenizer:
//!
//! ```
//! use pteron_llm::PartialMetadata;
//! use pteron_llm::metadata::Constant;
//!
//! let program = PartialMetadata::from_constants([("get_max_seq_len", vec![Constant::Int(128)]), ("use_kv_cache", vec![Constant::Bool(true)])])?;
//! let shapes = PartialMetadata { max_prefill: Some(127), vocab_size: Some(512), dynamic_shape: Some(true), ..PartialMetadata::default() };
//! let sidecar = PartialMetadata::from_sidecar(br#"{"eos_ids": [2]}"#)?;
//! let metadata = sidecar.or(shapes).or(program).resolve()?;
//! assert_eq!((metadata.context_length, metadata.max_prefill, metadata.eos_ids), (128, 127, vec![2]));
//! # Ok::<(), pteron_llm::MetadataError>(())
//! ```

use pteron_format::EscapedText;
use serde::{Deserialize, Serialize};

use crate::tokenizer::{TokenId, Tokenizer};

/// What a session must know of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    /// How many tokens prompt and answer can have together.
    pub context_length: u32,
    /// How many tokens one call takes at most; never more than the context has.
    pub max_prefill: u32,
    /// How many logits there are.
    pub vocab_size: u32,
    /// The token that starts a text.
    pub bos_id: Option<TokenId>,
    /// Tokens that end a text; may be none.
    pub eos_ids: Vec<TokenId>,
    /// Whether the program remembers earlier tokens.
    pub kv_cache: bool,
    /// Whether a call may have fewer tokens than the program was exported with.
    pub dynamic_shape: bool,
}

/// PartialMetadata about a program from one source; any may be missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PartialMetadata {
    /// See [`Metadata::context_length`].
    pub context_length: Option<u32>,
    /// See [`Metadata::max_prefill`].
    pub max_prefill: Option<u32>,
    /// See [`Metadata::vocab_size`].
    pub vocab_size: Option<u32>,
    /// See [`Metadata::bos_id`].
    pub bos_id: Option<TokenId>,
    /// See [`Metadata::eos_ids`].
    pub eos_ids: Option<Vec<TokenId>>,
    /// See [`Metadata::kv_cache`].
    pub kv_cache: Option<bool>,
    /// See [`Metadata::dynamic_shape`].
    pub dynamic_shape: Option<bool>,
}

/// One value that a constant method answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constant {
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// Anything else.
    Other,
}

/// A fact that is missing or wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// A fact that no source gives.
    #[error(
        "the program does not say its {what}: put {key:?} into pteron.json, give --{flag}, or export the method {method}"
    )]
    Missing {
        /// The fact in words.
        what: &'static str,
        /// Its name in the sidecar.
        key: &'static str,
        /// Its flag.
        flag: &'static str,
        /// The constant method that would say it.
        method: &'static str,
    },
    /// A constant method that answers something else than it should.
    #[error("the program's method {method} should answer {expected}: correct it with {key:?} in pteron.json")]
    Constant {
        /// The method.
        method: &'static str,
        /// What it should answer.
        expected: &'static str,
        /// The name of the fact in the sidecar.
        key: &'static str,
    },
    /// A sidecar that cannot be read.
    #[error("pteron.json: {}", EscapedText::sentence(.0))]
    Sidecar(String),
    /// A fact that cannot be.
    #[error("{key} is {value}, but must be {expected}: correct it in pteron.json or with its flag")]
    Impossible {
        /// The name of the fact.
        key: &'static str,
        /// Its value.
        value: u32,
        /// What is possible.
        expected: String,
    },
    /// A tokenizer with more tokens than the program has logits.
    #[error(
        "the tokenizer has {tokenizer} tokens, but the program has logits for {program}: use the tokenizer that the model was \
         exported with"
    )]
    Vocabulary {
        /// How many the tokenizer has.
        tokenizer: u32,
        /// How many the program has.
        program: u32,
    },
}

/// A fact, where it is known under several names.
struct Name {
    method: &'static str,
    key: &'static str,
}

const CONTEXT: Name = Name { method: "get_max_context_len", key: "context_length" };
const PREFILL: Name = Name { method: "get_max_seq_len", key: "max_prefill" };
const VOCABULARY: Name = Name { method: "get_vocab_size", key: "vocab_size" };
const BOS: Name = Name { method: "get_bos_id", key: "bos_id" };
const EOS: Name = Name { method: "get_eos_ids", key: "eos_ids" };
const CACHE: Name = Name { method: "use_kv_cache", key: "kv_cache" };
const DYNAMIC: Name = Name { method: "enable_dynamic_shape", key: "dynamic_shape" };

impl Name {
    fn missing(&self, what: &'static str, flag: &'static str) -> MetadataError {
        MetadataError::Missing { what, key: self.key, flag, method: self.method }
    }

    fn wrong(&self, expected: &'static str) -> MetadataError {
        MetadataError::Constant { method: self.method, expected, key: self.key }
    }

    fn number(&self, values: &[Constant]) -> Result<u32, MetadataError> {
        let number = match values {
            [Constant::Int(number)] => u32::try_from(*number).ok(),
            _ => None,
        };
        number.ok_or_else(|| self.wrong("one number that is not negative"))
    }

    fn flag(&self, values: &[Constant]) -> Result<bool, MetadataError> {
        match values {
            [Constant::Bool(flag)] => Ok(*flag),
            [Constant::Int(flag @ 0..=1)] => Ok(*flag == 1),
            _ => Err(self.wrong("true or false")),
        }
    }

    /// Token ids. Exporters write -1 where there is none.
    fn tokens(&self, values: &[Constant]) -> Result<Vec<TokenId>, MetadataError> {
        let present = values.iter().filter(|value| **value != Constant::Int(-1));
        present.map(|value| self.number(std::slice::from_ref(value))).collect()
    }
}

impl PartialMetadata {
    /// What the constant methods of a program say, each given by its name and what it answers. Others are left out.
    ///
    /// # Errors
    /// A method whose answer makes no sense.
    pub fn from_constants<'a>(methods: impl IntoIterator<Item = (&'a str, Vec<Constant>)>) -> Result<Self, MetadataError> {
        let mut facts = Self::default();
        for (method, values) in methods {
            match method {
                "get_max_context_len" => facts.context_length = Some(CONTEXT.number(&values)?),
                "get_max_seq_len" => facts.max_prefill = Some(PREFILL.number(&values)?),
                "get_vocab_size" => facts.vocab_size = Some(VOCABULARY.number(&values)?),
                "get_bos_id" => facts.bos_id = BOS.tokens(&values)?.first().copied(),
                "get_eos_ids" | "get_eos_id" => facts.eos_ids = Some(EOS.tokens(&values)?),
                "use_kv_cache" => facts.kv_cache = Some(CACHE.flag(&values)?),
                "enable_dynamic_shape" => facts.dynamic_shape = Some(DYNAMIC.flag(&values)?),
                _ => {}
            }
        }
        // Older exporters know one length, which is both.
        facts.context_length = facts.context_length.or(facts.max_prefill);
        Ok(facts)
    }

    /// What a sidecar says: a JSON object with any of the names of the fields.
    ///
    /// # Errors
    /// Bytes that are no such object. Names that are not known are errors, too, since they are most likely misspelled.
    pub fn from_sidecar(json: &[u8]) -> Result<Self, MetadataError> {
        serde_json::from_slice(json).map_err(|error| MetadataError::Sidecar(error.to_string()))
    }

    /// These facts, completed by others. Flags come first, then the sidecar, then what the method's shapes say, then the
    /// program's constants.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            context_length: self.context_length.or(other.context_length),
            max_prefill: self.max_prefill.or(other.max_prefill),
            vocab_size: self.vocab_size.or(other.vocab_size),
            bos_id: self.bos_id.or(other.bos_id),
            eos_ids: self.eos_ids.or(other.eos_ids),
            kv_cache: self.kv_cache.or(other.kv_cache),
            dynamic_shape: self.dynamic_shape.or(other.dynamic_shape),
        }
    }

    /// These facts, completed by what the tokenizer says of the start and the end of texts.
    #[must_use]
    pub fn or_tokenizer(self, tokenizer: &Tokenizer) -> Self {
        let eos_ids = tokenizer.eos().map(|eos| vec![eos]);
        self.or(Self { bos_id: tokenizer.bos(), eos_ids, ..Self::default() })
    }

    /// All that a session must know.
    ///
    /// # Errors
    /// A fact that is missing, or cannot be.
    pub fn resolve(self) -> Result<Metadata, MetadataError> {
        let context_length = self.context_length.ok_or_else(|| CONTEXT.missing("context length", "context-length"))?;
        let max_prefill = self.max_prefill.ok_or_else(|| PREFILL.missing("longest input", "max-prefill"))?;
        let vocab_size = self.vocab_size.ok_or_else(|| VOCABULARY.missing("vocabulary's size", "vocab-size"))?;
        for (name, value) in [(CONTEXT, context_length), (PREFILL, max_prefill), (VOCABULARY, vocab_size)] {
            at_least(&name, value, 1)?;
        }
        let eos_ids = self.eos_ids.unwrap_or_default();
        for (name, id) in self.bos_id.iter().map(|id| (BOS, *id)).chain(eos_ids.iter().map(|id| (EOS, *id))) {
            if id >= vocab_size {
                let expected = format!("smaller than the {vocab_size} tokens of the vocabulary");
                return Err(MetadataError::Impossible { key: name.key, value: id, expected });
            }
        }
        Ok(Metadata {
            context_length,
            max_prefill: max_prefill.min(context_length),
            vocab_size,
            bos_id: self.bos_id,
            eos_ids,
            kv_cache: self.kv_cache.ok_or_else(|| CACHE.missing("use of a KV cache", "kv-cache"))?,
            dynamic_shape: self.dynamic_shape.ok_or_else(|| DYNAMIC.missing("freedom of shapes", "dynamic-shape"))?,
        })
    }
}

fn at_least(name: &Name, value: u32, least: u32) -> Result<(), MetadataError> {
    if value >= least {
        return Ok(());
    }
    Err(MetadataError::Impossible { key: name.key, value, expected: format!("{least} or more") })
}

impl Metadata {
    /// Checks that the program has a logit for each token.
    ///
    /// # Errors
    /// A tokenizer with more tokens. Fewer are allowed: many models have logits to spare.
    pub fn check_tokenizer(&self, tokenizer: &Tokenizer) -> Result<(), MetadataError> {
        let (tokenizer, program) = (tokenizer.vocab_size(), self.vocab_size);
        if tokenizer > program { Err(MetadataError::Vocabulary { tokenizer, program }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> PartialMetadata {
        PartialMetadata {
            context_length: Some(2048),
            max_prefill: Some(128),
            vocab_size: Some(512),
            kv_cache: Some(true),
            dynamic_shape: Some(true),
            ..PartialMetadata::default()
        }
    }

    #[test]
    fn constants_of_an_exported_llama_are_understood() {
        let int = |value| vec![Constant::Int(value)];
        let facts = PartialMetadata::from_constants([
            ("get_max_seq_len", int(128)),
            ("get_max_context_len", int(2048)),
            ("get_vocab_size", int(128_256)),
            ("get_bos_id", int(128_000)),
            ("get_eos_ids", vec![Constant::Int(128_009), Constant::Int(128_001)]),
            ("use_kv_cache", vec![Constant::Bool(true)]),
            ("enable_dynamic_shape", int(1)),
            ("get_n_layers", vec![Constant::Other]),
        ]);
        let expected = Metadata {
            context_length: 2048,
            max_prefill: 128,
            vocab_size: 128_256,
            bos_id: Some(128_000),
            eos_ids: vec![128_009, 128_001],
            kv_cache: true,
            dynamic_shape: true,
        };
        assert_eq!(facts.unwrap().resolve().unwrap(), expected);
    }

    #[test]
    fn names_from_a_sidecar_are_cut_and_escaped() {
        for name in ["a\\n\\u001b[2J".to_owned(), "long".repeat(100_000)] {
            let error = PartialMetadata::from_sidecar(format!("{{\"{name}\": 1}}").as_bytes()).unwrap_err().to_string();
            assert!(error.chars().count() < 500 && !error.chars().any(char::is_control), "{error:?}");
        }
    }

    #[test]
    fn one_length_serves_for_both_and_no_token_is_none() {
        let facts = PartialMetadata::from_constants([
            ("get_max_seq_len", vec![Constant::Int(64)]),
            ("get_bos_id", vec![Constant::Int(-1)]),
            ("get_eos_ids", vec![Constant::Int(-1)]),
        ]);
        let expected = PartialMetadata {
            context_length: Some(64),
            max_prefill: Some(64),
            eos_ids: Some(vec![]),
            ..PartialMetadata::default()
        };
        assert_eq!(facts.unwrap(), expected);
    }

    #[test]
    fn wrong_constants_are_named() {
        for (method, values) in [
            ("get_max_seq_len", vec![Constant::Int(-5)]),
            ("get_max_context_len", vec![Constant::Int(1 << 40)]),
            ("get_vocab_size", vec![]),
            ("get_bos_id", vec![Constant::Bool(true)]),
            ("get_eos_ids", vec![Constant::Int(1), Constant::Int(-7)]),
            ("use_kv_cache", vec![Constant::Int(2)]),
            ("enable_dynamic_shape", vec![Constant::Other]),
        ] {
            let error = PartialMetadata::from_constants([(method, values)]).unwrap_err().to_string();
            assert!(error.contains(method) && error.contains("pteron.json"), "{error}");
        }
    }

    #[test]
    fn the_first_source_that_knows_a_fact_wins() {
        let sidecar = PartialMetadata::from_sidecar(br#"{"context_length": 4096, "eos_ids": [3]}"#).unwrap();
        let metadata = sidecar.or(whole()).resolve().unwrap();
        assert_eq!((metadata.context_length, metadata.max_prefill, metadata.eos_ids), (4096, 128, vec![3]));
        let error = PartialMetadata::from_sidecar(br#"{"context_lenght": 1}"#).unwrap_err().to_string();
        assert!(error.contains("pteron.json") && error.contains("context_lenght") && error.contains("line 1"), "{error}");
    }

    #[test]
    fn a_missing_fact_is_named_with_the_ways_to_give_it() {
        let error = PartialMetadata { context_length: None, ..whole() }.resolve().unwrap_err();
        assert_eq!(
            error.to_string(),
            "the program does not say its context length: put \"context_length\" into pteron.json, give --context-length, \
             or export the method get_max_context_len"
        );
        for facts in [
            PartialMetadata { max_prefill: None, ..whole() },
            PartialMetadata { vocab_size: None, ..whole() },
            PartialMetadata { kv_cache: None, ..whole() },
            PartialMetadata { dynamic_shape: None, ..whole() },
        ] {
            assert!(matches!(facts.resolve(), Err(MetadataError::Missing { .. })));
        }
    }

    #[test]
    fn impossible_facts_are_refused_and_long_inputs_cut() {
        let error = |facts: PartialMetadata| facts.resolve().unwrap_err().to_string();
        assert!(
            error(PartialMetadata { context_length: Some(0), ..whole() })
                .starts_with("context_length is 0, but must be 1 or more")
        );
        assert!(
            error(PartialMetadata { bos_id: Some(512), ..whole() })
                .starts_with("bos_id is 512, but must be smaller than the 512")
        );
        assert!(error(PartialMetadata { eos_ids: Some(vec![1, 999]), ..whole() }).starts_with("eos_ids is 999"));
        let facts = PartialMetadata { max_prefill: Some(9999), ..whole() };
        assert_eq!(facts.resolve().unwrap().max_prefill, 2048);
    }

    #[test]
    fn a_tokenizer_must_fit_and_can_help() {
        // 320 tokens and 256 special ones.
        let tokenizer = Tokenizer::from_bytes(include_bytes!("../tests/data/tiktoken.model")).unwrap();
        let facts = PartialMetadata { vocab_size: Some(600), ..whole() };
        let metadata = facts.or_tokenizer(&tokenizer).resolve().unwrap();
        assert_eq!((metadata.bos_id, metadata.eos_ids.as_slice()), (Some(320), [321].as_slice()));
        assert!(metadata.check_tokenizer(&tokenizer).is_ok());
        let small = Metadata { vocab_size: 300, ..metadata };
        let error = small.check_tokenizer(&tokenizer).unwrap_err().to_string();
        assert!(error.starts_with("the tokenizer has 576 tokens, but the program has logits for 300:"), "{error}");
    }
}
