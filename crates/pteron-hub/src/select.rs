//! Which files of a repository belong to a program.

use crate::error::{Error, Result};
use crate::path::{ancestors, has_extension, split};
use crate::pattern;

/// Files that a program is used with, where they are beside it or in a folder above it.
#[cfg(feature = "download")]
const SIDECARS: [&str; 12] = [
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer.bin",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "pteron.json",
];

/// Chooses a program: the one that `wanted` names, by path, by file name or by pattern, else the only one.
pub(crate) fn program<'a>(model: &str, paths: &[&'a str], wanted: Option<&str>, pulled: bool) -> Result<&'a str> {
    let programs: Vec<&str> = paths.iter().copied().filter(|path| has_extension(path, "pte")).collect();
    let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    let found: Vec<&str> = match wanted {
        None => programs.clone(),
        Some(wanted) => match programs.iter().find(|path| **path == wanted) {
            Some(exact) => vec![exact],
            None => {
                let is = |path: &str| pattern::matches(wanted, path) || pattern::matches(wanted, split(path).1);
                programs.iter().copied().filter(|path| is(path)).collect()
            }
        },
    };
    match found[..] {
        [only] => Ok(only),
        [] => {
            Err(Error::NoProgram { model: model.to_owned(), wanted: wanted.map(str::to_owned), programs: owned(&programs) })
        }
        _ => Err(Error::ManyPrograms { model: model.to_owned(), programs: owned(&found), pulled }),
    }
}

/// The external constants of a program, in the nearest folder that has any: those that are named like it, else all of them.
pub(crate) fn data<'a>(paths: &[&'a str], program: &str) -> Vec<&'a str> {
    let stem = split(program).1.rsplit_once('.').map_or("", |(stem, _)| stem);
    for folder in ancestors(program) {
        let all: Vec<&str> =
            paths.iter().copied().filter(|path| split(path).0 == folder && has_extension(path, "ptd")).collect();
        let named: Vec<&str> = all.iter().copied().filter(|path| split(path).1.starts_with(stem)).collect();
        if !all.is_empty() {
            return if named.is_empty() { all } else { named };
        }
    }
    Vec::new()
}

/// The files that are fetched: the program, its constants, and what it is used with.
#[cfg(feature = "download")]
pub(crate) fn with_program<'a>(paths: &[&'a str], program: &'a str) -> Vec<&'a str> {
    let mut selected = vec![program];
    selected.extend(data(paths, program));
    for name in SIDECARS {
        let nearest = ancestors(program).find_map(|folder| paths.iter().find(|path| split(path) == (folder, name)));
        selected.extend(nearest);
    }
    selected
}

/// The files that match one of several patterns.
#[cfg(feature = "download")]
pub(crate) fn matching<'a>(model: &str, paths: &[&'a str], patterns: &[String]) -> Result<Vec<&'a str>> {
    for wanted in patterns {
        if !paths.iter().any(|path| pattern::matches(wanted, path)) {
            return Err(Error::NoMatch { model: model.to_owned(), pattern: wanted.clone() });
        }
    }
    Ok(paths.iter().copied().filter(|path| patterns.iter().any(|wanted| pattern::matches(wanted, path))).collect())
}

#[cfg(all(test, feature = "download"))]
mod tests {
    use super::*;

    const PATHS: [&str; 10] = [
        "README.md",
        "a/q4/model_q4.pte",
        "a/q4/model_q4.ptd",
        "a/q4/other.ptd",
        "a/bf16/model.pte",
        "a/tokenizer.json",
        "b/tokenizer.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "weights.safetensors",
    ];

    #[test]
    fn a_program_comes_with_the_nearest_files() {
        let selected = with_program(&PATHS, "a/q4/model_q4.pte");
        assert_eq!(selected, ["a/q4/model_q4.pte", "a/q4/model_q4.ptd", "a/tokenizer.json", "tokenizer_config.json"]);
        assert_eq!(with_program(&PATHS, "a/bf16/model.pte").len(), 3, "no constants of another folder");
        assert_eq!(data(&["m.pte", "x.ptd", "y.ptd"], "m.pte"), ["x.ptd", "y.ptd"]);
    }

    #[test]
    fn a_program_is_chosen_by_path_name_or_pattern() {
        for wanted in ["a/q4/model_q4.pte", "model_q4.pte", "*q4*"] {
            assert_eq!(program("o/m", &PATHS, Some(wanted), false).unwrap(), "a/q4/model_q4.pte");
        }
        let error = program("o/m", &PATHS, None, false).unwrap_err().to_string();
        assert!(
            error.starts_with("o/m has 2 programs; choose one with --program") && error.ends_with("a/bf16/model.pte"),
            "{error}"
        );
        let error = program("o/m", &PATHS, None, true).unwrap_err().to_string();
        assert!(error.contains("name one of them, as in o/m:a/q4/model_q4.pte"), "{error}");
        let error = program("o/m", &PATHS, Some("x.pte"), false).unwrap_err().to_string();
        assert_eq!(error, "o/m has no program \"x.pte\"; it has a/q4/model_q4.pte, a/bf16/model.pte");
        assert_eq!(program("o/m", &["README.md"], None, false).unwrap_err().to_string(), "o/m has no program (.pte)");
        assert!(matching("o/m", &PATHS, &["*.onnx".to_owned()]).is_err());
        assert_eq!(matching("o/m", &PATHS, &["*.pte".to_owned(), "README*".to_owned()]).unwrap().len(), 3);
    }
}
