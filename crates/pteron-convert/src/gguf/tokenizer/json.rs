//! `tokenizer.json`, as the `tokenizers` library reads it.

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::{Value, json};

use super::vocabulary::{Token, TokenType, Vocabulary};

/// The file.
#[derive(Serialize)]
pub(super) struct File<'a> {
    version: &'static str,
    truncation: (),
    padding: (),
    added_tokens: Vec<Added>,
    pub(super) normalizer: Value,
    pub(super) pre_tokenizer: Value,
    pub(super) post_processor: Value,
    pub(super) decoder: Value,
    pub(super) model: Model<'a>,
}

/// An added token, which is matched in a text before anything else.
#[derive(Serialize)]
struct Added {
    id: u32,
    content: String,
    single_word: bool,
    lstrip: bool,
    rstrip: bool,
    normalized: bool,
    special: bool,
}

/// Byte-pair encoding.
#[derive(Serialize)]
pub(super) struct Model<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    dropout: (),
    pub(super) unk_token: Option<&'a str>,
    continuing_subword_prefix: (),
    end_of_word_suffix: (),
    pub(super) fuse_unk: bool,
    pub(super) byte_fallback: bool,
    pub(super) ignore_merges: bool,
    #[serde(serialize_with = "as_map")]
    vocab: Vec<(String, u32)>,
    merges: Vec<(&'a str, &'a str)>,
}

fn as_map<S: Serializer>(tokens: &[(String, u32)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(tokens.iter().map(|(text, id)| (text, id)))
}

impl<'a> File<'a> {
    /// A file with these tokens and merges, `spell`ed as the texts in which they are found are, and nothing else.
    pub(super) fn new(
        vocabulary: &Vocabulary<'a>,
        merges: Vec<(&'a str, &'a str)>,
        spell: impl Fn(&Token<'a>) -> String,
    ) -> Self {
        let tokens = || vocabulary.tokens.iter().filter(|token| !token.text.is_empty());
        let added = tokens().filter_map(|token| {
            let special = match token.token_type {
                TokenType::Control | TokenType::Unknown => true,
                TokenType::UserDefined => false,
                TokenType::Normal | TokenType::Unused | TokenType::Byte => return None,
            };
            let content = spell(token);
            Some(Added {
                id: token.id,
                content,
                single_word: false,
                lstrip: false,
                rstrip: false,
                normalized: false,
                special,
            })
        });
        Self {
            version: "1.0",
            truncation: (),
            padding: (),
            added_tokens: added.collect(),
            normalizer: Value::Null,
            pre_tokenizer: Value::Null,
            post_processor: Value::Null,
            decoder: Value::Null,
            model: Model {
                kind: "BPE",
                dropout: (),
                unk_token: None,
                continuing_subword_prefix: (),
                end_of_word_suffix: (),
                fuse_unk: false,
                byte_fallback: false,
                ignore_merges: false,
                vocab: tokens().map(|token| (spell(token), token.id)).collect(),
                merges,
            },
        }
    }
}

/// Returns the post-processor that adds these tokens before and after a text.
pub(super) fn around(before: Option<Token<'_>>, after: Option<Token<'_>>) -> Value {
    if before.is_none() && after.is_none() {
        return Value::Null;
    }
    let special = |token: Token<'_>, text: u32| json!({"SpecialToken": {"id": token.text, "type_id": text}});
    let template = |name: &str, text: u32| {
        let sequence = json!({"Sequence": {"id": name, "type_id": text}});
        before.map(|token| special(token, text)).into_iter().chain([sequence]).chain(after.map(|token| special(token, text)))
    };
    let tokens = before.iter().chain(&after);
    let tokens =
        tokens.map(|token| (token.text.to_owned(), json!({"id": token.text, "ids": [token.id], "tokens": [token.text]})));
    json!({
        "type": "TemplateProcessing",
        "single": template("A", 0).collect::<Vec<_>>(),
        "pair": template("A", 0).chain(template("B", 1)).collect::<Vec<_>>(),
        "special_tokens": tokens.collect::<serde_json::Map<_, _>>(),
    })
}
