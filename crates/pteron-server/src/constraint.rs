//! The constraints of a request: none, or one per text.

use crate::backend::Constraint;
use crate::error::ApiError;

/// Makes the constraint of each text.
#[derive(Default)]
pub(crate) struct Constraints {
    #[cfg(feature = "grammars")]
    grammar: Option<crate::grammar::Compiled>,
}

impl Constraints {
    #[cfg(feature = "grammars")]
    pub(crate) fn of_grammar(grammar: crate::grammar::Compiled) -> Self {
        Self { grammar: Some(grammar) }
    }

    /// Whether texts are constrained.
    pub(crate) fn any(&self) -> bool {
        #[cfg(feature = "grammars")]
        return self.grammar.is_some();
        #[cfg(not(feature = "grammars"))]
        return false;
    }

    /// The constraint of the next text.
    #[cfg(feature = "grammars")]
    pub(crate) fn next(&self) -> Result<Option<Box<dyn Constraint>>, ApiError> {
        Ok(self.grammar.as_ref().map(crate::grammar::Compiled::constraint))
    }

    /// The constraint of the next text.
    #[cfg(not(feature = "grammars"))]
    pub(crate) fn next(&self) -> Result<Option<Box<dyn Constraint>>, ApiError> {
        Ok(None)
    }
}
