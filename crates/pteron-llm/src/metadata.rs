//! Model metadata: context length, vocabulary size and special tokens.
//!
//! Exporters write metadata into a program as constant methods ([`PartialMetadata::from_constants`]). The rest comes from a sidecar
//! file ([`PartialMetadata::from_sidecar`]), from flags, from the shapes of the method, or from the tokenizer:
//!
//! ```
//! use pteron_llm::PartialMetadata;
//! use pteron_llm::metadata::Constant;
//!
//! let program = PartialMetadata::from_constants([("get_max_seq_len", vec![Constant::Int(128)]), ("use_kv_cache", vec![Constant::Bool(true)])])?;
//! let sidecar = PartialMetadata::from_sidecar(br#"{"eos_ids": [2], "vocab_size": 512, "max_prefill": 127, "dynamic_shape": true}"#)?;
//! let metadata = sidecar.or(program).resolve()?;
//! assert_eq!((metadata.context_length, metadata.max_prefill, metadata.eos_ids), (128, 127, vec![2]));
//! # Ok::<(), pteron_llm::MetadataError>(())
//! ```

use pteron_format::EscapedText;
use serde::{Deserialize, Serialize};

use crate::tokenizer::{TokenId, Tokenizer};

/// The metadata of a model, complete and checked.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metadata {
    /// The number of positions in the KV cache: the most tokens of a prompt with its reply.
    pub context_length: u32,
    /// The most tokens of one call; at most the context length.
    pub max_prefill: u32,
    /// The number of logits per position.
    pub vocab_size: u32,
    /// The beginning-of-sequence token.
    pub bos_id: Option<TokenId>,
    /// The end-of-sequence tokens; may be empty.
    pub eos_ids: Vec<TokenId>,
    /// Whether the program keeps keys and values of earlier tokens.
    pub kv_cache: bool,
    /// Whether a call may have fewer tokens than `max_prefill`.
    pub dynamic_shape: bool,
}

/// Metadata from one source, which need not be complete.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
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

/// A value that a constant method returns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constant {
    /// An integer.
    Int(i64),
    /// A boolean.
    Bool(bool),
    /// Anything else.
    Other,
}

/// Metadata that is missing or invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// A field that no source states.
    #[error(
        "the program does not state its {what}: put {key:?} into pteron.json, give --{flag}, or export the method {method}"
    )]
    Missing {
        /// The field, in words.
        what: &'static str,
        /// Its name in the sidecar.
        key: &'static str,
        /// Its flag.
        flag: &'static str,
        /// The constant method that would state it.
        method: &'static str,
    },
    /// A constant method with an invalid value.
    #[error("the program's method {method} must return {expected}: correct it with {key:?} in pteron.json")]
    Constant {
        /// The method.
        method: &'static str,
        /// The values that are valid.
        expected: &'static str,
        /// The field's name in the sidecar.
        key: &'static str,
    },
    /// A sidecar that is malformed.
    #[error("pteron.json: {}", EscapedText::sentence(.0))]
    Sidecar(String),
    /// A `generation_config.json` that is malformed.
    #[error("generation_config.json: {}", EscapedText::sentence(.0))]
    GenerationConfig(String),
    /// A field whose value is out of range.
    #[error("{key} is {value}, but must be {expected}: correct it in pteron.json or with its flag")]
    OutOfRange {
        /// The field.
        key: &'static str,
        /// Its value.
        value: u32,
        /// The values that are valid.
        expected: String,
    },
    /// A tokenizer with more tokens than the program has logits.
    #[error(
        "the tokenizer has {tokenizer} tokens, but the program has logits for {program}: use the tokenizer that the model was \
         exported with"
    )]
    Vocabulary {
        /// The tokenizer's vocabulary size.
        tokenizer: u32,
        /// The number of the program's logits.
        program: u32,
    },
}

/// The names of a field: as a constant method and in the sidecar.
struct FieldNames {
    method: &'static str,
    key: &'static str,
}

const CONTEXT: FieldNames = FieldNames { method: "get_max_context_len", key: "context_length" };
const PREFILL: FieldNames = FieldNames { method: "get_max_seq_len", key: "max_prefill" };
const VOCABULARY: FieldNames = FieldNames { method: "get_vocab_size", key: "vocab_size" };
const BOS: FieldNames = FieldNames { method: "get_bos_id", key: "bos_id" };
const EOS: FieldNames = FieldNames { method: "get_eos_ids", key: "eos_ids" };
const CACHE: FieldNames = FieldNames { method: "use_kv_cache", key: "kv_cache" };
const DYNAMIC: FieldNames = FieldNames { method: "enable_dynamic_shape", key: "dynamic_shape" };

impl FieldNames {
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
    /// Reads the constant methods of a program, given by name with the values they return. Unknown methods are ignored.
    ///
    /// # Errors
    /// A method returns an invalid value.
    pub fn from_constants<'a>(methods: impl IntoIterator<Item = (&'a str, Vec<Constant>)>) -> Result<Self, MetadataError> {
        let mut metadata = Self::default();
        for (method, values) in methods {
            match method {
                "get_max_context_len" => metadata.context_length = Some(CONTEXT.number(&values)?),
                "get_max_seq_len" => metadata.max_prefill = Some(PREFILL.number(&values)?),
                "get_vocab_size" => metadata.vocab_size = Some(VOCABULARY.number(&values)?),
                "get_bos_id" => metadata.bos_id = BOS.tokens(&values)?.first().copied(),
                "get_eos_ids" | "get_eos_id" => metadata.eos_ids = Some(EOS.tokens(&values)?),
                "use_kv_cache" => metadata.kv_cache = Some(CACHE.flag(&values)?),
                "enable_dynamic_shape" => metadata.dynamic_shape = Some(DYNAMIC.flag(&values)?),
                _ => {}
            }
        }
        // Older exporters state one length for both.
        metadata.context_length = metadata.context_length.or(metadata.max_prefill);
        Ok(metadata)
    }

    /// Parses a sidecar: a JSON object with any of this type's fields.
    ///
    /// # Errors
    /// The bytes are not such an object, or it has an unknown field, which is most likely misspelled.
    pub fn from_sidecar(json: &[u8]) -> Result<Self, MetadataError> {
        serde_json::from_slice(json).map_err(|error| MetadataError::Sidecar(error.to_string()))
    }

    /// Reads the tokens that end a text from a `generation_config.json`, one or several. The rest of the file is ignored.
    ///
    /// # Errors
    /// The bytes are not a JSON object, or `eos_token_id` is neither a token nor a list of tokens.
    pub fn from_generation_config(json: &[u8]) -> Result<Self, MetadataError> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Ids {
            One(TokenId),
            Several(Vec<TokenId>),
        }
        #[derive(Deserialize)]
        struct Config {
            eos_token_id: Option<Ids>,
        }
        let config: Config =
            serde_json::from_slice(json).map_err(|error| MetadataError::GenerationConfig(error.to_string()))?;
        let eos_ids = config.eos_token_id.map(|ids| match ids {
            Ids::One(id) => vec![id],
            Ids::Several(ids) => ids,
        });
        Ok(Self { eos_ids, ..Self::default() })
    }

    /// Sets the context length.
    #[must_use]
    pub fn with_context_length(mut self, tokens: impl Into<Option<u32>>) -> Self {
        self.context_length = tokens.into();
        self
    }

    /// Sets the end-of-sequence tokens.
    #[must_use]
    pub fn with_eos_ids(mut self, ids: impl Into<Option<Vec<TokenId>>>) -> Self {
        self.eos_ids = ids.into();
        self
    }

    /// Sets the beginning-of-sequence token.
    #[must_use]
    pub fn with_bos_id(mut self, id: impl Into<Option<TokenId>>) -> Self {
        self.bos_id = id.into();
        self
    }

    /// Sets whether the program has a KV cache.
    #[must_use]
    pub fn with_kv_cache(mut self, kv_cache: impl Into<Option<bool>>) -> Self {
        self.kv_cache = kv_cache.into();
        self
    }

    /// Fills missing fields from another source. The order of precedence is: flags, sidecar, `generation_config.json`, shapes of the
    /// method, constant methods of the program.
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

    /// Fills missing start and end tokens from the tokenizer.
    #[must_use]
    pub fn or_tokenizer(self, tokenizer: &Tokenizer) -> Self {
        let eos_ids = tokenizer.eos().map(|eos| vec![eos]);
        self.or(Self { bos_id: tokenizer.bos(), eos_ids, ..Self::default() })
    }

    /// Checks the metadata for completeness.
    ///
    /// # Errors
    /// A field is missing or out of range.
    pub fn resolve(self) -> Result<Metadata, MetadataError> {
        let context_length = self.context_length.ok_or_else(|| CONTEXT.missing("context length", "context-length"))?;
        let max_prefill = self.max_prefill.ok_or_else(|| PREFILL.missing("longest input", "max-prefill"))?;
        let vocab_size = self.vocab_size.ok_or_else(|| VOCABULARY.missing("vocabulary size", "vocab-size"))?;
        for (name, value) in [(CONTEXT, context_length), (PREFILL, max_prefill), (VOCABULARY, vocab_size)] {
            at_least(&name, value, 1)?;
        }
        let eos_ids = self.eos_ids.unwrap_or_default();
        for (name, id) in self.bos_id.iter().map(|id| (BOS, *id)).chain(eos_ids.iter().map(|id| (EOS, *id))) {
            if id >= vocab_size {
                let expected = format!("smaller than the {vocab_size} tokens of the vocabulary");
                return Err(MetadataError::OutOfRange { key: name.key, value: id, expected });
            }
        }
        Ok(Metadata {
            context_length,
            max_prefill: max_prefill.min(context_length),
            vocab_size,
            bos_id: self.bos_id,
            eos_ids,
            kv_cache: self.kv_cache.ok_or_else(|| CACHE.missing("use of a KV cache", "kv-cache"))?,
            dynamic_shape: self.dynamic_shape.ok_or_else(|| DYNAMIC.missing("dynamic shape", "dynamic-shape"))?,
        })
    }
}

fn at_least(name: &FieldNames, value: u32, least: u32) -> Result<(), MetadataError> {
    if value >= least {
        return Ok(());
    }
    Err(MetadataError::OutOfRange { key: name.key, value, expected: format!("{least} or more") })
}

impl Metadata {
    /// Checks that the program has one logit per token.
    ///
    /// # Errors
    /// The tokenizer has more tokens than the program has logits. Fewer are fine: many models pad their vocabulary.
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
    fn constants_of_an_exported_llama_are_read() {
        let int = |value| vec![Constant::Int(value)];
        let metadata = PartialMetadata::from_constants([
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
        assert_eq!(metadata.unwrap().resolve().unwrap(), expected);
    }

    #[test]
    fn unknown_sidecar_fields_are_truncated_and_escaped_in_errors() {
        for name in ["a\\n\\u001b[2J".to_owned(), "long".repeat(100_000)] {
            let error = PartialMetadata::from_sidecar(format!("{{\"{name}\": 1}}").as_bytes()).unwrap_err().to_string();
            assert!(error.chars().count() < 500 && !error.chars().any(char::is_control), "{error:?}");
        }
    }

    #[test]
    fn max_seq_len_alone_sets_both_lengths_and_minus_one_means_no_token() {
        let metadata = PartialMetadata::from_constants([
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
        assert_eq!(metadata.unwrap(), expected);
    }

    #[test]
    fn invalid_constants_are_rejected_by_name() {
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
    fn the_first_source_that_states_a_field_wins() {
        let sidecar = PartialMetadata::from_sidecar(br#"{"context_length": 4096, "eos_ids": [3]}"#).unwrap();
        let metadata = sidecar.or(whole()).resolve().unwrap();
        assert_eq!((metadata.context_length, metadata.max_prefill, metadata.eos_ids), (4096, 128, vec![3]));
        let error = PartialMetadata::from_sidecar(br#"{"context_lenght": 1}"#).unwrap_err().to_string();
        assert!(error.contains("pteron.json") && error.contains("context_lenght") && error.contains("line 1"), "{error}");
    }

    #[test]
    fn a_generation_config_names_one_or_several_tokens() {
        let read = |json: &str| PartialMetadata::from_generation_config(json.as_bytes());
        assert_eq!(read(r#"{"eos_token_id": 2, "bos_token_id": 1, "top_p": 0.9}"#).unwrap().eos_ids, Some(vec![2]));
        assert_eq!(read(r#"{"eos_token_id": [151645, 151643]}"#).unwrap().eos_ids, Some(vec![151_645, 151_643]));
        assert_eq!(read("{}").unwrap(), PartialMetadata::default());
        for json in ["", "[]", r#"{"eos_token_id": "x"}"#, r#"{"eos_token_id": -1}"#] {
            assert!(read(json).unwrap_err().to_string().starts_with("generation_config.json: "), "{json}");
        }
    }

    #[test]
    fn a_missing_field_is_named_with_the_ways_to_set_it() {
        let error = PartialMetadata { context_length: None, ..whole() }.resolve().unwrap_err();
        assert_eq!(
            error.to_string(),
            "the program does not state its context length: put \"context_length\" into pteron.json, give --context-length, \
             or export the method get_max_context_len"
        );
        for metadata in [
            PartialMetadata { max_prefill: None, ..whole() },
            PartialMetadata { vocab_size: None, ..whole() },
            PartialMetadata { kv_cache: None, ..whole() },
            PartialMetadata { dynamic_shape: None, ..whole() },
        ] {
            assert!(matches!(metadata.resolve(), Err(MetadataError::Missing { .. })));
        }
    }

    #[test]
    fn out_of_range_fields_are_rejected_and_max_prefill_is_clamped() {
        let error = |metadata: PartialMetadata| metadata.resolve().unwrap_err().to_string();
        assert!(
            error(PartialMetadata { context_length: Some(0), ..whole() })
                .starts_with("context_length is 0, but must be 1 or more")
        );
        assert!(
            error(PartialMetadata { bos_id: Some(512), ..whole() })
                .starts_with("bos_id is 512, but must be smaller than the 512")
        );
        assert!(error(PartialMetadata { eos_ids: Some(vec![1, 999]), ..whole() }).starts_with("eos_ids is 999"));
        let metadata = PartialMetadata { max_prefill: Some(9999), ..whole() };
        assert_eq!(metadata.resolve().unwrap().max_prefill, 2048);
    }

    #[test]
    fn a_tokenizer_must_fit_and_can_help() {
        // 320 tokens and 256 special ones.
        let tokenizer = Tokenizer::from_bytes(include_bytes!("../tests/data/tiktoken.model")).unwrap();
        let metadata = PartialMetadata { vocab_size: Some(600), ..whole() };
        let metadata = metadata.or_tokenizer(&tokenizer).resolve().unwrap();
        assert_eq!((metadata.bos_id, metadata.eos_ids.as_slice()), (Some(320), [321].as_slice()));
        assert!(metadata.check_tokenizer(&tokenizer).is_ok());
        let small = Metadata { vocab_size: 300, ..metadata };
        let error = small.check_tokenizer(&tokenizer).unwrap_err().to_string();
        assert!(error.starts_with("the tokenizer has 576 tokens, but the program has logits for 300:"), "{error}");
    }
}
