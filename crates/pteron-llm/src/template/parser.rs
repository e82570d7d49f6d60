//! Parses tokens into statements; [`super::expression`] parses the expressions in them.

use std::sync::Arc;

use super::ast::{Body, Expr, For, Macro, Postfix, Statement, StatementKind, Target};
use super::budget::{Limit, MAX_SOURCE};
use super::expression::Words;
use super::lexer::{Part, PartKind, SyntaxError, Token, parts};

/// The deepest nesting of blocks and brackets.
pub(super) const MAX_DEPTH: usize = 60;

/// A syntax error.
#[derive(Debug, PartialEq)]
pub(super) enum ParseError {
    Syntax(SyntaxError),
    Limit { line: usize, limit: Limit },
}

impl From<SyntaxError> for ParseError {
    fn from(error: SyntaxError) -> Self {
        Self::Syntax(error)
    }
}

/// Parses a template.
pub(super) fn parse(source: &str) -> Result<Body, ParseError> {
    if source.len() > MAX_SOURCE {
        return Err(ParseError::Limit { line: 1, limit: Limit::Source });
    }
    let mut parser = Parser { parts: parts(source)?.into_iter(), depth: 0, line: 1 };
    let (body, end) = parser.body(&[])?;
    match end {
        None => Ok(body),
        Some((word, _)) => parser.fail(format!("unexpected {word}")),
    }
}

struct Parser<'a> {
    parts: std::vec::IntoIter<Part<'a>>,
    depth: usize,
    line: usize,
}

/// The word that ended a body, and the rest of its tag.
type End<'a> = Option<(&'a str, Words<'a>)>;

impl<'a> Parser<'a> {
    fn fail<T>(&self, reason: impl Into<String>) -> Result<T, ParseError> {
        Err(SyntaxError { line: self.line, reason: reason.into() }.into())
    }

    /// Parses statements up to a tag that starts with one of these words.
    fn body(&mut self, ends: &[&str]) -> Result<(Body, End<'a>), ParseError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ParseError::Limit { line: self.line, limit: Limit::Depth });
        }
        let mut body = Vec::new();
        while let Some(Part { line, kind }) = self.parts.next() {
            self.line = line;
            let kind = match kind {
                PartKind::Text(text) => StatementKind::Text(text.to_owned()),
                PartKind::Expression(tokens) => {
                    let mut words = Words::new(tokens, line, self.depth);
                    let expr = words.tuple()?;
                    words.end()?;
                    StatementKind::Emit(expr)
                }
                PartKind::Statement(tokens) => {
                    let mut words = Words::new(tokens, line, self.depth);
                    let word = words.name()?;
                    if ends.contains(&word) {
                        self.depth -= 1;
                        return Ok((body, Some((word, words))));
                    }
                    self.statement(word, words)?
                }
            };
            body.push(Statement { line, kind });
        }
        self.depth -= 1;
        if ends.is_empty() {
            Ok((body, None))
        } else {
            self.fail(format!("the template ends without {}", ends.join(" or ")))
        }
    }

    /// Parses statements up to a tag that is this word.
    fn until(&mut self, end: &str) -> Result<Body, ParseError> {
        let (body, rest) = self.body(&[end])?;
        // The name of a block may be repeated at its end.
        if let Some((_, mut words)) = rest {
            words.skip_name();
            words.end()?;
        }
        Ok(body)
    }

    fn statement(&mut self, word: &str, mut words: Words<'a>) -> Result<StatementKind, ParseError> {
        Ok(match word {
            "if" => self.conditions(words)?,
            "for" => self.for_loop(words)?,
            "set" => return self.set(words),
            "macro" => {
                let name = words.name()?.into();
                StatementKind::Macro(Box::new(self.macro_body(name, words, "endmacro")?))
            }
            "call" => self.call_block(words)?,
            "filter" => {
                let filters = words.filters()?;
                words.end()?;
                StatementKind::Filter(filters, self.until("endfilter")?)
            }
            "with" => self.with(words)?,
            "generation" => {
                words.end()?;
                StatementKind::Block(self.until("endgeneration")?)
            }
            "do" => {
                let expr = words.tuple()?;
                words.end()?;
                StatementKind::Do(expr)
            }
            "break" | "continue" => {
                words.end()?;
                if word == "break" { StatementKind::Break } else { StatementKind::Continue }
            }
            _ => return self.fail(format!("unknown statement {word}")),
        })
    }

    fn conditions(&mut self, mut words: Words<'a>) -> Result<StatementKind, ParseError> {
        let mut branches = Vec::new();
        let mut condition = Some(words.expr()?);
        words.end()?;
        loop {
            let ends: &[&str] = if condition.is_some() { &["elif", "else", "endif"] } else { &["endif"] };
            let (body, end) = self.body(ends)?;
            branches.push((condition, body));
            let Some((word, mut words)) = end else { return self.fail("if has no end") };
            condition = if word == "elif" { Some(words.expr()?) } else { None };
            words.end()?;
            if word == "endif" {
                return Ok(StatementKind::If(branches));
            }
        }
    }

    fn for_loop(&mut self, mut words: Words<'a>) -> Result<StatementKind, ParseError> {
        let target = words.target()?;
        words.expect_name("in")?;
        let items = words.tuple_without_if()?;
        let condition = if words.take_name("if") { Some(words.expr()?) } else { None };
        let recursive = words.take_name("recursive");
        words.end()?;
        let (body, end) = self.body(&["else", "endfor"])?;
        let otherwise = match end {
            Some(("else", words)) => {
                words.end()?;
                self.until("endfor")?
            }
            Some((_, words)) => {
                words.end()?;
                Body::new()
            }
            None => Body::new(),
        };
        Ok(StatementKind::For(Box::new(For { target, items, condition, recursive, body, otherwise })))
    }

    fn set(&mut self, mut words: Words<'a>) -> Result<StatementKind, ParseError> {
        let target = words.target()?;
        if words.take("=") {
            let expr = words.tuple()?;
            words.end()?;
            return Ok(StatementKind::Set(target, expr));
        }
        let filters = if words.take("|") { words.filters()? } else { Vec::new() };
        words.end()?;
        Ok(StatementKind::SetBlock(target, filters, self.until("endset")?))
    }

    fn with(&mut self, mut words: Words<'a>) -> Result<StatementKind, ParseError> {
        let mut values = Vec::new();
        while !words.is_empty() {
            let target = Target::Name(words.name()?.into());
            words.expect("=")?;
            values.push((target, words.expr()?));
            if !words.take(",") {
                break;
            }
        }
        words.end()?;
        Ok(StatementKind::With(values, self.until("endwith")?))
    }

    fn macro_body(&mut self, name: Arc<str>, mut words: Words<'a>, end: &str) -> Result<Macro, ParseError> {
        let mut parameters = Vec::new();
        words.expect("(")?;
        while !words.take(")") {
            let name = words.name()?.into();
            let default = if words.take("=") { Some(words.expr()?) } else { None };
            parameters.push((name, default));
            if !words.take(",") {
                words.expect(")")?;
                break;
            }
        }
        words.end()?;
        Ok(Macro { name, parameters, body: self.until(end)? })
    }

    fn call_block(&mut self, mut words: Words<'a>) -> Result<StatementKind, ParseError> {
        let mut parameters = Vec::new();
        if words.take("(") {
            while !words.take(")") {
                parameters.push((words.name()?.into(), None));
                if !words.take(",") {
                    words.expect(")")?;
                    break;
                }
            }
        }
        let call = words.expr()?;
        words.end()?;
        if !matches!(&call, Expr::Postfix(_, list) if matches!(list.last(), Some(Postfix::Call(_) | Postfix::Method(..)))) {
            return self.fail("call needs a call");
        }
        let body = self.until("endcall")?;
        Ok(StatementKind::CallBlock(Box::new((Macro { name: "caller".into(), parameters, body }, call))))
    }
}

impl Token<'_> {
    /// The token as it is written in the source, for messages.
    pub(super) fn shown(&self) -> String {
        match self {
            Token::Name(name) => name.chars().take(40).collect(),
            Token::Text(_) => "a string".to_owned(),
            Token::Int(_) | Token::Float(_) => "a number".to_owned(),
            Token::Sign(sign) => (*sign).to_owned(),
        }
    }
}
