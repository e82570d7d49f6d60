//! What `regex-syntax` does not read, written so that it does: look-around, atomic groups and possessive repetition become
//! groups with names that [`super::compile`] knows.

/// What a group with a special name is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Special {
    Ahead { negative: bool },
    Behind { negative: bool },
    Atomic,
}

const PREFIX: &str = "pteron_";
const KINDS: [(&str, &str, Special); 5] = [
    ("(?=", "ahead_", Special::Ahead { negative: false }),
    ("(?!", "notahead_", Special::Ahead { negative: true }),
    ("(?<=", "behind_", Special::Behind { negative: false }),
    ("(?<!", "notbehind_", Special::Behind { negative: true }),
    ("(?>", "atomic_", Special::Atomic),
];

/// What a group of this name is.
pub(super) fn special(name: &str) -> Option<Special> {
    let name = name.strip_prefix(PREFIX)?;
    KINDS.iter().find(|(_, kind, _)| name.starts_with(kind)).map(|(.., special)| *special)
}

/// The pattern in plain syntax. What is wrong with it, its parser says.
pub(super) fn to_plain(pattern: &str) -> String {
    let mut rewriter = Rewriter { rest: pattern, out: String::new(), groups: 0 };
    rewriter.run();
    rewriter.out
}

struct Rewriter<'a> {
    rest: &'a str,
    out: String,
    groups: usize,
}

impl Rewriter<'_> {
    fn run(&mut self) {
        // Where open groups start, and where the last thing starts that can be repeated.
        let (mut open, mut atom) = (Vec::new(), None);
        while let Some(next) = self.rest.chars().next() {
            let start = self.out.len();
            match next {
                '\\' => {
                    self.escape();
                    atom = Some(start);
                }
                '[' => {
                    self.class();
                    atom = Some(start);
                }
                '(' => {
                    self.group();
                    open.push(start);
                    atom = None;
                }
                ')' => {
                    self.copy(1);
                    atom = open.pop();
                }
                '|' => {
                    self.copy(1);
                    atom = None;
                }
                '*' | '+' | '?' | '{' => self.repetition(next, atom),
                _ => {
                    self.copy(next.len_utf8());
                    atom = Some(start);
                }
            }
        }
    }

    fn copy(&mut self, len: usize) {
        let (copied, rest) = self.rest.split_at_checked(len).unwrap_or((self.rest, ""));
        self.out.push_str(copied);
        self.rest = rest;
    }

    /// Copies a backslash and what it belongs to.
    fn escape(&mut self) {
        self.copy(1);
        let Some(next) = self.rest.chars().next() else { return };
        self.copy(next.len_utf8());
        if matches!(next, 'p' | 'P' | 'x' | 'u' | 'U') && self.rest.starts_with('{') {
            self.copy(self.rest.find('}').map_or(self.rest.len(), |at| at + 1));
        }
    }

    /// Copies a class in brackets, with classes inside it.
    fn class(&mut self) {
        let (mut depth, mut first) = (0usize, false);
        while let Some(next) = self.rest.chars().next() {
            match next {
                '\\' => {
                    self.escape();
                    first = false;
                    continue;
                }
                '[' => {
                    depth += 1;
                    first = true;
                    self.copy(1);
                    if self.rest.starts_with('^') {
                        self.copy(1);
                    }
                    continue;
                }
                // A bracket that comes first is itself.
                ']' if !first => depth -= 1,
                _ => {}
            }
            first = false;
            self.copy(next.len_utf8());
            if depth == 0 {
                return;
            }
        }
    }

    fn group(&mut self) {
        let kind = KINDS.iter().find(|(opening, ..)| self.rest.starts_with(opening));
        let Some((opening, kind, _)) = kind else { return self.copy(1) };
        self.groups += 1;
        self.out.push_str(&format!("(?P<{PREFIX}{kind}{}>", self.groups));
        self.rest = self.rest.get(opening.len()..).unwrap_or_default();
    }

    /// Copies how often something is repeated. Where it gives nothing back (`a++`), it becomes an atomic group.
    fn repetition(&mut self, sign: char, atom: Option<usize>) {
        let len = if sign == '{' { self.rest.find('}').map_or(self.rest.len(), |at| at + 1) } else { 1 };
        self.copy(len);
        if self.rest.starts_with('?') {
            self.copy(1);
        } else if let (true, Some(atom)) = (self.rest.starts_with('+'), atom) {
            self.rest = self.rest.get(1..).unwrap_or_default();
            self.groups += 1;
            self.out.insert_str(atom, &format!("(?P<{PREFIX}atomic_{}>", self.groups));
            self.out.push(')');
        } else if self.rest.starts_with(['*', '+', '{']) {
            // Repetition of a repetition: groups keep what belongs together.
            if let Some(atom) = atom {
                self.out.insert_str(atom, "(?:");
                self.out.push(')');
            }
        }
    }
}
