//! Calls of operators.

use super::ValueId;
use crate::ops::{self, OpDef};

/// A call of an operator.
#[derive(Clone, Debug)]
pub struct Call {
    /// The operator.
    pub def: &'static OpDef,
    /// The name it is called by, one of the operator's: a family of operators shares one entry of the registry.
    pub name: &'static str,
    /// The index of that name among the operator's names, and so the row of the family's table.
    pub row: usize,
    /// All arguments in the order that the operator decodes them, outputs last.
    pub args: Vec<ValueId>,
    /// The position of its instruction in the front end's source, for error messages and profiles.
    pub origin: usize,
}

impl Call {
    /// Creates a call by name of any operator of the registry, internal ones included; `None` if there is none.
    #[must_use]
    pub fn named(name: &str, args: Vec<ValueId>) -> Option<Self> {
        let (def, row) = ops::find_row(name)?;
        Some(Self { def, name: def.names[row], row, args, origin: 0 })
    }

    /// Creates a call by name of an operator that files may call; `None` if there is none.
    #[must_use]
    pub fn in_file(name: &str, args: Vec<ValueId>) -> Option<Self> {
        Self::named(name, args).filter(|call| call.def.is_in_files(name))
    }

    /// Creates a call of an operator by one of its names.
    ///
    /// # Panics
    /// If the operator has no such name.
    #[must_use]
    #[expect(clippy::expect_used, reason = "callers name the operator by a constant of its own module")]
    pub fn new(def: &'static OpDef, name: &'static str, args: Vec<ValueId>) -> Self {
        let row = def.names.iter().position(|own| *own == name).expect("the name is one of the operator's");
        Self { def, name, row, args, origin: 0 }
    }

    /// The same call with the position of its instruction.
    #[must_use]
    pub fn at(self, origin: usize) -> Self {
        Self { origin, ..self }
    }
}
