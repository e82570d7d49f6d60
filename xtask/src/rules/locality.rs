//! An operator is named in its own folder, in the registry and in fusions, and nowhere else: deleting it must not break other code,
//! and other code must not treat it specially. What others need to know of an operator it declares.

use std::collections::{BTreeMap, BTreeSet};

use super::{File, Violation, has_extension};

/// The folder of the operators; each has a folder of its own in it.
const OPERATORS: &str = "crates/pteron-gpu/src/ops/";

/// Other library code that may name operators, with the reason.
static ALLOWED: &[(&str, &str)] = &[
    ("crates/pteron-gpu/src/ops/mod.rs", "the registry"),
    ("crates/pteron-gpu/src/fuse/", "fusions match and write particular operators"),
    ("crates/pteron-gpu/src/frontend/", "front ends translate what files call into particular operators"),
    ("crates/pteron-gpu/src/ir/append.rs", "selects the last row of an output"),
    ("crates/pteron-gpu/src/rewrite.rs", "rewrites write particular operators"),
    ("crates/pteron-gpu/src/sequences/", "rewrites attention and the selection of rows"),
    ("crates/pteron-convert/src/", "writes programs, so it names what files contain"),
    ("crates/pteron-llm/src/decode_step.rs", "appends the sampling operator to a program"),
];

pub(super) fn check(files: &[File]) -> Vec<Violation> {
    let names = registered(files);
    let folders: BTreeSet<&str> = files.iter().filter_map(|file| folder(&file.path)).collect();
    let mut violations = Vec::new();
    for file in files.iter().filter(|file| is_library(&file.path)) {
        if ALLOWED.iter().any(|(path, _)| file.path.starts_with(path)) {
            continue;
        }
        let own = folder(&file.path);
        for (number, line) in code_lines(file) {
            let named = literals(line).filter_map(|literal| names.iter().find(|(name, _)| names_operator(literal, name)));
            let named = named.map(|(name, owner)| (format!("the operator {name}"), *owner));
            let used =
                folders.iter().filter(|folder| uses_module(line, folder)).map(|folder| ("a module".to_owned(), *folder));
            for (what, owner) in named.chain(used).filter(|(_, owner)| own != Some(*owner)) {
                let message = format!(
                    "names {what} of {OPERATORS}{owner}: let the operator declare what is needed here, or share it outside"
                );
                violations.push(Violation::new(&file.path, Some(number), message));
            }
        }
    }
    violations
}

/// Every operator name with its folder, from the string literals of the operators' own files.
fn registered(files: &[File]) -> BTreeMap<&str, &str> {
    let mut names = BTreeMap::new();
    for file in files.iter().filter(|file| is_library(&file.path)) {
        let Some(folder) = folder(&file.path) else { continue };
        for (_, line) in code_lines(file) {
            for name in literals(line).filter(|literal| is_name(literal)) {
                names.entry(name).or_insert(folder);
            }
        }
    }
    names
}

/// Whether a literal has the form of an operator's name: identifiers with dots between them, and no file's ending.
fn is_name(literal: &str) -> bool {
    let mut parts = literal.split('.');
    let identifier = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    literal.contains('.') && parts.all(identifier) && !has_extension(literal, &["wgsl", "rs", "md", "json", "pte"])
}

/// Whether a literal is an operator's name, or that name without its overload (`update_cache` of `update_cache.default`).
fn names_operator(literal: &str, name: &str) -> bool {
    let without_overload = name.rsplit_once('.').map(|(stem, _)| stem).filter(|stem| stem.contains(['.', '_']));
    literal == name || without_overload == Some(literal)
}

/// Whether a line names the module of an operator's folder: `ops::add::…` or `ops::{…, add, …}`.
fn uses_module(line: &str, folder: &str) -> bool {
    let paths = line.split("ops::").skip(1);
    let is_module = |path: &str| path.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next() == Some(folder);
    paths.into_iter().any(|path| match path.strip_prefix('{') {
        Some(list) => list.split('}').next().is_some_and(|list| list.split(',').any(|item| is_module(item.trim()))),
        None => is_module(path),
    })
}

/// The folder of the operator that a file belongs to.
fn folder(path: &str) -> Option<&str> {
    path.strip_prefix(OPERATORS)?.split_once('/').map(|(folder, _)| folder)
}

fn is_library(path: &str) -> bool {
    let is_test = path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with("/testing.rs");
    path.starts_with("crates/") && path.contains("/src/") && has_extension(path, &["rs"]) && !is_test
}

/// The lines of a file that are compiled into the library: no comments, and nothing after `#[cfg(test)] mod tests {`.
fn code_lines(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let text = file.text.as_deref().unwrap_or_default();
    let tests = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..tests].lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.starts_with("//"))
}

/// The string literals of a line, without those that contain escapes or span lines.
fn literals(line: &str) -> impl Iterator<Item = &str> {
    line.split('"').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADD: &str = "const NAMES: &[&str] = &[\"aten.add.Tensor\", \"update_cache.default\"];\n";

    fn violations(path: &str, text: &str) -> Vec<String> {
        let files = [File::with_text("crates/pteron-gpu/src/ops/add/mod.rs", ADD), File::with_text(path, text)];
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn name_outside_the_folder_is_a_violation() {
        let use_it = "fn f() {}\nfn g(name: &str) -> bool { name == \"aten.add.Tensor\" }\n";
        for path in [
            "crates/pteron-gpu/src/traffic.rs",
            "crates/pteron-gpu/src/ops/mul/mod.rs",
            "crates/pteron-cli/src/inspect/state.rs",
            "crates/pteron-gpu/src/elementwise/mod.rs",
        ] {
            let found = violations(path, use_it);
            assert_eq!(found.len(), 1, "{path}: {found:?}");
            assert!(found[0].starts_with(&format!("{path}:2: names the operator aten.add.Tensor")), "{found:?}");
        }
        assert_eq!(
            violations("crates/a/src/b.rs", "    Some(\"update_cache\") => &[1],\n").len(),
            1,
            "without its overload"
        );
    }

    #[test]
    fn use_of_another_operators_module_is_a_violation() {
        for line in ["use crate::ops::add::Row;\n", "use crate::ops::{OpDef, add};\n", "    let row = ops::add::ROW;\n"] {
            assert_eq!(violations("crates/pteron-gpu/src/ops/mul/mod.rs", line).len(), 1, "{line}");
            assert_eq!(violations("crates/pteron-gpu/src/ops/add/other.rs", line), [""; 0], "{line}");
        }
        let other = "use crate::ops::{OpDef, adder};\nuse std::ops::Range;\n";
        assert_eq!(violations("crates/pteron-gpu/src/graph.rs", other), [""; 0]);
    }

    #[test]
    fn registry_fusions_converter_tests_and_comments_may_name_operators() {
        let use_it = "const ADD: &str = \"aten.add.Tensor\";\n";
        for path in [
            "crates/pteron-gpu/src/ops/add/other.rs",
            "crates/pteron-gpu/src/ops/mod.rs",
            "crates/pteron-gpu/src/fuse/residual.rs",
            "crates/pteron-convert/src/graph/calls.rs",
            "crates/pteron-gpu/src/tests/operators.rs",
            "crates/pteron-gpu/src/ops/mul/tests.rs",
            "crates/pteron-gpu/examples/bandwidth.rs",
            "fuzz/src/generate.rs",
        ] {
            assert_eq!(violations(path, use_it), [""; 0], "{path}");
        }
        assert_eq!(violations("crates/a/src/b.rs", "/// As \"aten.add.Tensor\" does.\n"), [""; 0]);
        let in_tests = format!("fn f() {{}}\n\n#[cfg(test)]\nmod tests {{\n    {use_it}}}\n");
        assert_eq!(violations("crates/a/src/b.rs", &in_tests), [""; 0]);
    }

    #[test]
    fn names_are_told_from_other_literals() {
        for name in ["aten.add.Tensor", "et_vk.prepack.default", "pteron.store", "sym_size.int", "aten._to_copy.default"] {
            assert!(is_name(name), "{name}");
        }
        for other in ["add", "copy.wgsl", "is 1.5, expected 2", "", "{}.default", "a..b"] {
            assert!(!is_name(other), "{other}");
        }
        assert!(!names_operator("add", "add.Tensor"), "too common a word");
    }
}
