//! What the engine cannot read or gets wrong, written in another way; what it cannot stand, refused.
//!
//! - The tags `generation` and `endgeneration` mark what a model says, for training. They become a block that always runs.
//! - Slices with a step, such as `messages[::-1]`, become a call of the method [`SLICE`]: the engine panics on some of them.
//! - The engine goes down a level for each operator of an expression and each `elif`, so there must not be too many.
//!
//! All else stays as it is, and so do the numbers of lines.

use minijinja::{Error, ErrorKind, Value};

/// The method that takes the place of slices with a step.
pub(super) const SLICE: &str = "__slice__";

/// How many bytes a template may have; the largest in use have some ten thousand.
const MAX_SIZE: usize = 1 << 20;
/// How many words and signs a tag may have outside of texts; the largest in use have some sixty.
const MAX_WORDS: usize = 1000;
/// How many `elif` a template may have; those in use have up to twenty.
const MAX_ELIF: usize = 500;

/// What is too large in a template, and where.
#[derive(Debug, PartialEq)]
pub(super) struct TooLarge {
    pub(super) line: usize,
    pub(super) reason: String,
}

/// A bracket that is open.
struct Bracket {
    kind: char,
    /// Where it stands in the output.
    at: usize,
    /// Where colons directly in it stand.
    colons: Vec<usize>,
}

pub(super) fn prepare(source: &str) -> Result<String, TooLarge> {
    if source.len() > MAX_SIZE {
        return Err(TooLarge {
            line: 1,
            reason: format!("a template may have {MAX_SIZE} bytes, and this has {}", source.len()),
        });
    }
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    let mut elifs = 0;
    while let Some(at) = next_tag(rest) {
        let (text, tag) = rest.split_at(at);
        out.push_str(text);
        let start = out.len();
        let word = word(tag);
        elifs += usize::from(word == "elif");
        let mut words = 0;
        rest = match word {
            _ if tag.starts_with("{#") => copy(tag, tag.find("#}"), &mut out),
            // Nothing is a tag between these two.
            "raw" => copy(tag, tag.find("endraw"), &mut out),
            "generation" => replace(tag, word, "if true ", &mut out),
            "endgeneration" => replace(tag, word, "endif ", &mut out),
            _ => copy_tag(tag, &mut words, &mut out),
        };
        if elifs > MAX_ELIF || words > MAX_WORDS {
            let line = out[..start].matches('\n').count() + 1;
            let reason = format!("a template may have {MAX_ELIF} elif, and a tag {MAX_WORDS} words and signs");
            return Err(TooLarge { line, reason });
        }
    }
    Ok(out + rest)
}

fn next_tag(text: &str) -> Option<usize> {
    let mut braces = text.match_indices('{').map(|(at, _)| at);
    braces.find(|at| matches!(text.as_bytes().get(at + 1), Some(b'%' | b'{' | b'#')))
}

/// The first word of a statement; empty in an expression.
fn word(tag: &str) -> &str {
    let inside = tag.strip_prefix("{%").unwrap_or_default().trim_start_matches(['-', '+']).trim_start();
    inside.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// Copies to this place, or to the end, and returns what follows.
fn copy<'a>(text: &'a str, end: Option<usize>, out: &mut String) -> &'a str {
    // The two characters of what was found; if it ends there, so be it.
    let (copied, rest) = end.and_then(|end| text.split_at_checked(end + 2)).unwrap_or((text, ""));
    out.push_str(copied);
    rest
}

/// Copies to the end of a word, with another in its place, and returns what follows.
fn replace<'a>(tag: &'a str, word: &str, new: &str, out: &mut String) -> &'a str {
    let (before, rest) = tag.split_once(word).unwrap_or((tag, ""));
    out.push_str(before);
    out.push_str(new);
    rest
}

/// Copies a tag with its slices replaced, counts what is in it outside of texts, and returns what follows.
fn copy_tag<'a>(tag: &'a str, words: &mut usize, out: &mut String) -> &'a str {
    let mut in_word = false;
    let end = if tag.starts_with("{%") { "%}" } else { "}}" };
    let mut open: Vec<Bracket> = Vec::new();
    let mut characters = tag.char_indices().skip(2);
    out.push_str(&tag[..2]);
    while let Some((at, character)) = characters.next() {
        if open.is_empty() && tag[at..].starts_with(end) {
            out.push_str(end);
            return &tag[at + end.len()..];
        }
        let continues = std::mem::replace(&mut in_word, character.is_alphanumeric() || character == '_') && in_word;
        *words += usize::from(!continues && !character.is_whitespace() && character != ',');
        match character {
            '\'' | '"' => {
                out.push(character);
                while let Some((_, inside)) = characters.next() {
                    out.push(inside);
                    match inside {
                        '\\' => out.extend(characters.next().map(|(_, escaped)| escaped)),
                        _ if inside == character => break,
                        _ => {}
                    }
                }
            }
            '[' | '(' | '{' => {
                open.push(Bracket { kind: character, at: out.len(), colons: Vec::new() });
                out.push(character);
            }
            ']' | ')' | '}' => {
                let bracket = open.pop().filter(|bracket| bracket.kind == '[' && character == ']');
                match bracket.as_ref().map(|bracket| (bracket.at, bracket.colons.as_slice())) {
                    Some((at, &[first, second])) => call_slice(at, first, second, out),
                    _ => out.push(character),
                }
            }
            ':' => {
                if let Some(bracket) = open.last_mut() {
                    bracket.colons.push(out.len());
                }
                out.push(character);
            }
            _ => out.push(character),
        }
    }
    ""
}

/// Turns the slice at the end of the output into a call. Its bracket and its colons stand at these places.
fn call_slice(bracket: usize, first: usize, second: usize, out: &mut String) {
    let part = |from: usize, to: usize| match out[from + 1..to].trim() {
        "" => format!("{}none", &out[from + 1..to]),
        _ => out[from + 1..to].to_owned(),
    };
    let call = format!(".{SLICE}({},{},{})", part(bracket, first), part(first, second), part(second, out.len()));
    out.truncate(bracket);
    out.push_str(&call);
}

/// What Python's `value[start:stop:step]` is.
pub(super) fn slice(value: &Value, args: &[Value]) -> Result<Value, Error> {
    let fail = |reason: &'static str| Error::new(ErrorKind::InvalidOperation, reason);
    let [start, stop, step] = args else { return Err(fail("a slice has three parts")) };
    let bound = |value: &Value| -> Result<Option<i64>, Error> {
        if value.is_none() { Ok(None) } else { i64::try_from(value.clone()).map(Some) }
    };
    let (start, stop, step) = (bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1));
    if step == 0 {
        return Err(fail("the step of a slice cannot be 0"));
    }
    if let Some(text) = value.as_str() {
        let characters: Vec<char> = text.chars().collect();
        let chosen = indices(characters.len(), start, stop, step);
        return Ok(Value::from(chosen.filter_map(|index| characters.get(index)).collect::<String>()));
    }
    let items: Vec<Value> = value.try_iter()?.collect();
    let chosen = indices(items.len(), start, stop, step);
    Ok(Value::from(chosen.filter_map(|index| items.get(index).cloned()).collect::<Vec<_>>()))
}

/// The places that a slice takes, in its order.
fn indices(len: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> impl Iterator<Item = usize> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    // One before the first place is where a slice that runs backwards ends.
    let (low, high) = if step < 0 { (-1, len - 1) } else { (0, len) };
    let clamp = |bound: i64| if bound < 0 { bound.saturating_add(len).max(low) } else { bound.min(high) };
    let (first, last) = if step < 0 { (high, low) } else { (low, high) };
    let (start, stop) = (start.map_or(first, clamp), stop.map_or(last, clamp));
    let places = std::iter::successors(Some(start), move |place| place.checked_add(step));
    places
        .take_while(move |&place| if step < 0 { place > stop } else { place < stop })
        .filter_map(|place| usize::try_from(place).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_with_a_step_become_calls_and_nothing_else_changes() {
        for (source, expected) in [
            ("{{ m[::-1] }}", "{{ m.__slice__(none,none,-1) }}"),
            ("{% for x in a.b[1 : n[::2][0] : -1] %}", "{% for x in a.b.__slice__(1 , n.__slice__(none,none,2)[0] , -1) %}"),
            ("{{ {'a': [1, 2][::s]} }}", "{{ {'a': [1, 2].__slice__(none,none,s)} }}"),
            ("{{ '[::-1]' ~ \"\\\"[::]\" }}[::-1]{# [::-1] #}", "{{ '[::-1]' ~ \"\\\"[::]\" }}[::-1]{# [::-1] #}"),
            ("{{ m[1:] + m[:1] + {'a': 1}['a'] }}", "{{ m[1:] + m[:1] + {'a': 1}['a'] }}"),
            (
                "{% raw %}{{ m[::-1] }}{% endraw %}{{ m[\n::\n2] }}",
                "{% raw %}{{ m[::-1] }}{% endraw %}{{ m.__slice__(\nnone,none,\n2) }}",
            ),
            ("{{ unclosed [ :: ", "{{ unclosed [ :: "),
            ("{{ ) ] } }}", "{{ ) ] } }}"),
            ("{#", "{#"),
            ("{%", "{%"),
            ("é{{ 'é'[::1] }}é", "é{{ 'é'.__slice__(none,none,1) }}é"),
        ] {
            assert_eq!(prepare(source).unwrap(), expected);
        }
    }

    #[test]
    fn generation_tags_become_blocks() {
        assert_eq!(prepare("{%- generation -%}x{%endgeneration%}").unwrap(), "{%- if true  -%}x{%endif %}");
        assert_eq!(prepare("{% set generation = 1 %}{{ generation }}").unwrap(), "{% set generation = 1 %}{{ generation }}");
    }

    #[test]
    fn what_would_take_all_of_the_stack_is_refused() {
        let line = |source: &str| prepare(source).unwrap_err().line;
        assert_eq!(line(&format!("a\n{{{{ {}1 }}}}", "-".repeat(1001))), 2);
        assert_eq!(line(&format!("{{{{ 1{} }}}}", "+ 1".repeat(501))), 1);
        assert_eq!(line(&format!("{{{{ {}1 }}}}", "not ".repeat(1001))), 1);
        assert_eq!(line(&format!("{{% if a %}}{}{{% endif %}}", "\n{% elif a %}".repeat(501))), 502);
        assert_eq!(line(&" ".repeat(MAX_SIZE + 1)), 1);
        // Texts and lists may be long, and so may a template of many tags.
        assert!(prepare(&format!("{{{{ '{}' }}}}", "+ ".repeat(10_000))).is_ok());
        assert!(prepare(&format!("{{{{ [{}] }}}}", "1,".repeat(900))).is_ok());
        assert!(prepare(&"{{ 1 }}{ ".repeat(100_000)).is_ok());
    }

    #[test]
    fn slices_are_those_of_python() {
        let slice = |len, start, stop, step| indices(len, start, stop, step).collect::<Vec<_>>();
        assert_eq!(slice(3, None, None, -1), [2, 1, 0]);
        assert_eq!(slice(0, None, None, -1), [0; 0]);
        assert_eq!(slice(6, Some(5), Some(2), -1), [5, 4, 3]);
        assert_eq!(slice(6, Some(1), Some(4), -1), [0; 0]);
        assert_eq!(slice(6, Some(-2), None, 1), [4, 5]);
        assert_eq!(slice(6, None, Some(-9), -2), [5, 3, 1]);
        assert_eq!(slice(6, Some(i64::MIN), Some(i64::MAX), i64::MAX), [0]);
        assert_eq!(slice(6, Some(i64::MAX), Some(i64::MIN), i64::MIN), [5]);
    }
}
