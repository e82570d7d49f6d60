//! Splits the source of a template into text, tags and their tokens.

/// A part of a template.
#[derive(Debug, PartialEq)]
pub(super) struct Part<'a> {
    /// The line it starts in, counted from 1.
    pub(super) line: usize,
    pub(super) kind: PartKind<'a>,
}

#[derive(Debug, PartialEq)]
pub(super) enum PartKind<'a> {
    Text(&'a str),
    /// `{{ … }}`
    Expression(Vec<Token<'a>>),
    /// `{% … %}`
    Statement(Vec<Token<'a>>),
}

/// A word or a sign in a tag.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Name(&'a str),
    Text(String),
    Int(i64),
    Float(f64),
    Sign(&'static str),
}

/// A syntax error and its line.
#[derive(Debug, PartialEq)]
pub(super) struct SyntaxError {
    pub(super) line: usize,
    pub(super) reason: String,
}

/// Punctuation tokens, longer ones before their prefixes.
const SIGNS: [&str; 26] = [
    "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">", "=", "(", ")", "[", "]", "{", "}", ",", ".",
    ":", "|", ";",
];

/// Splits a template into its parts, and trims spaces around tags as `trim_blocks` and `lstrip_blocks` do.
pub(super) fn parts(source: &str) -> Result<Vec<Part<'_>>, SyntaxError> {
    // One line break at the end of a template is not part of it.
    let source = source.strip_suffix('\n').map_or(source, |rest| rest.strip_suffix('\r').unwrap_or(rest));
    let mut lexer = Lexer { source, at: 0, line: 1, trim_start: false, parts: Vec::new() };
    while lexer.at < source.len() {
        lexer.part()?;
    }
    Ok(lexer.parts)
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: usize,
    /// Whether spaces at the start of the next text are dropped.
    trim_start: bool,
    parts: Vec<Part<'a>>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.source.get(self.at..).unwrap_or_default()
    }

    /// Advances by a number of bytes, and counts lines.
    fn skip(&mut self, bytes: usize) -> &'a str {
        let skipped = self.rest().get(..bytes).unwrap_or(self.rest());
        self.at += skipped.len();
        self.line += skipped.bytes().filter(|byte| *byte == b'\n').count();
        skipped
    }

    fn fail<T>(&self, reason: impl Into<String>) -> Result<T, SyntaxError> {
        Err(SyntaxError { line: self.line, reason: reason.into() })
    }

    /// Reads text up to the next tag, and the tag.
    fn part(&mut self) -> Result<(), SyntaxError> {
        let rest = self.rest();
        let mut braces = rest.match_indices('{').map(|(at, _)| at);
        let tag = braces.find(|at| matches!(rest.as_bytes().get(at + 1), Some(b'%' | b'{' | b'#')));
        let line = self.line;
        let text = self.skip(tag.unwrap_or(rest.len()));
        let kind = self.rest().get(..2).unwrap_or_default();
        let modifier = self.rest().as_bytes().get(2).copied();
        self.text(text, kind, modifier, line);
        match kind {
            "" => Ok(()),
            "{#" => self.comment(),
            _ => {
                self.skip(2 + usize::from(matches!(modifier, Some(b'-' | b'+'))));
                self.tag(kind == "{%")
            }
        }
    }

    /// Adds text that a tag of this kind follows.
    fn text(&mut self, mut text: &'a str, kind: &str, modifier: Option<u8>, line: usize) {
        if std::mem::take(&mut self.trim_start) {
            text = text.trim_start();
        }
        if !kind.is_empty() && modifier == Some(b'-') {
            text = text.trim_end();
        } else if matches!(kind, "{%" | "{#") && modifier != Some(b'+') {
            // Spaces between the start of a line and a block are for the reader.
            let line = text.trim_end_matches([' ', '\t']);
            let starts_line = line.ends_with('\n') || line.is_empty() && self.starts_line();
            text = if starts_line { line } else { text };
        }
        if !text.is_empty() {
            self.parts.push(Part { line, kind: PartKind::Text(text) });
        }
    }

    /// Whether what lies right before the last text is the start of a line.
    fn starts_line(&self) -> bool {
        let before = self.source.get(..self.at).unwrap_or_default().trim_end_matches([' ', '\t']);
        before.is_empty() || before.ends_with('\n')
    }

    /// Goes past the end of a tag with this modifier.
    fn end(&mut self, modifier: Option<char>, block: bool) {
        match modifier {
            Some('-') => self.trim_start = true,
            Some('+') => {}
            _ if block => {
                let newline = if self.rest().starts_with("\r\n") { 2 } else { usize::from(self.rest().starts_with('\n')) };
                self.skip(newline);
            }
            _ => {}
        }
    }

    fn comment(&mut self) -> Result<(), SyntaxError> {
        let Some(end) = self.rest().get(2..).and_then(|rest| rest.find("#}")) else {
            return self.fail("a comment has no end");
        };
        let comment = self.skip(2 + end);
        self.skip(2);
        self.end(comment.get(2..).and_then(|comment| comment.chars().next_back()), true);
        Ok(())
    }

    fn tag(&mut self, block: bool) -> Result<(), SyntaxError> {
        let line = self.line;
        let end = if block { "%}" } else { "}}" };
        let (mut tokens, mut open) = (Vec::new(), 0usize);
        loop {
            let space = self.rest().len() - self.rest().trim_start().len();
            self.skip(space);
            let rest = self.rest();
            let modifier = rest.chars().next().filter(|c| matches!(c, '-' | '+') && rest[1..].starts_with(end));
            if open == 0 && (modifier.is_some() || rest.starts_with(end)) {
                self.skip(2 + usize::from(modifier.is_some()));
                self.end(modifier, block);
                break;
            }
            let token = self.token()?;
            match token {
                Token::Sign("(" | "[" | "{") => open += 1,
                Token::Sign(")" | "]" | "}") => open = open.saturating_sub(1),
                _ => {}
            }
            tokens.push(token);
        }
        if block && tokens == [Token::Name("raw")] {
            return self.raw();
        }
        let kind = if block { PartKind::Statement(tokens) } else { PartKind::Expression(tokens) };
        self.parts.push(Part { line, kind });
        Ok(())
    }

    /// Reads what no tags are in, up to `endraw`.
    fn raw(&mut self) -> Result<(), SyntaxError> {
        let (rest, line) = (self.rest(), self.line);
        let mut tags = rest.match_indices("{%").map(|(at, _)| at);
        let inside = |at: usize| rest.get(at + 2..).unwrap_or_default().trim_start_matches(['-', '+']).trim_start();
        let Some(end) = tags.find(|at| inside(*at).starts_with("endraw")) else {
            return self.fail("raw has no endraw");
        };
        let text = self.skip(end);
        let modifier = self.rest().as_bytes().get(2).copied();
        self.text(text, "{%", modifier, line);
        let Some(close) = self.rest().find("%}") else { return self.fail("endraw has no end") };
        let tag = self.skip(close);
        self.skip(2);
        self.end(tag.chars().next_back(), true);
        Ok(())
    }

    fn token(&mut self) -> Result<Token<'a>, SyntaxError> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return self.fail("a tag has no end") };
        if first == '\'' || first == '"' {
            return self.string(first);
        }
        if first.is_ascii_digit() {
            return self.number();
        }
        if first.is_alphabetic() || first == '_' {
            let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            return Ok(Token::Name(self.skip(len)));
        }
        match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            Some(sign) => {
                self.skip(sign.len());
                Ok(Token::Sign(sign))
            }
            None => self.fail(format!("unexpected {first:?}")),
        }
    }

    fn number(&mut self) -> Result<Token<'a>, SyntaxError> {
        let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_').len();
        let rest = self.rest();
        let mut len = digits(rest);
        let mut float = false;
        let fraction = rest.get(len..).and_then(|rest| rest.strip_prefix('.')).map_or(0, digits);
        if fraction > 0 {
            len += 1 + fraction;
            float = true;
        }
        if let Some(exponent) = rest.get(len..).and_then(|rest| rest.strip_prefix(['e', 'E'])) {
            let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits(unsigned) > 0 {
                len += 1 + (exponent.len() - unsigned.len()) + digits(unsigned);
                float = true;
            }
        }
        let text = self.skip(len).replace('_', "");
        let token = if float { text.parse().ok().map(Token::Float) } else { text.parse().ok().map(Token::Int) };
        token.map_or_else(|| self.fail("a number is too large"), Ok)
    }

    fn string(&mut self, quote: char) -> Result<Token<'a>, SyntaxError> {
        let mut text = String::new();
        let mut characters = self.rest().char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            if character == quote {
                self.skip(at + 1);
                return Ok(Token::Text(text));
            }
            if character != '\\' {
                text.push(character);
                continue;
            }
            let Some((_, escaped)) = characters.next() else { break };
            let digits = match escaped {
                'x' => 2,
                'u' => 4,
                'U' => 8,
                _ => 0,
            };
            if digits > 0 {
                let code: String = characters.by_ref().take(digits).map(|(_, digit)| digit).collect();
                let character = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
                let Some(character) = character.filter(|_| code.len() == digits) else {
                    return self.fail(format!("the escape \\{escaped} stands for no character"));
                };
                text.push(character);
                continue;
            }
            match escaped {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                '0' => text.push('\0'),
                'b' => text.push('\u{8}'),
                'f' => text.push('\u{C}'),
                '\\' | '\'' | '"' => text.push(escaped),
                '\n' => {}
                _ => text.extend(['\\', escaped]),
            }
        }
        self.fail("a string has no end")
    }
}
