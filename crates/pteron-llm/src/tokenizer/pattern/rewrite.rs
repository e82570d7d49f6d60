//! Rewrites syntax that `regex-syntax` does not parse into syntax that it does: look-around, atomic groups and possessive repetition become
//! groups with names that [`super::compile`] knows.

/// The meaning of a group with a special name.
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

/// The class of `\w`.
pub(super) const WORD: &str = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}²³¹¼½¾";
/// The class of `\h`.
const HEX: &str = "0-9A-Fa-f";

/// The class of a POSIX name such as `[:alpha:]`. The parser knows the others.
fn posix(name: &str) -> Option<&'static str> {
    Some(match name {
        "alnum" => r"\p{Alphabetic}\p{Nd}",
        "alpha" => r"\p{Alphabetic}",
        "blank" => r"\t\p{Zs}",
        "cntrl" => r"\p{Cc}",
        "digit" => r"\p{Nd}",
        "lower" => r"\p{Lowercase}",
        "punct" => r"\p{P}\p{S}",
        "space" => r"\s",
        "upper" => r"\p{Uppercase}",
        "word" => WORD,
        _ => return None,
    })
}

/// The meaning of a group of this name.
pub(super) fn special(name: &str) -> Option<Special> {
    let name = name.strip_prefix(PREFIX)?;
    KINDS.iter().find(|(_, kind, _)| name.starts_with(kind)).map(|(.., special)| *special)
}

/// Rewrites a pattern in plain syntax. The parser reports errors in it.
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

    /// Copies a backslash and what it belongs to, or writes the set that it stands for.
    fn escape(&mut self) {
        let set = match self.rest.as_bytes().get(1) {
            Some(b'w') => Some((WORD, "")),
            Some(b'W') => Some((WORD, "^")),
            Some(b'h') => Some((HEX, "")),
            Some(b'H') => Some((HEX, "^")),
            _ => None,
        };
        if let Some((set, not)) = set {
            return self.write_set(set, not, 2);
        }
        self.copy(1);
        let Some(next) = self.rest.chars().next() else { return };
        self.copy(next.len_utf8());
        if matches!(next, 'p' | 'P' | 'x' | 'u' | 'U') && self.rest.starts_with('{') {
            self.copy(self.rest.find('}').map_or(self.rest.len(), |at| at + 1));
        }
    }

    /// Writes a set in place of the next bytes of the pattern.
    fn write_set(&mut self, set: &str, not: &str, len: usize) {
        self.out.push_str(&format!("[{not}{set}]"));
        self.rest = self.rest.get(len..).unwrap_or_default();
    }

    /// Writes the set for a class such as `[:alpha:]` or `[:^alpha:]`, if the pattern goes on with one.
    fn posix_class(&mut self) -> bool {
        let name = self.rest.strip_prefix("[:").and_then(|rest| rest.split_once(":]")).map(|(name, _)| name);
        let Some(name) = name else { return false };
        let (not, plain) = name.strip_prefix('^').map_or(("", name), |plain| ("^", plain));
        let Some(set) = posix(plain) else { return false };
        self.write_set(set, not, name.len() + "[::]".len());
        true
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
                '[' if depth > 0 && self.posix_class() => {
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
        let exact = sign == '{' && !self.rest.get(..len).is_some_and(|count| count.contains(','));
        self.copy(len);
        if self.rest.starts_with('?') && !exact {
            self.copy(1);
        } else if let (true, Some(atom)) = (self.rest.starts_with('+') && sign != '{', atom) {
            self.rest = self.rest.get(1..).unwrap_or_default();
            self.groups += 1;
            self.out.insert_str(atom, &format!("(?P<{PREFIX}atomic_{}>", self.groups));
            self.out.push(')');
        } else if self.rest.starts_with(['*', '+', '{', '?']) {
            // Repetition of a repetition: groups keep what belongs together.
            if let Some(atom) = atom {
                self.out.insert_str(atom, "(?:");
                self.out.push(')');
            }
        }
    }
}
