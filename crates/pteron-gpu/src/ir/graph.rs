//! The graph: calls, values, inputs, outputs and constants.

use super::{Call, Value, ValueId};
use crate::error::Result;
use crate::fuse::Fusions;
use crate::graph as decoded;

/// A computation: calls in the order they run, over numbered values.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Everything that calls refer to.
    pub values: Vec<Value>,
    /// The calls, in the order they run.
    pub calls: Vec<Call>,
    /// The inputs.
    pub inputs: Vec<ValueId>,
    /// The outputs.
    pub outputs: Vec<ValueId>,
    /// The bytes that tensors start with.
    pub constants: Vec<Constant>,
}

/// Bytes that a tensor starts with. The graph holds their length and where they come from, not the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Bytes.
    pub len: u64,
    /// Where they come from.
    pub source: ConstantSource,
}

/// Where the bytes of a constant come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstantSource {
    /// Whoever loads the graph has them, by a key that stands for the bytes: constants with one key hold equal bytes.
    Named(String),
    /// Whoever loads the graph has them, by the constant's id.
    Stored,
    /// All of them are 0, and nobody is asked for them: state that a program starts without data.
    Zeros,
}

impl Graph {
    /// The value with this id.
    #[must_use]
    pub fn value(&self, id: ValueId) -> Option<&Value> {
        self.values.get(id.index())
    }

    /// Adds a value. Returns its id.
    ///
    /// # Panics
    /// With 2^32 values, which no graph that a [budget](crate::budget) admits has.
    #[expect(clippy::expect_used, reason = "budgets end long before 32 bits cannot count values")]
    pub fn add(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId(u32::try_from(self.values.len() - 1).expect("32 bits count the values of a graph"))
    }

    /// Decodes the arguments of every call, and fuses operators that one kernel computes together.
    ///
    /// # Errors
    /// As [`decoded::Graph::decode_with`].
    pub fn decode(self, fusions: &Fusions) -> Result<decoded::Graph> {
        decoded::Graph::decode_with(self, fusions)
    }
}
