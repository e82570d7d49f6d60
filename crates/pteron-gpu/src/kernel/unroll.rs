//! Loops that are unrolled in the source: iterations use separate variables instead of array elements, so that values stay
//! in registers.

/// Returns a source with `{NAME}` replaced by the count of that name, and the lines between `//#unroll name count` and its
/// `//#end` repeated, with `{name}` replaced by the iteration. Malformed directives are left as they are, which is not valid
/// WGSL.
pub(super) fn unrolled(source: &str, counts: &[(&'static str, u32)]) -> String {
    let counted = counts.iter().fold(source.to_owned(), |text, (name, count)| put(&text, name, *count));
    let mut out = String::new();
    write_out(&counted, &mut out);
    out
}

fn put(text: &str, name: &str, number: u32) -> String {
    text.replace(&format!("{{{name}}}"), &number.to_string())
}

fn write_out(source: &str, out: &mut String) {
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if let Some((name, turns)) = opened(line) {
            let body = body(&mut lines);
            (0..turns).for_each(|turn| write_out(&put(&body, name, turn), out));
        } else {
            out.push_str(line);
            out.push('\n');
        }
    }
}

/// The name and the trip count of a loop that a line opens.
fn opened(line: &str) -> Option<(&str, u32)> {
    let (name, turns) = line.trim().strip_prefix("//#unroll ")?.split_once(' ')?;
    Some((name, turns.parse().ok()?))
}

/// The lines up to the end of the loop that was just opened.
fn body(lines: &mut std::str::Lines<'_>) -> String {
    let mut body = String::new();
    let mut open = 1u32;
    for line in lines {
        open += u32::from(line.trim().starts_with("//#unroll "));
        open -= u32::from(line.trim() == "//#end");
        if open == 0 {
            break;
        }
        body.push_str(line);
        body.push('\n');
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_within_loops_are_written_out() {
        let source = "a {N}\n  //#unroll i {N}\n  b{i}\n//#unroll j 3\nc{i}{j}\n//#end\n//#end\nd\n";
        let expected = "a 2\n  b0\nc00\nc01\nc02\n  b1\nc10\nc11\nc12\nd\n";
        assert_eq!(unrolled(source, &[("N", 2)]), expected);
        assert_eq!(unrolled("//#unroll i 0\nx\n//#end\ny\n", &[]), "y\n");
    }

    #[test]
    fn a_loop_with_an_unknown_count_is_kept() {
        let source = "//#unroll i {M}\nb{i}\n//#end\n";
        assert_eq!(unrolled(source, &[("N", 2)]), source);
    }
}
