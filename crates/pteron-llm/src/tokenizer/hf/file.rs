//! `tokenizer.json` as types. Only the parts that are used, each checked before the `tokenizers` crate sees it: that crate
//! trusts its files.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::{AddedToken, ModelWrapper};

/// Ids are smaller. No vocabulary is near it.
pub(super) const MAX_ID: u32 = 1 << 24;
/// The longest token of a unigram model: the crate takes a level of recursion for each byte.
const MAX_UNIGRAM_TOKEN: usize = 1024;

/// The file. What is not named here (padding, truncation) is for training and is left out.
#[derive(Deserialize)]
pub(super) struct File {
    version: Option<String>,
    #[serde(default)]
    pub(super) added_tokens: Vec<Added>,
    pub(super) normalizer: Option<Value>,
    pub(super) pre_tokenizer: Option<Value>,
    pub(super) post_processor: Option<Value>,
    pub(super) decoder: Option<Value>,
    pub(super) model: Model,
}

/// A token beside the model's own.
#[derive(Deserialize)]
pub(super) struct Added {
    pub(super) id: u32,
    #[serde(flatten)]
    pub(super) token: AddedToken,
}

#[derive(Deserialize)]
pub(super) struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    vocab: Vocabulary,
    merges: Option<Vec<Merge>>,
    unk_token: Option<String>,
    unk_id: Option<usize>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    fuse_unk: bool,
    #[serde(default)]
    ignore_merges: bool,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
}

/// Tokens with their ids, or in the order of their ids with scores.
enum Vocabulary {
    Ids(Vocab),
    Scores(Vec<(String, f64)>),
}

/// Two tokens, or both in one string with a space between them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Pair((String, String)),
    Line(String),
}

impl File {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let file: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match file.version.as_deref() {
            None | Some("1.0") => Ok(file),
            Some(version) => Err(format!("its version is {version:?}, and only \"1.0\" is known")),
        }
    }
}

impl Model {
    /// One more than the largest id.
    pub(super) fn id_bound(&self) -> Result<u32, String> {
        let bound = match &self.vocab {
            Vocabulary::Ids(vocab) => vocab.values().max().map_or(Some(0), |max| max.checked_add(1)),
            Vocabulary::Scores(vocab) => u32::try_from(vocab.len()).ok(),
        };
        bound.filter(|&bound| bound <= MAX_ID).ok_or_else(|| format!("a token's id is larger than {MAX_ID}"))
    }

    pub(super) fn build(self) -> Result<ModelWrapper, String> {
        let kind = self.kind.clone().or_else(|| self.merges.as_ref().map(|_| "BPE".to_owned()));
        match kind.as_deref() {
            Some("BPE") => self.build_bpe(),
            Some("Unigram") => self.build_unigram(),
            Some("WordLevel") => self.build_words(),
            Some(kind) => Err(format!("its model is of type {kind:?}; those that work are BPE, Unigram and WordLevel")),
            None => Err("its model has no type".to_owned()),
        }
    }

    fn build_bpe(self) -> Result<ModelWrapper, String> {
        if self.continuing_subword_prefix.is_some_and(|prefix| !prefix.is_empty()) {
            return Err("a continuing_subword_prefix in a BPE model is not supported".to_owned());
        }
        let vocab = self.vocab.ids()?;
        let mut merges = Vec::new();
        for (number, merge) in self.merges.unwrap_or_default().into_iter().enumerate() {
            let (left, right) = merge.pair().ok_or_else(|| format!("merge {number} does not have two parts"))?;
            let known = |token: &str| vocab.contains_key(token);
            if !known(&left) || !known(&right) || !known(&format!("{left}{right}")) {
                return Err(format!("merge {number} ({left:?} and {right:?}) has a part or a result that is no token"));
            }
            merges.push((left, right));
        }
        if let Some(unknown) = self.unk_token.as_ref().filter(|token| !vocab.contains_key(*token)) {
            return Err(format!("its unknown token {unknown:?} is no token"));
        }
        let mut builder = BPE::builder()
            .vocab_and_merges(vocab, merges)
            .byte_fallback(self.byte_fallback)
            .fuse_unk(self.fuse_unk)
            .ignore_merges(self.ignore_merges)
            // Its cache outlives the tokenizer.
            .cache_capacity(0);
        if let Some(unknown) = self.unk_token {
            builder = builder.unk_token(unknown);
        }
        if let Some(suffix) = self.end_of_word_suffix {
            builder = builder.end_of_word_suffix(suffix);
        }
        builder.build().map(ModelWrapper::BPE).map_err(|error| error.to_string())
    }

    fn build_unigram(self) -> Result<ModelWrapper, String> {
        let Vocabulary::Scores(vocab) = self.vocab else {
            return Err("its Unigram model has no list of tokens with scores".to_owned());
        };
        let mut seen = HashSet::new();
        for (token, _) in &vocab {
            if token.len() > MAX_UNIGRAM_TOKEN {
                return Err(format!("a token has more than {MAX_UNIGRAM_TOKEN} bytes"));
            }
            if !seen.insert(token) {
                return Err(format!("the token {token:?} is there twice"));
            }
        }
        let model = Unigram::from(vocab, self.unk_id, self.byte_fallback);
        model.map(ModelWrapper::Unigram).map_err(|error| error.to_string())
    }

    fn build_words(self) -> Result<ModelWrapper, String> {
        let mut builder = WordLevel::builder().vocab(self.vocab.ids()?);
        if let Some(unknown) = self.unk_token {
            builder = builder.unk_token(unknown);
        }
        builder.build().map(ModelWrapper::WordLevel).map_err(|error| error.to_string())
    }
}

impl Merge {
    fn pair(self) -> Option<(String, String)> {
        match self {
            Self::Pair(pair) => Some(pair),
            Self::Line(line) => {
                let (left, right) = line.split_once(' ')?;
                (!right.contains(' ')).then(|| (left.to_owned(), right.to_owned()))
            }
        }
    }
}

impl Vocabulary {
    /// The ids, each of which must belong to one token.
    fn ids(self) -> Result<Vocab, String> {
        let Self::Ids(vocab) = self else {
            return Err("its model has no table of tokens with ids".to_owned());
        };
        let mut seen = HashSet::new();
        match vocab.values().find(|id| !seen.insert(**id)) {
            Some(id) => Err(format!("two tokens have the id {id}")),
            None => Ok(vocab),
        }
    }
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Vocabulary;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tokens with ids, or a list of tokens with scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocabulary, A::Error> {
                let mut vocab = Vocab::default();
                while let Some((token, id)) = map.next_entry::<String, u32>()? {
                    if vocab.insert(token, id).is_some() {
                        return Err(A::Error::custom(format!("the token with the id {id} is there twice")));
                    }
                }
                Ok(Vocabulary::Ids(vocab))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocabulary, A::Error> {
                let mut vocab = Vec::new();
                while let Some(entry) = list.next_element()? {
                    vocab.push(entry);
                }
                Ok(Vocabulary::Scores(vocab))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
