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
    /// All arguments in the order that the operator decodes them, outputs last.
    pub args: Vec<ValueId>,
    /// The position of the instruction it comes from in what the front end translated, for error messages and profiles.
    pub origin: usize,
}

impl Call {
    /// A call by name of any operator of the registry, internal ones included; `None` if there is none.
    #[must_use]
    pub fn named(name: &str, args: Vec<ValueId>) -> Option<Self> {
        Self::of(ops::find(name)?, name, args)
    }

    /// A call by name of an operator that files may call; `None` if there is none.
    #[must_use]
    pub fn in_file(name: &str, args: Vec<ValueId>) -> Option<Self> {
        Self::of(ops::find_in_files(name)?, name, args)
    }

    fn of(def: &'static OpDef, name: &str, args: Vec<ValueId>) -> Option<Self> {
        let name = def.names.iter().copied().find(|own| *own == name)?;
        Some(Self { def, name, args, origin: 0 })
    }

    /// A call of an operator by one of its names.
    #[must_use]
    pub fn new(def: &'static OpDef, name: &'static str, args: Vec<ValueId>) -> Self {
        debug_assert!(def.names.contains(&name), "{name} is a name of its operator");
        Self { def, name, args, origin: 0 }
    }

    /// The same call, made for the instruction at a position.
    #[must_use]
    pub fn at(self, origin: usize) -> Self {
        Self { origin, ..self }
    }
}
