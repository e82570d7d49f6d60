//! Decoding an operator's arguments: each is taken in order, by name, as the kind it must be.
//!
//! The arguments taken are also the graph's data flow ([`Flow`]). An operator is planned again when any tensor or scalar that it
//! took changes, so it cannot forget one of its inputs.

mod flow;
mod index;
mod number;
mod scalars;
mod tensors;
#[cfg(test)]
mod tests;

use crate::ir::{Call, DataType, Graph, Value, ValueId};

pub use flow::Flow;
pub use index::IndexInput;
pub use number::normalise;

use crate::error::OpError;
use crate::graph::{self, Role, TensorInfo};
use crate::live::TensorId;

/// The arguments of one call, taken in order.
#[derive(Debug)]
pub struct Args<'a> {
    graph: &'a Graph,
    infos: &'a [Option<TensorInfo>],
    roles: &'a [Role],
    call: &'a Call,
    next: usize,
    flow: Flow,
}

impl<'a> Args<'a> {
    pub(crate) fn new(graph: &'a Graph, infos: &'a [Option<TensorInfo>], roles: &'a [Role], call: &'a Call) -> Self {
        Self { graph, infos, roles, call, next: 0, flow: Flow::default() }
    }

    /// The row of a family's table that the call names. The table has one row per name of the [`OpDef`](crate::ops::OpDef), in order.
    #[must_use]
    pub fn row<T>(&self, table: &'static [T]) -> &'static T {
        &table[self.call.row]
    }

    /// The operator's name, for tables in which one decoder serves several.
    #[must_use]
    pub fn operator(&self) -> &'a str {
        self.call.name
    }

    /// The number of arguments not taken yet.
    #[must_use]
    pub fn left(&self) -> usize {
        self.call.args.len() - self.next
    }

    fn take(&mut self, name: &'static str) -> Result<(ValueId, &'a Value), OpError> {
        let id = self.call.args.get(self.next).copied();
        let value = id.and_then(|id| Some((id, self.graph.value(id)?)));
        self.next += 1;
        value.ok_or_else(|| OpError::new(name, "is missing"))
    }

    fn wrong<T>(name: &'static str, value: &Value, expected: &str) -> Result<T, OpError> {
        Err(OpError::new(name, format!("is {}, expected {expected}", value.kind())))
    }

    /// The element type and the bound of a tensor that was taken.
    #[must_use]
    pub fn info(&self, tensor: TensorId) -> TensorInfo {
        graph::info(self.infos, tensor)
    }

    /// Whether a tensor is a constant that no operator mutates, so that its live dims are always its bound.
    #[must_use]
    pub fn is_constant(&self, tensor: TensorId) -> bool {
        matches!(self.roles[tensor.index()], Role::Constant(_))
    }

    /// Whether the file has 16-bit floats of either kind for a tensor, whatever the GPU has.
    #[must_use]
    pub fn is_16_bit_in_file(&self, tensor: TensorId) -> bool {
        let value = self.graph.values.get(tensor.index()).and_then(Value::as_tensor);
        value.is_some_and(|tensor| matches!(tensor.dtype, DataType::Float16 | DataType::BFloat16))
    }

    fn is_input(&self, tensor: TensorId) -> bool {
        matches!(self.roles[tensor.index()], Role::Input(_))
    }

    /// A string.
    ///
    /// # Errors
    /// Anything but a string.
    pub fn text(&mut self, name: &'static str) -> Result<&'a str, OpError> {
        match self.take(name)? {
            (_, Value::String(text)) => Ok(text),
            (_, other) => Self::wrong(name, other, "a string"),
        }
    }

    /// A string, or None.
    ///
    /// # Errors
    /// Anything but a string or None.
    pub fn optional_text(&mut self, name: &'static str) -> Result<Option<&'a str>, OpError> {
        match self.take(name)? {
            (_, Value::Null) => Ok(None),
            (_, Value::String(text)) => Ok(Some(text)),
            (_, other) => Self::wrong(name, other, "a string or None"),
        }
    }

    /// An argument that must be None, because nothing else is supported.
    ///
    /// # Errors
    /// Anything but None.
    pub fn none(&mut self, name: &'static str) -> Result<(), OpError> {
        match self.take(name)? {
            (_, Value::Null) => Ok(()),
            (_, other) => Self::wrong(name, other, "None; nothing else is supported"),
        }
    }

    /// An argument that does not influence the result.
    ///
    /// # Errors
    /// A missing argument.
    pub fn ignore(&mut self, name: &'static str) -> Result<(), OpError> {
        self.take(name).map(|_| ())
    }

    /// Whether the next argument is a list without items.
    #[must_use]
    pub fn is_empty_list(&self) -> bool {
        self.list_len() == Some(0)
    }

    /// The number of items of the next argument, if it is a list of integers or of values.
    #[must_use]
    pub fn list_len(&self) -> Option<usize> {
        match self.peek()? {
            Value::IntList(items) => Some(items.len()),
            Value::ValueList(items) => Some(items.len()),
            _ => None,
        }
    }

    fn peek(&self) -> Option<&'a Value> {
        self.graph.value(*self.call.args.get(self.next)?)
    }

    /// Returns the data flow of the arguments taken so far.
    pub(crate) fn into_flow(self) -> Flow {
        self.flow
    }

    pub(crate) fn finish(self) -> Result<Flow, OpError> {
        match self.left() {
            0 => Ok(self.flow),
            left => Err(OpError::new("args", format!("has {left} more than the operator takes"))),
        }
    }
}
