//! Parses the tokens of a tag into expressions.

use std::sync::Arc;

use super::ast::{Arguments, Comparison, Expr, Operator, Postfix, Target};
use super::budget::Limit;
use super::lexer::{SyntaxError, Token};
use super::parser::{MAX_DEPTH, ParseError};
use super::value::Value;

/// The tokens of a tag that have not been parsed.
#[derive(Debug)]
pub(super) struct Words<'a> {
    tokens: std::vec::IntoIter<Token<'a>>,
    line: usize,
    depth: usize,
}

type Parsed<T> = Result<T, ParseError>;

/// Operators by precedence: later ones bind more tightly.
const RANKS: [&[(&str, Operator)]; 4] = [
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[("~", Operator::Concatenate)],
    &[("*", Operator::Multiply), ("/", Operator::Divide), ("//", Operator::FloorDivide), ("%", Operator::Remainder)],
    &[("**", Operator::Power)],
];

const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::Unequal),
    ("<", Comparison::Less),
    ("<=", Comparison::LessOrEqual),
    (">", Comparison::Greater),
    (">=", Comparison::GreaterOrEqual),
];

/// Keywords, which are not names.
const RESERVED: [&str; 8] = ["and", "or", "not", "in", "is", "if", "else", "recursive"];

impl<'a> Words<'a> {
    /// Creates a parser for the tokens of a tag, with its line and the number of enclosing blocks.
    pub(super) fn new(tokens: Vec<Token<'a>>, line: usize, depth: usize) -> Self {
        Self { tokens: tokens.into_iter(), line, depth }
    }

    fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.as_slice().first()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.peek().is_none()
    }

    fn unexpected<T>(&self, wanted: &str) -> Parsed<T> {
        let found = self.peek().map_or_else(|| "the end of the tag".to_owned(), Token::shown);
        Err(SyntaxError { line: self.line, reason: format!("unexpected {found}, expected {wanted}") }.into())
    }

    /// Fails unless all tokens are parsed.
    pub(super) fn end(&self) -> Parsed<()> {
        if self.is_empty() { Ok(()) } else { self.unexpected("the end of the tag") }
    }

    /// Consumes a punctuation token if it is next.
    pub(super) fn take(&mut self, sign: &str) -> bool {
        let next = matches!(self.peek(), Some(Token::Sign(next)) if *next == sign);
        if next {
            self.tokens.next();
        }
        next
    }

    pub(super) fn expect(&mut self, sign: &str) -> Parsed<()> {
        if self.take(sign) { Ok(()) } else { self.unexpected(sign) }
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.peek(), Some(Token::Name(next)) if *next == name)
    }

    /// Consumes a keyword if it is next.
    pub(super) fn take_name(&mut self, name: &str) -> bool {
        let next = self.is_name(name);
        if next {
            self.tokens.next();
        }
        next
    }

    pub(super) fn expect_name(&mut self, name: &str) -> Parsed<()> {
        if self.take_name(name) { Ok(()) } else { self.unexpected(name) }
    }

    /// Consumes any word if one is next.
    pub(super) fn skip_name(&mut self) {
        if matches!(self.peek(), Some(Token::Name(_))) {
            self.tokens.next();
        }
    }

    pub(super) fn name(&mut self) -> Parsed<&'a str> {
        match self.peek() {
            Some(Token::Name(name)) => {
                let name = *name;
                self.tokens.next();
                Ok(name)
            }
            _ => self.unexpected("a name"),
        }
    }

    /// The target of an assignment.
    pub(super) fn target(&mut self) -> Parsed<Target> {
        let parens = self.take("(");
        let first: Arc<str> = self.name()?.into();
        if !parens && self.take(".") {
            return Ok(Target::Attribute(first, self.name()?.into()));
        }
        let mut names = vec![Arc::clone(&first)];
        let mut several = false;
        while self.take(",") {
            several = true;
            if matches!(self.peek(), Some(Token::Name(name)) if !RESERVED.contains(name)) {
                names.push(self.name()?.into());
            }
        }
        if parens {
            self.expect(")")?;
        }
        Ok(if several { Target::Names(names) } else { Target::Name(first) })
    }

    /// Enters brackets, up to the depth limit.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ParseError::Limit { line: self.line, limit: Limit::Depth });
        }
        let parsed = parse(self)?;
        self.depth -= 1;
        Ok(parsed)
    }

    /// An expression, or several with commas between them, which are a list.
    pub(super) fn tuple(&mut self) -> Parsed<Expr> {
        let first = self.expr()?;
        self.rest_of_tuple(first)
    }

    /// The same, but a condition after it belongs to the enclosing expression.
    pub(super) fn tuple_without_if(&mut self) -> Parsed<Expr> {
        let first = self.any()?;
        self.rest_of_tuple(first)
    }

    fn rest_of_tuple(&mut self, first: Expr) -> Parsed<Expr> {
        if !matches!(self.peek(), Some(Token::Sign(","))) {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.take(",") {
            if matches!(self.peek(), None | Some(Token::Sign(")"))) {
                break;
            }
            items.push(self.expr()?);
        }
        Ok(Expr::List(items))
    }

    /// An expression.
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        let value = self.any()?;
        if !self.take_name("if") {
            return Ok(value);
        }
        let condition = self.any()?;
        let otherwise = if self.take_name("else") { Some(self.deeper(Self::expr)?) } else { None };
        Ok(Expr::Choice(Box::new((condition, value, otherwise))))
    }

    fn any(&mut self) -> Parsed<Expr> {
        let mut all = vec![self.all()?];
        while self.take_name("or") {
            all.push(self.all()?);
        }
        Ok(if all.len() > 1 { Expr::Any(all) } else { all.swap_remove(0) })
    }

    fn all(&mut self) -> Parsed<Expr> {
        let mut all = vec![self.not()?];
        while self.take_name("and") {
            all.push(self.not()?);
        }
        Ok(if all.len() > 1 { Expr::All(all) } else { all.swap_remove(0) })
    }

    fn not(&mut self) -> Parsed<Expr> {
        let mut count = 0;
        while self.take_name("not") {
            count += 1;
        }
        let value = self.comparison()?;
        Ok(if count > 0 { Expr::Not(count, Box::new(value)) } else { value })
    }

    fn comparison(&mut self) -> Parsed<Expr> {
        let first = self.chain(0)?;
        let mut others = Vec::new();
        loop {
            let comparison = match self.peek() {
                Some(Token::Sign(sign)) => COMPARISONS.iter().find(|(known, _)| known == sign).map(|(_, kind)| *kind),
                Some(Token::Name("in")) => Some(Comparison::In),
                Some(Token::Name("not")) if matches!(self.tokens.as_slice().get(1), Some(Token::Name("in"))) => {
                    self.tokens.next();
                    Some(Comparison::NotIn)
                }
                _ => None,
            };
            let Some(comparison) = comparison else { break };
            self.tokens.next();
            others.push((comparison, self.chain(0)?));
        }
        Ok(if others.is_empty() { first } else { Expr::Compare(Box::new(first), others) })
    }

    /// Values with operators of this rank between them.
    fn chain(&mut self, rank: usize) -> Parsed<Expr> {
        let Some(operators) = RANKS.get(rank) else { return self.negative() };
        let first = self.chain(rank + 1)?;
        let mut others = Vec::new();
        while let Some(Token::Sign(sign)) = self.peek() {
            let Some((_, operator)) = operators.iter().find(|(known, _)| known == sign) else { break };
            self.tokens.next();
            others.push((*operator, self.chain(rank + 1)?));
        }
        Ok(if others.is_empty() { first } else { Expr::Chain(Box::new(first), others) })
    }

    fn negative(&mut self) -> Parsed<Expr> {
        let mut count = 0;
        loop {
            if self.take("-") {
                count += 1;
            } else if !self.take("+") {
                break;
            }
        }
        let value = self.primary()?;
        if count == 0 {
            return self.postfix(value, true);
        }
        // A minus sign comes before filters and tests, but after all else.
        let value = self.postfix(value, false)?;
        self.postfix(Expr::Negative(count, Box::new(value)), true)
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let Some(token) = self.peek().cloned() else { return self.unexpected("a value") };
        if matches!(&token, Token::Name(name) if RESERVED.contains(name)) {
            return self.unexpected("a value");
        }
        if matches!(&token, Token::Sign(sign) if !matches!(*sign, "(" | "[" | "{")) {
            return self.unexpected("a value");
        }
        self.tokens.next();
        Ok(match token {
            Token::Name("true" | "True") => Expr::Constant(Value::Bool(true)),
            Token::Name("false" | "False") => Expr::Constant(Value::Bool(false)),
            Token::Name("none" | "None") => Expr::Constant(Value::None),
            Token::Name(name) => Expr::Name(name.into()),
            Token::Int(value) => Expr::Constant(Value::Int(value)),
            Token::Float(value) => Expr::Constant(Value::Float(value)),
            Token::Text(mut text) => {
                // Adjacent strings are concatenated.
                while let Some(Token::Text(more)) = self.peek() {
                    text.push_str(more);
                    self.tokens.next();
                }
                Expr::Constant(Value::Text(text.into()))
            }
            Token::Sign("(") => self.deeper(|words| {
                if words.take(")") {
                    return Ok(Expr::List(Vec::new()));
                }
                let inside = words.tuple()?;
                words.expect(")").map(|()| inside)
            })?,
            Token::Sign("[") => Expr::List(self.deeper(|words| words.list("]", Self::expr))?),
            Token::Sign(_) => Expr::Dict(self.deeper(|words| {
                words.list("}", |words| {
                    let key = words.expr()?;
                    words.expect(":")?;
                    Ok((key, words.expr()?))
                })
            })?),
        })
    }

    /// Parses comma-separated items up to a closing token.
    fn list<T>(&mut self, end: &str, item: impl Fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        while !self.take(end) {
            items.push(item(self)?);
            if !self.take(",") {
                self.expect(end)?;
                break;
            }
        }
        Ok(items)
    }

    fn postfix(&mut self, value: Expr, filters: bool) -> Parsed<Expr> {
        let mut list = Vec::new();
        loop {
            if self.take(".") {
                list.push(self.attribute()?);
            } else if self.take("[") {
                let item = self.deeper(Self::subscript)?;
                list.push(item);
            } else if self.take("(") {
                let arguments = self.deeper(Self::arguments)?;
                list.push(Postfix::Call(arguments));
            } else if filters && self.take("|") {
                list.push(self.filter()?);
            } else if filters && self.take_name("is") {
                list.push(self.test()?);
            } else {
                break;
            }
        }
        Ok(if list.is_empty() { value } else { Expr::Postfix(Box::new(value), list) })
    }

    fn attribute(&mut self) -> Parsed<Postfix> {
        if let Some(Token::Int(index)) = self.peek() {
            let index = Expr::Constant(Value::Int(*index));
            self.tokens.next();
            return Ok(Postfix::Item(index));
        }
        let name: Arc<str> = self.name()?.into();
        if !self.take("(") {
            return Ok(Postfix::Attribute(name));
        }
        Ok(Postfix::Method(name, self.deeper(Self::arguments)?))
    }

    fn subscript(&mut self) -> Parsed<Postfix> {
        let mut parts = [None, None, None];
        let mut colons = 0;
        loop {
            if self.take("]") {
                break;
            }
            if self.take(":") {
                colons += 1;
                if colons > 2 {
                    return self.unexpected("]");
                }
                continue;
            }
            let part = self.tuple()?;
            match parts.get_mut(colons) {
                Some(place @ None) => *place = Some(part),
                _ => return self.unexpected("]"),
            }
        }
        match (colons, parts) {
            (0, [Some(item), ..]) => Ok(Postfix::Item(item)),
            (0, _) => self.unexpected("an index"),
            (_, parts) => Ok(Postfix::Slice(Box::new(parts))),
        }
    }

    fn arguments(&mut self) -> Parsed<Arguments> {
        let mut arguments = Arguments::default();
        while !self.take(")") {
            let named = matches!(self.tokens.as_slice(), [Token::Name(_), Token::Sign("="), ..]);
            if named {
                let name = self.name()?.into();
                self.expect("=")?;
                arguments.named.push((name, self.expr()?));
            } else {
                arguments.positional.push(self.expr()?);
            }
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(arguments)
    }

    fn filter(&mut self) -> Parsed<Postfix> {
        let name = self.name()?.into();
        let arguments = if self.take("(") { self.deeper(Self::arguments)? } else { Arguments::default() };
        Ok(Postfix::Filter(name, arguments))
    }

    /// Filters, one after the other.
    pub(super) fn filters(&mut self) -> Parsed<Vec<Postfix>> {
        let mut filters = vec![self.filter()?];
        while self.take("|") {
            filters.push(self.filter()?);
        }
        Ok(filters)
    }

    fn test(&mut self) -> Parsed<Postfix> {
        let negated = self.take_name("not");
        let name = match self.peek() {
            Some(Token::Name(name)) => (*name).into(),
            Some(Token::Sign(sign)) if COMPARISONS.iter().any(|(known, _)| known == sign) => (*sign).into(),
            _ => return self.unexpected("a test"),
        };
        self.tokens.next();
        let mut arguments = Arguments::default();
        if self.take("(") {
            arguments = self.deeper(Self::arguments)?;
        } else {
            let operand = match self.peek() {
                Some(Token::Name(name)) => !RESERVED.contains(name),
                Some(Token::Sign(sign)) => matches!(*sign, "[" | "{"),
                Some(_) => true,
                None => false,
            };
            if operand {
                let value = self.primary()?;
                arguments.positional.push(self.postfix(value, false)?);
            }
        }
        Ok(Postfix::Test { name, arguments, negated })
    }
}
