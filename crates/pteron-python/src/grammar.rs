//! JSON schemas, regular expressions and grammars that texts must match.

use pteron_llm::{Grammar, GrammarSource};
use pyo3::prelude::*;

use crate::errors::InputError;

/// A compiled grammar, for any number of texts.
#[pyclass(frozen, module = "pteron._native")]
pub(crate) struct NativeGrammar(pub(crate) Grammar);

/// The source of a grammar from the name of its kind: `schema`, `regex` or `grammar`.
pub(crate) fn source(kind: &str, text: String) -> PyResult<GrammarSource> {
    match kind {
        "schema" => Ok(GrammarSource::JsonSchema(text)),
        "regex" => Ok(GrammarSource::Regex(text)),
        "grammar" => Ok(GrammarSource::Lark(text)),
        _ => Err(InputError::new_err(format!("{kind:?} is no kind of grammar"))),
    }
}
