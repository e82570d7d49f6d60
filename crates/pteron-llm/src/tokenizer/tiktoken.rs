//! Llama 3's file: one token per line, as base64 and rank, best first. The file does not list the special tokens.

use super::base64;
use super::detokenize::{Broken, Detokenizer, Trim};
use super::merge::{Symbol, merge};
use super::pattern::Pattern;
use super::vocabulary::{Part, SpecialTokens, TokenBytes, TokenIndex};
use super::work::Work;
use super::{Format, MAX_TOKEN, ParseSpecial, ShowSpecial, TokenizerError, TokenizerKind};

/// The pattern by which Llama 3 splits a text before tokens are looked up.
const PATTERN: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    r"|[^\r\n\p{L}\p{N}]?\p{L}+",
    r"|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+",
    r"|\s+(?!\S)",
    r"|\s+",
);

/// The number of special tokens after those of the file.
const SPECIAL_COUNT: u32 = 256;
const BOS: u32 = 0;
const EOS: u32 = 1;

/// The names of the special tokens, in the order of their ids. Where Llama 3 and 3.1 differ, 3 had reserved the token.
fn special_names() -> impl Iterator<Item = String> {
    let mut reserved = 0;
    (0..SPECIAL_COUNT).map(move |index| {
        let name = match index {
            BOS => "begin_of_text",
            EOS => "end_of_text",
            4 => "finetune_right_pad_id",
            6 => "start_header_id",
            7 => "end_header_id",
            8 => "eom_id",
            9 => "eot_id",
            10 => "python_tag",
            _ => {
                reserved += 1;
                return format!("<|reserved_special_token_{}|>", reserved - 1);
            }
        };
        format!("<|{name}|>")
    })
}

#[derive(Debug)]
pub(super) struct Tiktoken {
    tokens: TokenBytes,
    index: TokenIndex,
    specials: SpecialTokens,
    pattern: Pattern,
    /// The id of the first special token, and how many tokens the file has.
    base: u32,
}

/// Whether the bytes look like such a file: a first line of base64 and a number.
pub(super) fn detect(bytes: &[u8]) -> bool {
    let first = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).find(|line| !line.is_empty());
    first.is_some_and(|line| read_line(line).is_ok())
}

fn read_line(line: &[u8]) -> Result<(Vec<u8>, u32), &'static str> {
    let mut parts = line.split(|byte| byte.is_ascii_whitespace()).filter(|part| !part.is_empty());
    let (Some(token), Some(rank), None) = (parts.next(), parts.next(), parts.next()) else {
        return Err("is not a token and a rank with a space between them");
    };
    let token = base64::decode(token).filter(|token| !token.is_empty()).ok_or("has a token that is not base64")?;
    if token.len() > MAX_TOKEN {
        return Err("has a token of more than 4096 bytes");
    }
    let rank = std::str::from_utf8(rank).ok().and_then(|rank| rank.parse().ok());
    Ok((token, rank.ok_or("has a rank that is not a number")?))
}

impl Tiktoken {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, TokenizerError> {
        let problem = |line: usize, what: &str| TokenizerError::Tiktoken { line: line + 1, what: what.to_owned() };
        let mut ranked = Vec::new();
        for (number, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if !line.is_empty() {
                let (token, rank) = read_line(line).map_err(|what| problem(number, what))?;
                ranked.push((rank, number, token));
            }
        }
        ranked.sort_unstable();
        let mut tokens = TokenBytes::default();
        for ((rank, line, token), id) in ranked.iter().zip(0u32..) {
            if *rank != id {
                let what = format!("has rank {rank} where rank {id} is due: ranks must count up from 0");
                return Err(problem(*line, &what));
            }
            tokens.push(token);
        }
        let line_of = |id: u32| usize::try_from(id).ok().and_then(|id| ranked.get(id)).map_or(0, |(_, line, _)| *line);
        let index = TokenIndex::new(&tokens, tokens.ids()).map_err(|(first, second)| {
            problem(line_of(second), &format!("repeats the token of line {}", line_of(first) + 1))
        })?;
        if let Some(byte) = (0..=255).find(|&byte| index.find(&tokens, &[byte]).is_none()) {
            return Err(problem(ranked.len(), &format!("is the end, and there was no token for the byte {byte:#04x}")));
        }
        Self::with_specials(tokens, index)
    }

    fn with_specials(tokens: TokenBytes, index: TokenIndex) -> Result<Self, TokenizerError> {
        let too_many = || TokenizerError::Tiktoken { line: tokens.len(), what: "is one token too many".to_owned() };
        let base = u32::try_from(tokens.len()).ok().filter(|base| base.checked_add(SPECIAL_COUNT).is_some());
        let base = base.ok_or_else(too_many)?;
        let names: Vec<String> = special_names().collect();
        let specials = SpecialTokens::new(names.iter().map(String::as_str).zip(base..)).map_err(|_| too_many())?;
        let pattern = Pattern::new(PATTERN).map_err(TokenizerError::Encode)?;
        Ok(Self { tokens, index, specials, pattern, base })
    }

    fn piece(&self, piece: &str, ids: &mut Vec<u32>) {
        let bytes = piece.as_bytes();
        let find = |range| self.index.find(&self.tokens, bytes.get(range).unwrap_or_default());
        if let Some(id) = find(0..bytes.len()) {
            ids.push(id);
            return;
        }
        let symbols = (1..=bytes.len()).map(|end| Symbol { end, frozen: false });
        // A token's rank is its id, and every byte is a token.
        ids.extend(merge(symbols, |range, _| find(range)).into_iter().filter_map(find));
    }
}

impl TokenizerKind for Tiktoken {
    fn format(&self) -> Format {
        Format::Tiktoken
    }

    fn encode(&self, text: &str, parse: ParseSpecial) -> Result<Vec<u32>, TokenizerError> {
        let mut work = Work::new(text.len())?;
        let parts = match parse {
            ParseSpecial::Yes => self.specials.split(text, &mut work)?,
            ParseSpecial::No => vec![Part::Text(text)],
        };
        let mut ids = Vec::new();
        for part in parts {
            match part {
                Part::Special(id) => ids.push(id),
                Part::Text(text) => {
                    for (range, _) in self.pattern.cut(text, &mut work)? {
                        self.piece(text.get(range).unwrap_or_default(), &mut ids);
                    }
                }
            }
        }
        Ok(ids)
    }

    fn detokenizer(&self) -> Detokenizer {
        Detokenizer::new(Broken::EachSequence, Trim::default())
    }

    fn push_token(&self, id: u32, show: ShowSpecial, detokenizer: &mut Detokenizer, out: &mut String) {
        if show == ShowSpecial::Yes || !self.is_special(id) {
            detokenizer.bytes(&self.token_bytes(id).unwrap_or_default(), out);
        }
    }

    fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        let ordinary = self.tokens.get(id).map(<[u8]>::to_vec);
        ordinary.or_else(|| {
            let (_, name) = self.specials.iter().nth(usize::try_from(id.checked_sub(self.base)?).ok()?)?;
            Some(name.as_bytes().to_vec())
        })
    }

    fn is_special(&self, id: u32) -> bool {
        (self.base..self.vocab_size()).contains(&id)
    }

    fn specials(&self) -> Vec<(u32, String)> {
        self.specials.iter().map(|(id, name)| (id, name.to_owned())).collect()
    }

    fn find(&self, name: &str) -> Option<u32> {
        self.specials.find(name)
    }

    fn vocab_size(&self) -> u32 {
        self.base + SPECIAL_COUNT
    }

    fn bos(&self) -> Option<u32> {
        Some(self.base + BOS)
    }

    fn eos(&self) -> Option<u32> {
        Some(self.base + EOS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The 256 bytes and these tokens.
    fn file(extra: &[&str]) -> String {
        let bytes = (0..=255u8).map(|byte| vec![byte]);
        let tokens = bytes.chain(extra.iter().map(|token| token.as_bytes().to_vec()));
        tokens.enumerate().map(|(rank, token)| format!("{} {rank}\n", base64::encode(&token))).collect()
    }

    fn read(text: &str) -> Result<Tiktoken, TokenizerError> {
        Tiktoken::read(text.as_bytes())
    }

    #[test]
    fn cuts_text_as_the_original_pattern_does() {
        let tokenizer = read(&file(&[])).unwrap();
        let cut = |text: &'static str| {
            let parts = tokenizer.pattern.cut(text, &mut Work::new(text.len()).unwrap()).unwrap();
            parts.into_iter().map(|(range, _)| &text[range]).collect::<Vec<_>>()
        };
        assert_eq!(cut("Hello world"), ["Hello", " world"]);
        assert_eq!(cut("a   b"), ["a", "  ", " b"]);
        assert_eq!(cut("a \t b  "), ["a", " \t", " b", "  "]);
        assert_eq!(cut("x\n\n  y"), ["x", "\n\n", " ", " y"]);
        assert_eq!(cut("x  \n y"), ["x", "  \n", " y"]);
        assert_eq!(cut("I'll don'T"), ["I", "'ll", " don", "'T"]);
        assert_eq!(cut("12345"), ["123", "45"]);
        assert_eq!(cut("\u{3000}\u{3000}語"), ["\u{3000}", "\u{3000}語"]);
        assert_eq!(cut("  1"), [" ", " ", "1"]);
        assert_eq!(cut(""), Vec::<&str>::new());
    }

    #[test]
    fn merges_by_rank_and_takes_whole_pieces_first() {
        let tokenizer = read(&file(&["he", "ll", "hell", "hello"])).unwrap();
        assert_eq!(tokenizer.encode("hello", ParseSpecial::No).unwrap(), [259]);
        assert_eq!(tokenizer.encode("hellohe", ParseSpecial::No).unwrap(), [259, 256]);
        assert_eq!(tokenizer.encode("hellllo", ParseSpecial::No).unwrap(), [258, 257, u32::from(b'o')]);
        assert_eq!(tokenizer.encode("é", ParseSpecial::No).unwrap(), [0xC3, 0xA9]);
    }

    #[test]
    fn special_tokens_are_those_of_llama_3() {
        let names: Vec<String> = special_names().collect();
        assert_eq!(names.len(), 256);
        assert_eq!(names[2], "<|reserved_special_token_0|>");
        assert_eq!(names[5], "<|reserved_special_token_2|>");
        assert_eq!(names[11], "<|reserved_special_token_3|>");
        assert_eq!(names[255], "<|reserved_special_token_247|>");
        let tokenizer = read(&file(&[])).unwrap();
        assert_eq!(tokenizer.encode("<|eot_id|>a", ParseSpecial::Yes).unwrap(), [265, 97]);
        assert_eq!(tokenizer.encode("<|eot_id|>", ParseSpecial::No).unwrap().len(), 10);
        assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.vocab_size()), (Some(256), Some(257), 512));
        assert_eq!(tokenizer.token_bytes(265).unwrap(), b"<|eot_id|>");
        assert_eq!((tokenizer.token_bytes(511).is_some(), tokenizer.token_bytes(512)), (true, None));
    }

    #[test]
    fn a_broken_file_says_in_which_line() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert!(error("IQ== 0\nIg==\n").contains("line 2 is not a token and a rank"));
        assert!(error("IQ== 0\n!!== 1\n").contains("line 2 has a token that is not base64"));
        assert!(error("IQ== x\n").contains("line 1 has a rank that is not a number"));
        assert!(error("IQ== 0\nIg== 2\n").contains("line 2 has rank 2 where rank 1 is due"));
        assert!(error("IQ== 0\nIg== 4294967295\n").contains("where rank 1 is due"));
        assert!(error("IQ== 0\nIQ== 1\n").contains("line 2 repeats the token of line 1"));
        assert!(error("IQ== 0\n").contains("no token for the byte 0x00"));
        assert!(error("").contains("no token for the byte 0x00"));
    }

    #[test]
    fn a_long_word_is_merged_in_time() {
        let tokenizer = read(&file(&["aa", "aaaa", "aaaaaaaa"])).unwrap();
        assert_eq!(tokenizer.encode(&"a".repeat(80_000), ParseSpecial::No).unwrap().len(), 10_000);
    }
}
