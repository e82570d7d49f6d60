//! The syntax tree of a template. Sequences are flat lists, so that depth comes from nesting only.

use std::sync::Arc;

use super::value::Value;

/// An expression.
#[derive(Debug)]
pub(super) enum Expr {
    Constant(Value),
    Name(Arc<str>),
    List(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    /// Postfix operations, applied in order.
    Postfix(Box<Expr>, Vec<Postfix>),
    /// A number of minus signs before a value.
    Negative(usize, Box<Expr>),
    /// A number of `not` operators before a value.
    Not(usize, Box<Expr>),
    /// Operators of one precedence, from left to right.
    Chain(Box<Expr>, Vec<(Operator, Expr)>),
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    All(Vec<Expr>),
    Any(Vec<Expr>),
    /// A conditional expression.
    Choice(Box<(Expr, Expr, Option<Expr>)>),
}

/// A postfix operation.
#[derive(Debug)]
pub(super) enum Postfix {
    Attribute(Arc<str>),
    Item(Expr),
    Slice(Box<[Option<Expr>; 3]>),
    Call(Arguments),
    Method(Arc<str>, Arguments),
    Filter(Arc<str>, Arguments),
    Test { name: Arc<str>, arguments: Arguments, negated: bool },
}

/// The arguments of a call.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) positional: Vec<Expr>,
    pub(super) named: Vec<(Arc<str>, Expr)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
    Concatenate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

/// The target of an assignment.
#[derive(Debug)]
pub(super) enum Target {
    Name(Arc<str>),
    /// An attribute of a namespace.
    Attribute(Arc<str>, Arc<str>),
    /// Several names, for unpacking.
    Names(Vec<Arc<str>>),
}

/// A statement and the line it is in.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) line: usize,
    pub(super) kind: StatementKind,
}

pub(super) type Body = Vec<Statement>;

#[derive(Debug)]
pub(super) enum StatementKind {
    Text(String),
    Emit(Expr),
    Do(Expr),
    /// Conditions with their bodies; a missing condition is always true.
    If(Vec<(Option<Expr>, Body)>),
    For(Box<For>),
    Set(Target, Expr),
    /// Assigns the body's output, filtered, to the target.
    SetBlock(Target, Vec<Postfix>, Body),
    Filter(Vec<Postfix>, Body),
    With(Vec<(Target, Expr)>, Body),
    Macro(Box<Macro>),
    /// Calls a macro that can render the body.
    CallBlock(Box<(Macro, Expr)>),
    Block(Body),
    Break,
    Continue,
}

#[derive(Debug)]
pub(super) struct For {
    pub(super) target: Target,
    pub(super) items: Expr,
    pub(super) condition: Option<Expr>,
    pub(super) recursive: bool,
    pub(super) body: Body,
    pub(super) otherwise: Body,
}

#[derive(Debug)]
pub(super) struct Macro {
    pub(super) name: Arc<str>,
    pub(super) parameters: Vec<(Arc<str>, Option<Expr>)>,
    pub(super) body: Body,
}
