//! Only front ends know a file format: the rest of `pteron-gpu` works on its own graph IR.

use super::{File, Violation, has_extension};

const CRATE: &str = "crates/pteron-gpu/src/";
const FRONT_ENDS: &str = "crates/pteron-gpu/src/frontend/";
const FORMAT: &str = "pteron_format";
/// Tools of the format crate that have nothing to do with files, and adapters as they are once they have been read.
const TOOLS: [&str; 3] = ["pteron_format::adapter", "pteron_format::alloc", "pteron_format::EscapedText"];

pub(super) fn check(files: &[File]) -> Vec<Violation> {
    files.iter().filter(|file| is_checked(&file.path)).flat_map(check_file).collect()
}

/// Whether a file is product code below the front ends. Tests may read files.
fn is_checked(path: &str) -> bool {
    let test = path.contains("/tests/") || ["/tests.rs", "/testing.rs"].iter().any(|end| path.ends_with(end));
    path.starts_with(CRATE) && !path.starts_with(FRONT_ENDS) && !test && has_extension(path, &["rs"])
}

fn check_file(file: &File) -> Vec<Violation> {
    let text = file.text.as_deref().unwrap_or_default();
    // Unit tests come last in a file.
    let product = text.lines().enumerate().take_while(|(_, line)| !line.starts_with("mod tests {"));
    let code = product.filter(|(_, line)| !line.trim_start().starts_with("//"));
    let named = code.filter(|(_, line)| {
        let without_tools = TOOLS.iter().fold((*line).to_owned(), |line, tool| line.replace(tool, ""));
        without_tools.contains(FORMAT)
    });
    let message = "only front ends (`frontend/`) know a file format; use the graph IR (`crate::ir`)";
    named.map(|(index, _)| Violation::new(&file.path, Some(index + 1), message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(path: &str, text: &str) -> Vec<Option<usize>> {
        check(&[File::with_text(path, text)]).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_file_format_below_the_front_ends_is_found() {
        for text in [
            "\nuse pteron_format::vulkan::Graph;",
            "\nuse pteron_format::{Pte, vulkan};",
            "\n    let x: pteron_format::program::Value;",
            "\nuse pteron_format as format;",
        ] {
            assert_eq!(lines_of("crates/pteron-gpu/src/ops/add/mod.rs", text), [Some(2)], "{text}");
        }
    }

    #[test]
    fn front_ends_tests_and_other_crates_may_name_it() {
        let text = "use pteron_format::vulkan::Graph;\n";
        for path in [
            "crates/pteron-gpu/src/frontend/vulkan.rs",
            "crates/pteron-gpu/src/tests/operators.rs",
            "crates/pteron-gpu/src/graph/tests.rs",
            "crates/pteron-gpu/examples/kernels.rs",
            "crates/pteron/src/method.rs",
        ] {
            assert_eq!(lines_of(path, text), [], "{path}");
        }
        let unit_test = "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    use pteron_format::vulkan::Graph;\n}\n";
        assert_eq!(lines_of("crates/pteron-gpu/src/graph.rs", unit_test), []);
    }

    #[test]
    fn tools_and_comments_are_fine() {
        let text = "// pteron_format::vulkan\nuse pteron_format::alloc;\nuse pteron_format::EscapedText;\n";
        assert_eq!(lines_of("crates/pteron-gpu/src/error.rs", text), []);
    }
}
