//! `SentencePiece` models, unigram and BPE: encodes and decodes as the library of that name does.

mod model;
mod normalize;
mod proto;
mod segment;
#[cfg(test)]
mod tests;

use model::{Algorithm, Model, Use};

use super::detokenize::{Broken, Detokenizer, Trim};
use super::vocabulary::{Part, SpecialTokens};
use super::work::Work;
use super::{Format, ParseSpecial, ShowSpecial, TokenizerError, TokenizerKind};

/// The character for a space in pieces.
const SPACE: char = '\u{2581}';

#[derive(Debug)]
pub(super) struct SentencePiece {
    model: Model,
    /// The control pieces, which a model never finds in a text by itself.
    controls: SpecialTokens,
}

/// Whether the bytes look like such a file: a message whose first field is a piece.
pub(super) fn detect(bytes: &[u8]) -> bool {
    matches!(bytes, [0x0A, ..])
}

impl SentencePiece {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, TokenizerError> {
        let model = Model::read(bytes).map_err(TokenizerError::SentencePiece)?;
        let controls = model.tokens.ids().filter(|&id| model.purpose(id) == Some(Use::Control));
        let controls = controls.filter_map(|id| Some((model.text(id)?, id)));
        let controls = SpecialTokens::new(controls)
            .map_err(|(a, b)| TokenizerError::SentencePiece(format!("the pieces {a} and {b} are the same")))?;
        Ok(Self { model, controls })
    }

    fn encode_part(&self, text: &str, ids: &mut Vec<u32>, work: &mut Work) -> Result<(), TokenizerError> {
        let model = &self.model;
        let text = model.normalizer.normalize(text, &model.tokens, &model.symbols, work)?;
        let pieces = match model.trainer.algorithm {
            Algorithm::Unigram => segment::unigram(model, &text, work)?,
            Algorithm::Bpe => segment::bpe(model, &text, work)?,
        };
        let mut after_unknown = false;
        for (range, id) in pieces {
            let unknown = id == model.unknown;
            match &model.bytes {
                Some(bytes) if unknown => {
                    let spelled = text.as_bytes().get(range).unwrap_or_default();
                    ids.extend(spelled.iter().filter_map(|&byte| bytes.get(usize::from(byte))));
                }
                // Unknown pieces in a row are one.
                _ if unknown && after_unknown => {}
                _ => ids.push(id),
            }
            after_unknown = unknown;
        }
        Ok(())
    }
}

impl TokenizerKind for SentencePiece {
    fn format(&self) -> Format {
        Format::SentencePiece
    }

    /// Each part between special tokens is encoded as `SentencePiece` encodes a text of its own.
    fn encode(&self, text: &str, parse: ParseSpecial) -> Result<Vec<u32>, TokenizerError> {
        let mut work = Work::new(text.len())?;
        let parts = match parse {
            ParseSpecial::Yes => self.controls.split(text, &mut work)?,
            ParseSpecial::No => vec![Part::Text(text)],
        };
        let mut ids = Vec::new();
        for part in parts {
            match part {
                Part::Special(id) => ids.push(id),
                Part::Text(text) => self.encode_part(text, &mut ids, &mut work)?,
            }
        }
        Ok(ids)
    }

    fn detokenizer(&self) -> Detokenizer {
        Detokenizer::new(Broken::EachByte, Trim::default())
    }

    /// Joins a piece as `SentencePiece` decodes it. The space in front of the first word is dropped, because encoding has put it
    /// there; control pieces before it do not count.
    fn push_token(&self, id: u32, show: ShowSpecial, detokenizer: &mut Detokenizer, out: &mut String) {
        let (Some(purpose), Some(text)) = (self.model.purpose(id), self.model.text(id)) else { return };
        if let Use::Byte(byte) = purpose {
            detokenizer.started = true;
            return detokenizer.bytes(&[byte], out);
        }
        // Any other piece, even one that is not shown, comes between bytes.
        detokenizer.flush(out);
        detokenizer.past_prefix |= detokenizer.started;
        let text = match purpose {
            Use::Control if show == ShowSpecial::No => return,
            Use::Control => text.to_owned(),
            Use::Unknown => self.model.trainer.unknown_text.clone(),
            _ => {
                let normalizer = &self.model.normalizer;
                let strips = !detokenizer.past_prefix && (normalizer.dummy_space || normalizer.single_spaces);
                let stripped = text.strip_prefix(SPACE).filter(|_| strips);
                // Where all spaces at the start are dropped, one that was dropped is not the last.
                detokenizer.past_prefix |= stripped.is_some() && !normalizer.single_spaces;
                spaces(stripped.unwrap_or(text))
            }
        };
        detokenizer.started |= !text.is_empty();
        detokenizer.text(&text, out);
    }

    fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        let text = self.model.text(id)?;
        Some(match self.model.purpose(id)? {
            Use::Byte(byte) => vec![byte],
            Use::Unknown => self.model.trainer.unknown_text.clone().into_bytes(),
            Use::Control => text.as_bytes().to_vec(),
            _ => spaces(text).into_bytes(),
        })
    }

    fn is_special(&self, id: u32) -> bool {
        self.model.purpose(id) == Some(Use::Control)
    }

    fn specials(&self) -> Vec<(u32, String)> {
        self.controls.iter().map(|(id, name)| (id, name.to_owned())).collect()
    }

    fn find(&self, text: &str) -> Option<u32> {
        let id = self.model.id(text.as_bytes());
        (self.model.text(id) == Some(text)).then_some(id)
    }

    fn vocab_size(&self) -> u32 {
        u32::try_from(self.model.tokens.len()).unwrap_or(u32::MAX)
    }

    fn bos(&self) -> Option<u32> {
        self.controls.find(&self.model.trainer.bos)
    }

    fn eos(&self) -> Option<u32> {
        self.controls.find(&self.model.trainer.eos)
    }
}

fn spaces(piece: &str) -> String {
    piece.replace(SPACE, " ")
}
