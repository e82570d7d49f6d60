//! Compiles a parsed pattern to a program for [`super::matcher`].

use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

use super::rewrite::{Special, special};

/// The most operations of a program.
const MAX_OPERATIONS: usize = 4096;
/// The longest look-behind, in characters.
const MAX_BEHIND: usize = 256;

/// One operation. Places are indices of operations.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// One character of a set.
    One(usize),
    /// As many characters of a set as there are, of which all but `least` can be given back.
    Run {
        set: usize,
        least: u32,
        most: u32,
    },
    /// This text.
    Text(String),
    /// The first place; if that fails, the second.
    Either(usize, usize),
    Jump(usize),
    /// Notes where an iteration starts that may consume nothing.
    Start {
        counter: usize,
    },
    /// Goes back for another iteration, but for one that has consumed nothing.
    Again {
        counter: usize,
        to: usize,
        greedy: bool,
    },
    Assert(Look),
    /// Whether what follows, to `end`, matches here, or so many characters before; consumes nothing.
    Around {
        back: Option<usize>,
        negative: bool,
        end: usize,
    },
    /// An atomic group up to `end`: once matched, it does not backtrack.
    Atomic {
        end: usize,
    },
    Match,
}

/// A set of characters.
#[derive(Debug, PartialEq)]
pub(super) struct Set {
    ascii: u128,
    /// Others, in order.
    ranges: Vec<(char, char)>,
}

impl Set {
    fn new(class: &Class) -> Self {
        let ranges: Vec<(char, char)> = match class {
            Class::Unicode(class) => class.ranges().iter().map(|range| (range.start(), range.end())).collect(),
            Class::Bytes(class) => class.ranges().iter().map(|range| (range.start().into(), range.end().into())).collect(),
        };
        let has = |character: u8| ranges.iter().any(|(low, high)| (*low..=*high).contains(&character.into()));
        let ascii = (0..128u8).filter(|&character| has(character)).fold(0, |bits, character| bits | 1 << character);
        Self { ascii, ranges: ranges.into_iter().filter(|(_, high)| !high.is_ascii()).collect() }
    }

    pub(super) fn contains(&self, character: char) -> bool {
        if character.is_ascii() {
            return self.ascii >> u32::from(character) & 1 == 1;
        }
        let after = self.ranges.partition_point(|(_, high)| *high < character);
        self.ranges.get(after).is_some_and(|(low, _)| *low <= character)
    }
}

/// A compiled pattern.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) operations: Vec<Operation>,
    pub(super) sets: Vec<Set>,
    pub(super) counters: usize,
    /// Whether what is tried at a place depends on nothing but the operation.
    pub(super) is_plain: bool,
}

impl Program {
    pub(super) fn new(hir: &Hir) -> Result<Self, String> {
        let mut compiler = Compiler { program: Self::default(), classes: Vec::new() };
        compiler.add(hir)?;
        compiler.push(Operation::Match)?;
        let mut program = compiler.program;
        let around = |operation: &Operation| matches!(operation, Operation::Around { .. } | Operation::Atomic { .. });
        program.is_plain = program.counters == 0 && !program.operations.iter().any(around);
        Ok(program)
    }
}

struct Compiler {
    program: Program,
    /// The classes that the sets were compiled from.
    classes: Vec<Class>,
}

impl Compiler {
    fn here(&self) -> usize {
        self.program.operations.len()
    }

    fn push(&mut self, operation: Operation) -> Result<usize, String> {
        if self.here() >= MAX_OPERATIONS {
            return Err("a pattern is too large: it repeats too much too often".to_owned());
        }
        self.program.operations.push(operation);
        Ok(self.here() - 1)
    }

    fn replace(&mut self, at: usize, operation: Operation) {
        if let Some(place) = self.program.operations.get_mut(at) {
            *place = operation;
        }
    }

    fn set(&mut self, class: &Class) -> usize {
        self.classes.iter().position(|known| known == class).unwrap_or_else(|| {
            self.classes.push(class.clone());
            self.program.sets.push(Set::new(class));
            self.classes.len() - 1
        })
    }

    /// The set that a part is, if it is one character of a set.
    fn as_set(&mut self, hir: &Hir) -> Option<usize> {
        match hir.kind() {
            HirKind::Class(class) => Some(self.set(class)),
            HirKind::Literal(literal) => {
                let mut characters = std::str::from_utf8(&literal.0).ok()?.chars();
                let only = characters.next().filter(|_| characters.next().is_none())?;
                let range = regex_syntax::hir::ClassUnicodeRange::new(only, only);
                Some(self.set(&Class::Unicode(regex_syntax::hir::ClassUnicode::new([range]))))
            }
            HirKind::Capture(capture) if capture.name.as_deref().and_then(special).is_none() => self.as_set(&capture.sub),
            _ => None,
        }
    }

    fn add(&mut self, hir: &Hir) -> Result<(), String> {
        match hir.kind() {
            HirKind::Empty => {}
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).map_err(|_| "a pattern has bytes that are no text")?;
                self.push(Operation::Text(text.to_owned()))?;
            }
            HirKind::Class(class) => {
                let set = self.set(class);
                self.push(Operation::One(set))?;
            }
            HirKind::Look(look) => {
                self.push(Operation::Assert(*look))?;
            }
            HirKind::Repetition(repetition) => self.repeat(repetition)?,
            HirKind::Capture(capture) => match capture.name.as_deref().and_then(special) {
                Some(special) => self.special(special, &capture.sub)?,
                None => self.add(&capture.sub)?,
            },
            HirKind::Concat(parts) => parts.iter().try_for_each(|part| self.add(part))?,
            HirKind::Alternation(parts) => self.alternatives(parts)?,
        }
        Ok(())
    }

    fn special(&mut self, special: Special, hir: &Hir) -> Result<(), String> {
        let at = self.push(Operation::Match)?;
        self.add(hir)?;
        let end = self.push(Operation::Match)? + 1;
        let operation = match special {
            Special::Atomic => Operation::Atomic { end },
            Special::Ahead { negative } => Operation::Around { back: None, negative, end },
            Special::Behind { negative } => {
                let back = characters(hir).filter(|back| *back <= MAX_BEHIND);
                let back = back.ok_or("a pattern has a look-behind without a fixed length, or a too long one")?;
                Operation::Around { back: Some(back), negative, end }
            }
        };
        self.replace(at, operation);
        Ok(())
    }

    fn alternatives(&mut self, parts: &[Hir]) -> Result<(), String> {
        let mut jumps = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            if index + 1 == parts.len() {
                self.add(part)?;
                continue;
            }
            let either = self.push(Operation::Match)?;
            self.add(part)?;
            jumps.push(self.push(Operation::Match)?);
            self.replace(either, Operation::Either(either + 1, self.here()));
        }
        let end = self.here();
        jumps.into_iter().for_each(|jump| self.replace(jump, Operation::Jump(end)));
        Ok(())
    }

    fn repeat(&mut self, repetition: &Repetition) -> Result<(), String> {
        let Repetition { min: least, max: most, greedy, sub } = repetition;
        if *greedy && let Some(set) = self.as_set(sub) {
            self.push(Operation::Run { set, least: *least, most: most.unwrap_or(u32::MAX) })?;
            return Ok(());
        }
        for _ in 0..*least {
            let before = self.here();
            self.add(sub)?;
            if self.here() == before {
                return Ok(());
            }
        }
        match most {
            None => self.repeat_without_end(sub, *greedy),
            Some(most) => self.repeat_up_to(most.saturating_sub(*least), sub, *greedy),
        }
    }

    fn either(greedy: bool, inside: usize, outside: usize) -> Operation {
        if greedy { Operation::Either(inside, outside) } else { Operation::Either(outside, inside) }
    }

    fn repeat_without_end(&mut self, sub: &Hir, greedy: bool) -> Result<(), String> {
        let either = self.push(Operation::Match)?;
        if !nullable(sub) {
            self.add(sub)?;
            self.push(Operation::Jump(either))?;
            self.replace(either, Self::either(greedy, either + 1, self.here()));
            return Ok(());
        }
        let counter = self.program.counters;
        self.program.counters += 1;
        let start = self.push(Operation::Start { counter })?;
        self.add(sub)?;
        self.push(Operation::Again { counter, to: start, greedy })?;
        self.replace(either, Self::either(greedy, either + 1, self.here()));
        Ok(())
    }

    fn repeat_up_to(&mut self, count: u32, sub: &Hir, greedy: bool) -> Result<(), String> {
        let mut choices = Vec::new();
        for _ in 0..count {
            choices.push(self.push(Operation::Match)?);
            let before = self.here();
            self.add(sub)?;
            if self.here() == before {
                break;
            }
        }
        let end = self.here();
        choices.into_iter().for_each(|at| self.replace(at, Self::either(greedy, at + 1, end)));
        Ok(())
    }
}

/// Whether a part can match nothing.
fn nullable(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => true,
        HirKind::Literal(_) | HirKind::Class(_) => false,
        HirKind::Repetition(repetition) => repetition.min == 0 || nullable(&repetition.sub),
        HirKind::Capture(capture) => match capture.name.as_deref().and_then(special) {
            Some(Special::Ahead { .. } | Special::Behind { .. }) => true,
            _ => nullable(&capture.sub),
        },
        HirKind::Concat(parts) => parts.iter().all(nullable),
        HirKind::Alternation(parts) => parts.iter().any(nullable),
    }
}

/// How many characters every match of a part has, if that is always the same.
fn characters(hir: &Hir) -> Option<usize> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Some(0),
        HirKind::Literal(literal) => Some(std::str::from_utf8(&literal.0).ok()?.chars().count()),
        HirKind::Class(_) => Some(1),
        HirKind::Repetition(repetition) => {
            let count = usize::try_from(repetition.min).ok().filter(|_| repetition.max == Some(repetition.min))?;
            characters(&repetition.sub)?.checked_mul(count)
        }
        HirKind::Capture(capture) => match capture.name.as_deref().and_then(special) {
            Some(Special::Ahead { .. } | Special::Behind { .. }) => Some(0),
            _ => characters(&capture.sub),
        },
        HirKind::Concat(parts) => parts.iter().try_fold(0usize, |sum, part| sum.checked_add(characters(part)?)),
        HirKind::Alternation(parts) => {
            let first = characters(parts.first()?)?;
            parts.iter().all(|part| characters(part) == Some(first)).then_some(first)
        }
    }
}
