//! Links of Markdown text, outside code.

use super::blocks::{Fence, comment};

/// Applies a function to the target of every link and picture, and drops the comments that are about running blocks.
pub(super) fn map_links<E>(text: &str, mut map: impl FnMut(usize, &str) -> Result<String, E>) -> Result<String, E> {
    let mut out = String::with_capacity(text.len());
    let mut inside: Option<Fence<'_>> = None;
    for (index, line) in text.lines().enumerate() {
        if let Some(fence) = &inside {
            if fence.closes(line) {
                inside = None;
            }
            out += line;
        } else if let Some(fence) = Fence::opening(line) {
            // Only rustdoc's words, which mdBook knows as well, are for a reader.
            let language = fence.info.split([',', ' ']).next().unwrap_or_default();
            let info = if language == "rust" { fence.info } else { language };
            out += &line[..line.len() - line.trim_start_matches([' ', '`']).len()];
            out += info;
            inside = Some(fence);
        } else if comment(line).is_some() {
            continue;
        } else {
            map_line(line, &mut out, &mut |target| map(index + 1, target))?;
        }
        out.push('\n');
    }
    Ok(out)
}

fn map_line<E>(line: &str, out: &mut String, map: &mut impl FnMut(&str) -> Result<String, E>) -> Result<(), E> {
    if let Some((label, target)) = definition(line) {
        out.push_str(label);
        out.push_str(&map(target)?);
        return Ok(());
    }
    let mut rest = line;
    while let Some(at) = rest.find(['`', ']']) {
        let (before, found) = rest.split_at(at);
        out.push_str(before);
        if let Some(code) = code_span(found) {
            out.push_str(code);
            rest = &found[code.len()..];
        } else if let Some(target) = link_target(found) {
            out.push_str("](");
            out.push_str(&map(target)?);
            rest = &found[2 + target.len()..];
        } else {
            out.push_str(&found[..1]);
            rest = &found[1..];
        }
    }
    out.push_str(rest);
    Ok(())
}

/// A code span at the beginning of a text: from some backticks to as many.
fn code_span(text: &str) -> Option<&str> {
    let ticks = text.bytes().take_while(|byte| *byte == b'`').count();
    if ticks == 0 {
        return None;
    }
    let mut from = ticks;
    loop {
        let at = from + text[from..].find('`')?;
        let run = text[at..].bytes().take_while(|byte| *byte == b'`').count();
        from = at + run;
        if run == ticks {
            return Some(&text[..from]);
        }
    }
}

/// The target of `](target)`, without a title.
fn link_target(text: &str) -> Option<&str> {
    let target = text.strip_prefix("](")?;
    let end = target.find([')', ' '])?;
    Some(&target[..end])
}

/// Splits `[label]: target`.
fn definition(line: &str) -> Option<(&str, &str)> {
    if !line.starts_with('[') {
        return None;
    }
    let at = line.find("]: ")? + 3;
    Some((&line[..at], line[at..].trim_end()))
}

/// The anchor that mdBook gives to a heading.
pub(super) fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || ['-', '_', ' '].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
}

/// Splits a text at its headings of the second level: the part before them, then each with its heading.
pub(super) fn sections(text: &str) -> Vec<(&str, &str)> {
    let mut starts = vec![(0, "")];
    let mut inside: Option<Fence<'_>> = None;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        match &inside {
            Some(fence) if fence.closes(line) => inside = None,
            Some(_) => {}
            None => {
                inside = Fence::opening(line);
                if let Some(heading) = line.strip_prefix("## ") {
                    starts.push((offset, heading.trim()));
                }
            }
        }
        offset += line.len();
    }
    let ends = starts.iter().skip(1).map(|(start, _)| *start).chain([text.len()]);
    starts.iter().zip(ends).map(|((start, heading), end)| (*heading, &text[*start..end])).collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn mapped(text: &str) -> String {
        map_links(text, |_, target| Ok::<_, Infallible>(format!("<{target}>"))).unwrap()
    }

    #[test]
    fn links_outside_code_are_mapped() {
        assert_eq!(mapped("See [a](b.md#c) and [`d`](e), `[x](y)`."), "See [a](<b.md#c>) and [`d`](<e>), `[x](y)`.\n");
        assert_eq!(mapped("![p](q.png \"title\") ``a`b](c)`` [one\ntwo](three)"), {
            "![p](<q.png> \"title\") ``a`b](c)`` [one\ntwo](<three>)\n"
        });
        assert_eq!(mapped("[a]: b.md\n"), "[a]: <b.md>\n");
        assert_eq!(mapped("a [b] `c"), "a [b] `c\n");
        assert_eq!(mapped("```md\n[a](b)\n```\n[c](d)"), "```md\n[a](b)\n```\n[c](<d>)\n");
    }

    #[test]
    fn words_and_comments_for_tests_are_dropped() {
        assert_eq!(mapped("<!-- output -->\n```text x\na\n```\n"), "```text\na\n```\n");
        assert_eq!(mapped("  ```rust,no_run\n  ```\n"), "  ```rust,no_run\n  ```\n");
    }

    #[test]
    fn errors_have_the_line() {
        assert_eq!(map_links("a\n[b](c)\n", |line, _| Err::<String, _>(line)), Err(2));
    }

    #[test]
    fn anchors_are_those_of_the_site() {
        assert_eq!(anchor("What `inspect --json` prints"), "what-inspect---json-prints");
    }

    #[test]
    fn sections_begin_at_headings_outside_code() {
        let text = "# T\nintro\n## A\na\n```\n## no\n```\n## B\nb\n";
        assert_eq!(sections(text), [("", "# T\nintro\n"), ("A", "## A\na\n```\n## no\n```\n"), ("B", "## B\nb\n")]);
    }
}
