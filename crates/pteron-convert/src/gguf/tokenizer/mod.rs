//! Converts a file's tokenizer to `tokenizer.json` and `tokenizer_config.json`.
//!
//! Two kinds are supported: byte-level byte-pair encoding with a list of merges (`gpt2`: Llama 3, Qwen, `SmolLM`), and
//! `SentencePiece`'s with scores (`llama`: Llama 2, Mistral).

mod config;
mod json;
mod pre_tokenizer;
mod sentencepiece;
mod vocabulary;

use serde_json::{Value, json};

use super::cursor::shown;
use super::metadata::Metadata;
use crate::error::{Error, Result};
use crate::source::{CheckpointMetadata, Sidecar};
use json::File;
use vocabulary::{Token, TokenType, Vocabulary};

const MODEL: &str = "tokenizer.ggml.model";
const MERGES: &str = "tokenizer.ggml.merges";
const PRE_TOKENIZER: &str = "tokenizer.ggml.pre";
/// `SentencePiece`'s replacement for spaces.
const SPACE: &str = "▁";

/// The special tokens that are added to a text.
struct AddedTokens {
    begin: bool,
    end: bool,
}

/// Reads BOS and EOS tokens, tokenizer and chat template. A file without a tokenizer gives empty metadata.
pub(super) fn checkpoint_metadata(metadata: &Metadata<'_>, rows: u32) -> Result<CheckpointMetadata> {
    let Some(model) = metadata.text(MODEL)?.filter(|model| !matches!(*model, "none" | "no_vocab")) else {
        return Ok(CheckpointMetadata::default());
    };
    let vocabulary = match model {
        "gpt2" | "llama" => Vocabulary::read(metadata, rows)?,
        _ => {
            return Err(Error::Unsupported {
                what: format!("the tokenizer {}", shown(model)),
                alternatives: vec!["gpt2".to_owned(), "llama".to_owned()],
            });
        }
    };
    let (mut file, begins) =
        if model == "gpt2" { byte_level(metadata, &vocabulary)? } else { (sentence_piece(metadata, &vocabulary)?, true) };
    let around = around(metadata, &vocabulary, begins)?;
    let begin = vocabulary.begin.filter(|_| around.begin);
    file.post_processor = json::around(begin, vocabulary.end.filter(|_| around.end));
    let config = config::config(metadata, &vocabulary, &around)?;
    let sidecars = vec![sidecar("tokenizer.json", &file)?, sidecar("tokenizer_config.json", &config)?];
    Ok(CheckpointMetadata { bos_token: begin.map(|token| token.id), eos_tokens: vocabulary.ends(), sidecars })
}

fn sidecar(name: &str, content: &impl serde::Serialize) -> Result<Sidecar> {
    let bytes = serde_json::to_vec(content);
    let bytes = bytes.map_err(|error| Error::Malformed { file: name.to_owned(), problem: error.to_string() })?;
    Ok(Sidecar { name: name.to_owned(), bytes })
}

fn around(metadata: &Metadata<'_>, vocabulary: &Vocabulary<'_>, begins: bool) -> Result<AddedTokens> {
    let flag = |name: &str, default| Ok::<_, Error>(metadata.flag(name)?.unwrap_or(default));
    Ok(AddedTokens {
        begin: flag("tokenizer.ggml.add_bos_token", begins)? && vocabulary.begin.is_some(),
        end: flag("tokenizer.ggml.add_eos_token", false)? && vocabulary.end.is_some(),
    })
}

/// Byte-level BPE, and whether a BOS token is added if the file does not say.
fn byte_level<'a>(metadata: &Metadata<'a>, vocabulary: &Vocabulary<'a>) -> Result<(File<'a>, bool)> {
    let unsupported = |what| Error::Unsupported { what, alternatives: pre_tokenizer::names() };
    let name = metadata.text(PRE_TOKENIZER)?;
    let name = name.ok_or_else(|| unsupported(format!("a byte-level tokenizer without {PRE_TOKENIZER}")))?;
    let pre_tokenizer =
        pre_tokenizer::find(name).ok_or_else(|| unsupported(format!("the pre-tokenizer {}", shown(name))))?;
    let mut merges = Vec::new();
    for (number, line) in metadata.needed(MERGES, metadata.array(MERGES))?.texts()?.into_iter().enumerate() {
        let pair = line.split_once(' ').filter(|(left, right)| {
            [*left, *right, &format!("{left}{right}")].iter().all(|text| vocabulary.find(text).is_some())
        });
        let problem = || format!("merge {number} is {}, which is not two tokens that make a third", shown(line));
        merges.push(pair.ok_or_else(|| metadata.fault(MERGES, problem()))?);
    }
    let mut file = File::new(vocabulary, merges, |token| token.text.to_owned());
    file.normalizer = pre_tokenizer.normalizer();
    file.pre_tokenizer = pre_tokenizer.pre_tokenizer();
    file.decoder = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    file.model.ignore_merges = pre_tokenizer.ignore_merges;
    Ok((file, pre_tokenizer.adds_bos))
}

/// `SentencePiece`'s byte-pair encoding.
fn sentence_piece<'a>(metadata: &Metadata<'a>, vocabulary: &Vocabulary<'a>) -> Result<File<'a>> {
    let merges = sentencepiece::merges(vocabulary).map_err(|problem| metadata.fault("tokenizer.ggml.tokens", problem))?;
    // User-defined tokens are matched before spaces are replaced.
    let spelled =
        |token: &Token<'a>| Some(token.text.replace(SPACE, " ")).filter(|_| token.token_type == TokenType::UserDefined);
    let mut file = File::new(vocabulary, merges, |token| {
        let free = spelled(token).filter(|text| vocabulary.find(text).is_none());
        free.unwrap_or_else(|| token.text.to_owned())
    });
    let prefix = metadata.flag("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
    let visible = json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE});
    let prepend = prefix.then(|| json!({"type": "Prepend", "prepend": SPACE}));
    file.normalizer =
        json!({"type": "Sequence", "normalizers": prepend.into_iter().chain([visible]).collect::<Vec<Value>>()});
    let strip = prefix.then(|| json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    let decoders = [
        json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    file.decoder = json!({"type": "Sequence", "decoders": decoders.into_iter().chain(strip).collect::<Vec<Value>>()});
    file.model.unk_token = vocabulary.unknown.map(|token| token.text);
    file.model.fuse_unk = true;
    file.model.byte_fallback = vocabulary.tokens.iter().any(|token| token.token_type == TokenType::Byte);
    Ok(file)
}
