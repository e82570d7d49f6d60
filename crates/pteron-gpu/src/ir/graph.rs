//! The graph: calls, values, inputs, outputs and constants.

use std::collections::BTreeMap;

use super::{Call, ConstantId, Value, ValueId};
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
    /// The initial bytes of tensors.
    pub constants: Vec<Constant>,
    /// The values of constants with one element, where the front end knows them. Recognition turns tensors such as the epsilon of a
    /// norm into arguments.
    pub scalars: BTreeMap<ConstantId, f64>,
}

/// Initial bytes of a tensor. The graph holds their length and source, not the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// The number of bytes.
    pub len: u64,
    /// The source of the bytes.
    pub source: ConstantSource,
}

/// The source of a constant's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstantSource {
    /// Provided at load by key. Constants with one key have equal bytes.
    Named(String),
    /// Provided at load by the constant's id.
    Stored,
    /// All zeros, not requested at load: state without initial data in the program.
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
    /// With 2^32 values, which no graph within its [budget](crate::budget) has.
    #[expect(clippy::expect_used, reason = "budgets end long before 32 bits cannot count values")]
    pub fn add(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId(u32::try_from(self.values.len() - 1).expect("32 bits count the values of a graph"))
    }

    /// Decodes the arguments of every call, and fuses operators that one kernel can compute.
    ///
    /// # Errors
    /// As [`decoded::DecodedGraph::decode_with`].
    pub fn decode(self, fusions: &Fusions) -> Result<decoded::DecodedGraph> {
        decoded::DecodedGraph::decode_with(self, fusions)
    }
}
