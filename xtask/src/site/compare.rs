//! Compares what a command prints with what a page shows.

/// Stands for any characters of a line, or, alone on a line, for any lines.
const ANYTHING: &str = "...";

/// Checks that the output is the shown one; the error is a sentence with both.
pub(super) fn compare(shown: &str, output: &str) -> Result<(), String> {
    let lines = |text: &str| text.trim_end().lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    let (shown_lines, output_lines) = (lines(shown), lines(output));
    if fits(&shown_lines, &output_lines, &|line| line == ANYTHING, &|shown, line| fits_line(shown, line)) {
        return Ok(());
    }
    Err(format!("the page shows\n{}\nbut this was printed\n{}", indent(shown), indent(output)))
}

/// Whether quoted lines are in a text, in one place, with gaps where the quotation has `...`.
pub(super) fn quotes(quoted: &str, text: &str) -> bool {
    // The indentation of a quotation is its own: that of its lines relative to each other counts.
    let quoted: Vec<String> = without_indentation(quoted);
    let text: Vec<&str> = text.lines().map(str::trim_end).collect();
    (0..text.len()).any(|start| begins_with(&quoted, &text[start..]))
}

fn begins_with(quoted: &[String], text: &[&str]) -> bool {
    let Some(first) = text.first() else { return false };
    let indentation = &first[..first.len() - first.trim_start().len()];
    let own = |line: &str| line.strip_prefix(indentation).unwrap_or(line).to_owned();
    let text: Vec<String> = text.iter().map(|line| own(line)).collect();
    let mut parts = quoted.split(|line| line.trim() == ANYTHING);
    let Some(head) = parts.next() else { return true };
    if !text.starts_with(head) {
        return false;
    }
    let mut rest = &text[head.len()..];
    for part in parts {
        let Some(at) = (0..=rest.len()).find(|at| rest[*at..].starts_with(part)) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

fn without_indentation(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
    let width = |line: &&&str| line.len() - line.trim_start().len();
    let least = lines.iter().filter(|line| !line.is_empty()).map(|line| width(&line)).min().unwrap_or(0);
    lines.iter().map(|line| line.get(least..).unwrap_or_default().to_owned()).collect()
}

/// Whether items fit a pattern in which some items stand for any number of items.
fn fits<P, T>(pattern: &[P], items: &[T], any: &dyn Fn(&P) -> bool, one: &dyn Fn(&P, &T) -> bool) -> bool {
    // `reached[i]`: the pattern so far fits the first `i` items.
    let mut reached = vec![false; items.len() + 1];
    reached[0] = true;
    for part in pattern {
        let mut next = vec![false; items.len() + 1];
        for index in 0..=items.len() {
            next[index] = if any(part) {
                reached[index] || index > 0 && next[index - 1]
            } else {
                index > 0 && reached[index - 1] && one(part, &items[index - 1])
            };
        }
        reached = next;
    }
    reached[items.len()]
}

fn fits_line(shown: &str, line: &str) -> bool {
    let parts: Vec<&str> = shown.split(ANYTHING).collect();
    let [head, middle @ .., tail] = &parts[..] else { return shown == line };
    let Some(mut rest) = line.strip_prefix(head) else { return false };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(tail)
}

fn indent(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_compared_line_by_line() {
        assert!(compare("a\nb\n", "a  \nb").is_ok());
        assert!(compare("a\n", "a\nb\n").is_err() && compare("a\nb\n", "a\n").is_err() && compare("a", "b").is_err());
        assert_eq!(compare("a", "b").unwrap_err(), "the page shows\n    a\nbut this was printed\n    b");
    }

    #[test]
    fn dots_stand_for_anything() {
        assert!(compare("...\nb\n...\n", "a\nb\n").is_ok() && compare("...\n", "").is_ok());
        assert!(compare("a\n...\na\n", "a\nb\na\nb\na").is_ok());
        assert!(compare("took ... ms", "took 1.5 ms").is_ok() && compare("took ...", "took").is_err());
        assert!(compare("a ... b ... c", "a 1 b 2 b 3 c").is_ok() && compare("a...a", "a").is_err());
        assert!(compare("...\nb\n", "a\nc").is_err());
    }

    #[test]
    fn quotations_keep_their_own_indentation() {
        let text = "mod a {\n    fn f() {\n        one();\n        two();\n        three();\n    }\n}\n";
        assert!(quotes("fn f() {\n    one();\n", text) && quotes("one();\ntwo();", text));
        assert!(quotes("fn f() {\n    ...\n    three();\n}\n", text));
        assert!(!quotes("one();\nthree();", text) && !quotes("fn f() {\none();\n", text));
        assert!(!quotes("fn f() {\n    ...\n    four();\n", text));
    }
}
