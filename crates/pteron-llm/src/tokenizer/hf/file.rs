//! `tokenizer.json` as types: only the parts in use, each checked before it is converted.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::added::AddedToken;
use super::model::{Bpe, Model, Unigram, Vocabulary};
use crate::tokenizer::MAX_TOKEN;
use crate::tokenizer::vocabulary::{TokenBytes, TokenIndex};

/// Ids are smaller. No vocabulary is near it.
const MAX_ID: u32 = 1 << 24;

/// The file. Fields that are not listed here (padding, truncation) are for training and are ignored.
#[derive(Deserialize)]
pub(super) struct File {
    version: Option<String>,
    #[serde(default)]
    pub(super) added_tokens: Vec<AddedToken>,
    pub(super) normalizer: Option<Value>,
    pub(super) pre_tokenizer: Option<Value>,
    pub(super) post_processor: Option<Value>,
    pub(super) decoder: Option<Value>,
    pub(super) model: ModelPart,
}

#[derive(Deserialize)]
pub(super) struct ModelPart {
    #[serde(rename = "type")]
    kind: Option<String>,
    vocab: Entries,
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
enum Entries {
    Ids(Vec<(String, u32)>),
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

impl ModelPart {
    pub(super) fn build(self) -> Result<(Vocabulary, Model), String> {
        let vocabulary = self.vocab.vocabulary()?;
        let unknown = match &self.unk_token {
            Some(token) => Some(vocabulary.id(token).ok_or_else(|| format!("its unknown token {token:?} is no token"))?),
            None => None,
        };
        let kind = self.kind.as_deref().or_else(|| self.merges.as_ref().map(|_| "BPE"));
        let model = match (kind, &self.vocab) {
            (Some("BPE"), Entries::Ids(_)) => self.bpe(&vocabulary, unknown)?,
            (Some("WordLevel"), Entries::Ids(_)) => Model::Words { unknown },
            (Some("BPE" | "WordLevel"), _) => return Err("its model has no table of tokens with ids".to_owned()),
            (Some("Unigram"), Entries::Scores(scores)) => self.unigram(scores)?,
            (Some("Unigram"), _) => return Err("its Unigram model has no list of tokens with scores".to_owned()),
            (Some(kind), _) => {
                return Err(format!("its model is of type {kind:?}; those that work are BPE, Unigram and WordLevel"));
            }
            (None, _) => return Err("its model has no type".to_owned()),
        };
        Ok((vocabulary, model))
    }

    fn bpe(&self, vocabulary: &Vocabulary, unknown: Option<u32>) -> Result<Model, String> {
        if self.continuing_subword_prefix.as_ref().is_some_and(|prefix| !prefix.is_empty()) {
            return Err("a continuing_subword_prefix in a BPE model is not supported".to_owned());
        }
        let suffix = self.end_of_word_suffix.clone().filter(|suffix| !suffix.is_empty());
        if suffix.as_ref().is_some_and(|suffix| suffix.len() > MAX_TOKEN) {
            return Err(format!("its end_of_word_suffix has more than {MAX_TOKEN} bytes"));
        }
        let mut bpe = Bpe {
            unknown,
            fuse_unknown: self.fuse_unk,
            suffix,
            byte_fallback: self.byte_fallback,
            whole: self.ignore_merges,
            ..Bpe::default()
        };
        let mut merged = String::new();
        for (rank, merge) in (0u32..).zip(self.merges.iter().flatten()) {
            let (left, right) = merge.pair().ok_or_else(|| format!("merge {rank} does not have two parts"))?;
            merged.clear();
            merged.push_str(left);
            merged.push_str(right);
            let ids = (vocabulary.id(left), vocabulary.id(right), vocabulary.id(&merged));
            let (Some(first), Some(second), Some(result)) = ids else {
                let (left, right) = (shown(left), shown(right));
                return Err(format!("merge {rank} ({left:?} and {right:?}) has a part or a result that is no token"));
            };
            bpe.merges.insert((first, second), (rank, result));
        }
        Ok(Model::Bpe(bpe))
    }

    fn unigram(&self, scores: &[(String, f64)]) -> Result<Model, String> {
        let mut tokens = TokenBytes::default();
        scores.iter().for_each(|(token, _)| tokens.push(token.as_bytes()));
        let index = TokenIndex::new(&tokens, tokens.ids())
            .map_err(|(_, id)| format!("the token with the id {id} is there twice"))?;
        let unknown = self.unk_id.map(|id| u32::try_from(id).ok().filter(|_| id < scores.len()));
        if unknown == Some(None) {
            return Err("its unk_id is larger than the vocabulary".to_owned());
        }
        let scores = scores.iter().map(|(_, score)| *score).collect();
        Ok(Model::Unigram(Unigram { tokens, index, scores, unknown: unknown.flatten(), byte_fallback: self.byte_fallback }))
    }
}

/// The start of a name, for a message.
fn shown(name: &str) -> String {
    name.chars().take(64).collect()
}

impl Merge {
    fn pair(&self) -> Option<(&str, &str)> {
        match self {
            Self::Pair((left, right)) => Some((left, right)),
            Self::Line(line) => line.split_once(' ').filter(|(_, right)| !right.contains(' ')),
        }
    }
}

impl Entries {
    fn vocabulary(&self) -> Result<Vocabulary, String> {
        let mut vocabulary = Vocabulary::default();
        let mut insert = |token: &str, id: u32| {
            if token.len() > MAX_TOKEN {
                return Err(format!("the token with the id {id} has more than {MAX_TOKEN} bytes"));
            }
            if id >= MAX_ID {
                return Err(format!("a token's id is larger than {MAX_ID}"));
            }
            vocabulary.insert(token, id)
        };
        match self {
            Self::Ids(entries) => entries.iter().try_for_each(|(token, id)| insert(token, *id))?,
            Self::Scores(entries) => (0..).zip(entries).try_for_each(|(id, (token, _))| insert(token, id))?,
        }
        Ok(vocabulary)
    }
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tokens with ids, or a list of tokens with scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries::Ids(entries))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element()? {
                    entries.push(entry);
                }
                Ok(Entries::Scores(entries))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
