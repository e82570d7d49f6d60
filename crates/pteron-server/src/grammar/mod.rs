//! Grammars and JSON schemas as constraints of a backend's texts.

use std::sync::OnceLock;

use pteron_llm::{GrammarSource, TokenConstraint, TokenId};

use crate::backend::{Backend, Constraint};
use crate::format::FormKind;

/// The grammars of a model.
pub(crate) struct Grammars(OnceLock<pteron_llm::Grammars>);

/// A grammar, ready for any number of texts.
pub(crate) struct Compiled(pteron_llm::Grammar);

impl Grammars {
    pub(crate) fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Compiles a grammar.
    ///
    /// # Errors
    /// Why it cannot be compiled, as the end of a sentence about it.
    pub(crate) fn compile(&self, backend: &dyn Backend, form: FormKind) -> Result<Compiled, String> {
        let grammars = self.0.get_or_init(|| {
            let info = backend.info();
            pteron_llm::Grammars::new(backend.tokenizer(), info.vocab_size, &info.eos_ids)
        });
        let source = match form {
            FormKind::Json(schema) => GrammarSource::JsonSchema(schema.to_string()),
            FormKind::Regex(regex) => GrammarSource::Regex(regex),
            FormKind::Lark(grammar) => GrammarSource::Lark(grammar),
        };
        grammars.compile(&source).map(Compiled).map_err(|error| error.to_string())
    }
}

impl Compiled {
    /// The constraint of a text.
    pub(crate) fn constraint(&self) -> Box<dyn Constraint> {
        Box::new(GrammarConstraint(self.0.constraint()))
    }
}

/// A constraint of `pteron-llm` as one of the server's.
struct GrammarConstraint(Box<dyn TokenConstraint>);

impl Constraint for GrammarConstraint {
    fn mask(&mut self) -> Result<Vec<u32>, String> {
        self.0.mask().map(|mask| mask.to_vec()).map_err(|error| error.reason().to_owned())
    }

    fn accept(&mut self, token: TokenId) -> Result<(), String> {
        self.0.accept(token).map_err(|error| error.reason().to_owned())
    }

    fn is_complete(&self) -> bool {
        self.0.is_complete()
    }
}

#[cfg(test)]
mod schemas;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod walk;
