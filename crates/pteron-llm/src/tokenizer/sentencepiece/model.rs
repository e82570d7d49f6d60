//! A model file, read and checked.

use super::normalize::Normalizer;
use super::proto::{Fields, Wire};
use crate::tokenizer::MAX_TOKEN;
use crate::tokenizer::charsmap::CharsMap;
use crate::tokenizer::vocabulary::{TokenBytes, TokenIndex};

/// The type of a piece.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Use {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte(u8),
}

/// How pieces are found in a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Algorithm {
    Unigram,
    Bpe,
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) tokens: TokenBytes,
    pub(super) uses: Vec<Use>,
    pub(super) scores: Vec<f32>,
    /// The smallest score of a normal piece, and the largest, which is above 0 in any case.
    pub(super) worst_score: f32,
    pub(super) best_score: f32,
    /// Pieces that a text can be made of.
    pub(super) pieces: TokenIndex,
    /// All other pieces.
    pub(super) reserved: TokenIndex,
    /// Pieces that the user has defined: found first, never cut.
    pub(super) symbols: TokenIndex,
    pub(super) unknown: u32,
    /// The pieces of the 256 bytes, where unknown characters are spelled in them.
    pub(super) bytes: Option<Vec<u32>>,
    pub(super) trainer: Trainer,
    pub(super) normalizer: Normalizer,
}

/// Training settings that affect encoding.
#[derive(Debug)]
pub(super) struct Trainer {
    pub(super) algorithm: Algorithm,
    pub(super) unknown_text: String,
    pub(super) bos: String,
    pub(super) eos: String,
    byte_fallback: bool,
    space_after_word: bool,
}

impl Default for Trainer {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Unigram,
            unknown_text: " \u{2047} ".to_owned(),
            bos: "<s>".to_owned(),
            eos: "</s>".to_owned(),
            byte_fallback: false,
            space_after_word: false,
        }
    }
}

impl Model {
    pub(super) fn read(file: &[u8]) -> Result<Self, String> {
        let (mut tokens, mut uses, mut scores) = (TokenBytes::default(), Vec::new(), Vec::new());
        let (mut trainer, mut normalizer) = (Trainer::default(), Normalizer::default());
        for field in Fields::new(file) {
            match field? {
                (1, piece) => {
                    let (text, score, purpose) =
                        read_piece(piece).map_err(|what| format!("piece {}: {what}", tokens.len()))?;
                    tokens.push(text.as_bytes());
                    scores.push(score);
                    uses.push(purpose);
                }
                (2, message) => trainer = read_trainer(message)?,
                (3, message) => normalizer = read_normalizer(message)?,
                (5, message) if read_normalizer(message)?.map.is_some() => {
                    return Err("text that is rewritten once more after decoding is not supported".to_owned());
                }
                _ => {}
            }
        }
        normalizer.space_after_word = trainer.space_after_word;
        Self::assemble(tokens, uses, scores, trainer, normalizer)
    }

    fn assemble(
        tokens: TokenBytes,
        uses: Vec<Use>,
        scores: Vec<f32>,
        trainer: Trainer,
        normalizer: Normalizer,
    ) -> Result<Self, String> {
        if u32::try_from(tokens.len()).is_err() {
            return Err("there are more pieces than 32 bits can count".to_owned());
        }
        let index = |wanted: fn(Use) -> bool| {
            let ids = tokens.ids().zip(&uses).filter(|(_, purpose)| wanted(**purpose)).map(|(id, _)| id);
            TokenIndex::new(&tokens, ids).map_err(|(a, b)| format!("the pieces {a} and {b} are the same"))
        };
        let is_piece = |purpose| matches!(purpose, Use::Normal | Use::UserDefined | Use::Unused);
        let pieces = index(is_piece)?;
        let reserved = index(|purpose| matches!(purpose, Use::Unknown | Use::Control | Use::Byte(_)))?;
        let symbols = index(|purpose| purpose == Use::UserDefined)?;
        let mut unknown = tokens.ids().zip(&uses).filter(|(_, purpose)| **purpose == Use::Unknown);
        let (Some((unknown, _)), None) = (unknown.next(), unknown.next()) else {
            return Err("there must be one piece for what is unknown".to_owned());
        };
        let normal = || uses.iter().zip(&scores).filter(|(purpose, _)| **purpose == Use::Normal).map(|(_, score)| *score);
        let (worst_score, best_score) = (normal().fold(f32::MAX, f32::min), normal().fold(f32::MIN_POSITIVE, f32::max));
        let bytes = trainer.byte_fallback.then(|| byte_ids(&tokens, &uses)).transpose()?;
        Ok(Self {
            tokens,
            uses,
            scores,
            worst_score,
            best_score,
            pieces,
            reserved,
            symbols,
            unknown,
            bytes,
            trainer,
            normalizer,
        })
    }

    pub(super) fn purpose(&self, id: u32) -> Option<Use> {
        self.uses.get(usize::try_from(id).ok()?).copied()
    }

    pub(super) fn score(&self, id: u32) -> f32 {
        usize::try_from(id).ok().and_then(|id| self.scores.get(id)).copied().unwrap_or(0.0)
    }

    pub(super) fn text(&self, id: u32) -> Option<&str> {
        std::str::from_utf8(self.tokens.get(id)?).ok()
    }

    /// The id of a piece of a text, or that of the unknown piece.
    pub(super) fn id(&self, piece: &[u8]) -> u32 {
        let found = self.reserved.find(&self.tokens, piece).or_else(|| self.pieces.find(&self.tokens, piece));
        found.unwrap_or(self.unknown)
    }
}

fn byte_ids(tokens: &TokenBytes, uses: &[Use]) -> Result<Vec<u32>, String> {
    let mut ids = [None; 256];
    for (id, purpose) in tokens.ids().zip(uses) {
        if let Use::Byte(byte) = purpose {
            ids[usize::from(*byte)] = Some(id);
        }
    }
    let missing = |byte| format!("there is no piece for the byte {byte:#04x}, but unknown characters are spelled in bytes");
    ids.iter().enumerate().map(|(byte, id)| id.ok_or_else(|| missing(byte))).collect()
}

fn read_piece(message: Wire<'_>) -> Result<(&str, f32, Use), &'static str> {
    let (mut text, mut score, mut purpose) = ("", 0.0, 1);
    for field in Fields::new(message.bytes()?) {
        match field? {
            (1, value) => text = value.text()?,
            (2, value) => score = value.float()?,
            (3, value) => purpose = value.number()?,
            _ => {}
        }
    }
    if text.is_empty() || text.len() > MAX_TOKEN {
        return Err("it must have between 1 and 4096 bytes");
    }
    if !score.is_finite() {
        return Err("its score is not a finite number");
    }
    let purpose = match purpose {
        1 => Use::Normal,
        2 => Use::Unknown,
        3 => Use::Control,
        4 => Use::UserDefined,
        5 => Use::Unused,
        6 => Use::Byte(byte_of(text).ok_or("it should be a byte but is not written like <0x0A>")?),
        _ => return Err("its type is not known"),
    };
    Ok((text, score, purpose))
}

/// The byte of a piece such as `<0x0A>`.
pub(super) fn byte_of(piece: &str) -> Option<u8> {
    let digits = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    let canonical = digits.len() == 2 && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'A'..=b'F'));
    u8::from_str_radix(digits, 16).ok().filter(|_| canonical)
}

fn read_trainer(message: Wire<'_>) -> Result<Trainer, &'static str> {
    let mut trainer = Trainer::default();
    for field in Fields::new(message.bytes()?) {
        match field? {
            (3, value) => {
                trainer.algorithm = match value.number()? {
                    1 => Algorithm::Unigram,
                    2 => Algorithm::Bpe,
                    _ => return Err("only unigram and BPE models are supported, not those of words or characters"),
                }
            }
            (24, value) => trainer.space_after_word = value.flag()?,
            (35, value) => trainer.byte_fallback = value.flag()?,
            (44, value) => trainer.unknown_text = value.text()?.to_owned(),
            (46, value) => replace_unless_empty(&mut trainer.bos, value.text()?),
            (47, value) => replace_unless_empty(&mut trainer.eos, value.text()?),
            _ => {}
        }
    }
    Ok(trainer)
}

fn replace_unless_empty(name: &mut String, new: &str) {
    if !new.is_empty() {
        new.clone_into(name);
    }
}

fn read_normalizer(message: Wire<'_>) -> Result<Normalizer, &'static str> {
    let mut normalizer = Normalizer::default();
    for field in Fields::new(message.bytes()?) {
        match field? {
            (2, value) => {
                let map = value.bytes()?;
                normalizer.map = if map.is_empty() { None } else { Some(CharsMap::read(map)?) };
            }
            (3, value) => normalizer.dummy_space = value.flag()?,
            (4, value) => normalizer.single_spaces = value.flag()?,
            (5, value) => normalizer.visible_spaces = value.flag()?,
            _ => {}
        }
    }
    Ok(normalizer)
}
