//! The models of `tokenizer.json`: byte pair encoding, unigram, and whole words.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use crate::tokenizer::TokenizerError;
use crate::tokenizer::vocabulary::{TokenBytes, TokenIndex};
use crate::tokenizer::work::Work;

/// How much worse than the worst token an unknown character is.
const UNKNOWN_PENALTY: f64 = 10.0;

/// Tokens and their ids, both ways.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    ids: HashMap<Arc<str>, u32>,
    tokens: HashMap<u32, Arc<str>>,
}

impl Vocabulary {
    /// # Errors
    /// An id or a token that is there already.
    pub(super) fn insert(&mut self, token: &str, id: u32) -> Result<(), String> {
        let shared: Arc<str> = token.into();
        if self.ids.insert(Arc::clone(&shared), id).is_some() {
            return Err(format!("a token is there twice, with the id {id}"));
        }
        match self.tokens.insert(id, shared) {
            Some(_) => Err(format!("two tokens have the id {id}")),
            None => Ok(()),
        }
    }

    pub(super) fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    pub(super) fn token(&self, id: u32) -> Option<&str> {
        self.tokens.get(&id).map(|token| &**token)
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// One more than the largest id.
    pub(super) fn bound(&self) -> u32 {
        self.tokens.keys().max().map_or(0, |max| max.saturating_add(1))
    }

    /// The tokens that bytes are spelled in, such as `<0x0A>`.
    fn bytes(&self) -> Vec<Option<u32>> {
        (0..=255u8).map(|byte| self.id(&format!("<0x{byte:02X}>"))).collect()
    }
}

/// How pieces of a text become tokens.
#[derive(Debug)]
pub(super) enum Model {
    Bpe(Bpe),
    Unigram(Unigram),
    Words { unknown: Option<u32> },
}

#[derive(Debug, Default)]
pub(super) struct Bpe {
    /// Ranks and results of pairs.
    pub(super) merges: HashMap<(u32, u32), (u32, u32)>,
    pub(super) unknown: Option<u32>,
    pub(super) fuse_unknown: bool,
    pub(super) suffix: Option<String>,
    pub(super) byte_fallback: bool,
    /// Whether a piece that is a token is one, however it could be merged.
    pub(super) whole: bool,
}

#[derive(Debug)]
pub(super) struct Unigram {
    pub(super) tokens: TokenBytes,
    pub(super) index: TokenIndex,
    pub(super) scores: Vec<f64>,
    pub(super) unknown: Option<u32>,
    pub(super) byte_fallback: bool,
}

/// Encodes pieces with a model. Made once for a text, because it looks up some tokens in advance.
pub(super) struct Encoder<'a> {
    model: &'a Model,
    vocabulary: &'a Vocabulary,
    bytes: Vec<Option<u32>>,
    /// The ids of the first characters, which most texts consist of.
    characters: Vec<Option<u32>>,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(model: &'a Model, vocabulary: &'a Vocabulary) -> Self {
        let fallback = match model {
            Model::Bpe(bpe) => bpe.byte_fallback,
            Model::Unigram(unigram) => unigram.byte_fallback,
            Model::Words { .. } => false,
        };
        let bytes = if fallback { vocabulary.bytes() } else { Vec::new() };
        let characters = match model {
            Model::Bpe(_) => ('\0'..'\u{180}').map(|character| vocabulary.id(character.encode_utf8(&mut [0; 4]))).collect(),
            _ => Vec::new(),
        };
        Self { model, vocabulary, bytes, characters }
    }

    /// Appends the tokens of a piece.
    pub(super) fn encode(&self, piece: &str, ids: &mut Vec<u32>, work: &mut Work) -> Result<(), TokenizerError> {
        work.step(8 * piece.len())?;
        match self.model {
            Model::Bpe(bpe) => {
                match self.vocabulary.id(piece).filter(|_| bpe.whole) {
                    Some(id) => ids.push(id),
                    None => ids.extend(merge(&bpe.merges, self.symbols(bpe, piece))),
                }
                Ok(())
            }
            Model::Unigram(unigram) => self.unigram(unigram, piece, ids, work),
            Model::Words { unknown } => {
                let id = self.vocabulary.id(piece).or(*unknown);
                ids.push(id.ok_or_else(|| {
                    TokenizerError::Encode("a word is no token, and there is none for unknown words".to_owned())
                })?);
                Ok(())
            }
        }
    }

    fn spelled(&self, text: &str) -> Option<Vec<u32>> {
        text.bytes().map(|byte| self.bytes.get(usize::from(byte)).copied().flatten()).collect()
    }

    /// The symbols of a piece before merging. A character without a token is left out.
    fn symbols(&self, bpe: &Bpe, piece: &str) -> Vec<u32> {
        let mut symbols = Vec::with_capacity(piece.len());
        // Whether unknown characters came last that are not in the list yet.
        let mut pending = None;
        for (at, character) in piece.char_indices() {
            let end = at + character.len_utf8();
            let text = piece.get(at..end).unwrap_or_default();
            let suffixed = bpe.suffix.as_ref().filter(|_| end == piece.len()).map(|suffix| format!("{text}{suffix}"));
            let known = match &suffixed {
                Some(text) => self.vocabulary.id(text),
                None => match self.characters.get(usize::try_from(u32::from(character)).unwrap_or(usize::MAX)) {
                    Some(known) => *known,
                    None => self.vocabulary.id(text),
                },
            };
            if let Some(id) = known {
                symbols.extend(pending.take());
                symbols.push(id);
            } else if let Some(spelled) = self.spelled(suffixed.as_deref().unwrap_or(text)) {
                symbols.extend(spelled);
            } else if bpe.unknown.is_some() {
                if !bpe.fuse_unknown {
                    symbols.extend(pending);
                }
                pending = bpe.unknown;
            }
        }
        symbols.extend(pending);
        symbols
    }

    fn unigram(&self, unigram: &Unigram, piece: &str, ids: &mut Vec<u32>, work: &mut Work) -> Result<(), TokenizerError> {
        let missing = || TokenizerError::Encode("a character has no token, and there is none for unknown ones".to_owned());
        let best = unigram.best(piece, work)?;
        // From the end to the start; unknown pieces in a row are one.
        let mut parts: Vec<(usize, usize, Option<u32>)> = Vec::new();
        let mut end = piece.len();
        while let Some(Best { start, id, .. }) = best.get(end).copied().flatten().filter(|best| best.start < end) {
            match parts.last_mut().filter(|(.., last)| id.is_none() && last.is_none()) {
                Some(last) => last.0 = start,
                None => parts.push((start, end, id)),
            }
            end = start;
        }
        for (start, end, id) in parts.into_iter().rev() {
            let text = piece.get(start..end).unwrap_or_default();
            if let Some(id) = id.or_else(|| self.vocabulary.id(text)) {
                ids.push(id);
            } else if let Some(spelled) = self.spelled(text).filter(|_| unigram.byte_fallback) {
                ids.extend(spelled);
            } else {
                ids.push(unigram.unknown.ok_or_else(missing)?);
            }
        }
        Ok(())
    }
}

/// The best way from the start of a text to some place in it.
#[derive(Clone, Copy)]
struct Best {
    score: f64,
    start: usize,
    /// `None` if the last token is unknown.
    id: Option<u32>,
}

impl Unigram {
    fn best(&self, text: &str, work: &mut Work) -> Result<Vec<Option<Best>>, TokenizerError> {
        let worst = self.scores.iter().copied().fold(f64::INFINITY, f64::min);
        let mut best: Vec<Option<Best>> = vec![None; text.len() + 1];
        for (start, character) in text.char_indices() {
            let here = best[start].map_or(0.0, |best| best.score);
            let mut offer = |len: usize, score: f64, id: Option<u32>| {
                let slot = &mut best[start + len];
                if slot.is_none_or(|best| score > best.score) {
                    *slot = Some(Best { score, start, id });
                }
            };
            let mut single = false;
            let mut prefixes = self.index.prefixes(&self.tokens, &text.as_bytes()[start..]);
            for (len, id) in prefixes.by_ref() {
                let score = usize::try_from(id).ok().and_then(|id| self.scores.get(id)).copied().unwrap_or(0.0);
                offer(len, score + here, Some(id).filter(|id| Some(*id) != self.unknown));
                single |= len == character.len_utf8();
            }
            work.step(prefixes.depth())?;
            if !single {
                offer(character.len_utf8(), worst - UNKNOWN_PENALTY + here, None);
            }
        }
        Ok(best)
    }
}

/// A symbol while merging; one that was merged away is gone.
struct Node {
    id: u32,
    previous: Option<usize>,
    next: Option<usize>,
    gone: bool,
}

/// Merges neighbours, the pair of the smallest rank first, of equal ones the leftmost. Takes time in proportion to `n log n`.
fn merge(merges: &HashMap<(u32, u32), (u32, u32)>, symbols: Vec<u32>) -> impl Iterator<Item = u32> {
    let last = symbols.len().saturating_sub(1);
    let nodes = symbols.into_iter().enumerate();
    let mut nodes: Vec<Node> = nodes
        .map(|(at, id)| Node {
            id,
            previous: at.checked_sub(1),
            next: Some(at + 1).filter(|next| *next <= last),
            gone: false,
        })
        .collect();
    let pair = |nodes: &[Node], left: usize| {
        let right = nodes[left].next?;
        merges.get(&(nodes[left].id, nodes[right].id)).map(|&(rank, id)| Reverse((rank, left, id)))
    };
    let mut heap: BinaryHeap<_> = (0..nodes.len()).filter_map(|left| pair(&nodes, left)).collect();
    while let Some(Reverse((_, left, id))) = heap.pop() {
        // The pair must still be what it was when it was offered.
        let current = if nodes[left].gone { None } else { pair(&nodes, left) };
        let (Some(Reverse((_, _, result))), Some(right)) = (current, nodes[left].next) else { continue };
        if result != id {
            continue;
        }
        let next = nodes[right].next;
        nodes[right].gone = true;
        nodes[left].id = id;
        nodes[left].next = next;
        if let Some(next) = next {
            nodes[next].previous = Some(left);
        }
        heap.extend(nodes[left].previous.and_then(|previous| pair(&nodes, previous)));
        heap.extend(pair(&nodes, left));
    }
    nodes.into_iter().filter(|node| !node.gone).map(|node| node.id)
}
