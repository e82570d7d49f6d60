//! Decoding an operator's arguments: each is taken in order, by name, as what it must be.
//!
//! What is taken here is also what the graph knows of data flow. An operator is planned again when any tensor or scalar it
//! took changes, so it cannot forget one of its inputs.

mod flow;
mod index;
mod number;

use crate::ir::{Call, Graph, Value, ValueId};

pub use flow::Flow;
pub use index::IndexInput;
pub use number::normalise;
use number::{number, whole};

use crate::error::OpError;
use crate::graph::{Elem, Role, TensorInfo};
use crate::live::{Number, Scalar, ScalarId, TensorId};
use crate::shape::Dims;

/// The arguments of one call, taken one after the other.
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

    /// What the file says of a tensor.
    #[must_use]
    pub fn info(&self, tensor: TensorId) -> TensorInfo {
        self.infos.get(tensor.index()).copied().flatten().unwrap_or(TensorInfo { elem: Elem::F32, bound: Dims::SCALAR })
    }

    fn tensor_at(&self, name: &'static str, id: ValueId, value: &Value) -> Result<TensorId, OpError> {
        match value {
            Value::Tensor(_) => Ok(TensorId(id.0)),
            other => Self::wrong(name, other, "a tensor"),
        }
    }

    /// A tensor that is read.
    ///
    /// # Errors
    /// Anything but a tensor.
    pub fn tensor(&mut self, name: &'static str) -> Result<TensorId, OpError> {
        let (id, value) = self.take(name)?;
        let tensor = self.tensor_at(name, id, value)?;
        self.flow.reads.push(tensor);
        Ok(tensor)
    }

    /// A tensor that is read and must have one of these element types.
    ///
    /// # Errors
    /// Anything but such a tensor.
    pub fn tensor_of(&mut self, name: &'static str, allowed: &[Elem]) -> Result<TensorId, OpError> {
        let tensor = self.tensor(name)?;
        let elem = self.info(tensor).elem;
        if allowed.contains(&elem) {
            return Ok(tensor);
        }
        Err(OpError::new(name, format!("has elements {elem:?}, supported: {allowed:?}")))
    }

    /// A tensor that is read, or None.
    ///
    /// # Errors
    /// Anything but a tensor or None.
    pub fn optional_tensor(&mut self, name: &'static str) -> Result<Option<TensorId>, OpError> {
        if let Some(Value::Null) = self.peek() {
            self.next += 1;
            return Ok(None);
        }
        self.tensor(name).map(Some)
    }

    /// A tensor that is read and must have one of these element types, or None.
    ///
    /// # Errors
    /// Anything but such a tensor or None.
    pub fn optional_tensor_of(&mut self, name: &'static str, allowed: &[Elem]) -> Result<Option<TensorId>, OpError> {
        if let Some(Value::Null) = self.peek() {
            self.next += 1;
            return Ok(None);
        }
        self.tensor_of(name, allowed).map(Some)
    }

    /// Whether a tensor's bytes are always those of the file, so that its dims are always its bound: no input, and nothing that
    /// an operator changes.
    #[must_use]
    pub fn is_constant(&self, tensor: TensorId) -> bool {
        matches!(self.roles.get(tensor.index()), Some(Role::Constant(_)))
    }

    fn is_input(&self, tensor: TensorId) -> bool {
        matches!(self.roles.get(tensor.index()), Some(Role::Input(_)))
    }

    /// A tensor changed in place.
    ///
    /// # Errors
    /// Anything but a tensor.
    pub fn mutated(&mut self, name: &'static str) -> Result<TensorId, OpError> {
        let (id, value) = self.take(name)?;
        let tensor = self.tensor_at(name, id, value)?;
        self.flow.mutates.push(tensor);
        Ok(tensor)
    }

    /// A graph input of integers whose values the host reads.
    ///
    /// # Errors
    /// Anything but a tensor of 32-bit integers among the graph's inputs.
    pub fn host_tensor(&mut self, name: &'static str) -> Result<TensorId, OpError> {
        let (id, value) = self.take(name)?;
        let tensor = self.tensor_at(name, id, value)?;
        if !self.is_input(tensor) || self.info(tensor).elem != Elem::I32 {
            return Err(OpError::new(
                name,
                "must be an integer input of the graph: its value is needed before the graph runs",
            ));
        }
        self.flow.host_reads.push(tensor);
        self.flow.reads.push(tensor);
        Ok(tensor)
    }

    /// A tensor of integers that name elements of `of` along `axis`, from its start.
    ///
    /// # Errors
    /// Anything but a tensor of 32-bit integers.
    pub fn index_tensor(&mut self, name: &'static str, of: TensorId, axis: usize) -> Result<TensorId, OpError> {
        let indices = self.tensor(name)?;
        self.use_indices(name, IndexInput { indices, of, axis, from_end: false })?;
        Ok(indices)
    }

    /// Takes a tensor that is read as indices. Where it is a graph input the host checks its values before anything runs;
    /// kernels clamp them in any case.
    ///
    /// # Errors
    /// Anything but 32-bit integers.
    pub fn use_indices(&mut self, name: &'static str, index: IndexInput) -> Result<(), OpError> {
        let elem = self.info(index.indices).elem;
        if elem != Elem::I32 {
            return Err(OpError::new(name, format!("has elements {elem:?}, expected integers that name elements")));
        }
        self.reads_slices(index.of, index.axis);
        if self.is_input(index.indices) {
            self.flow.index_inputs.push(index);
        }
        Ok(())
    }

    /// Declares that each output row needs only one index of `axis` of a tensor that is read: the others are left alone.
    pub fn reads_slices(&mut self, tensor: TensorId, axis: usize) {
        self.flow.sliced_reads.push((tensor, axis));
    }

    /// The tensor the operator writes, which must hold these elements.
    ///
    /// # Errors
    /// Anything but such a tensor.
    pub fn output_of(&mut self, name: &'static str, elem: Elem) -> Result<TensorId, OpError> {
        let tensor = self.output(name)?;
        match self.info(tensor).elem {
            found if found == elem => Ok(tensor),
            found => Err(OpError::new(name, format!("has elements {found:?}, but the answer's are {elem:?}"))),
        }
    }

    /// The tensor the operator writes.
    ///
    /// # Errors
    /// Anything but a tensor.
    pub fn output(&mut self, name: &'static str) -> Result<TensorId, OpError> {
        let (id, value) = self.take(name)?;
        let tensor = self.tensor_at(name, id, value)?;
        self.flow.writes.push(tensor);
        Ok(tensor)
    }

    /// The tensors the operator writes, given as one list.
    ///
    /// # Errors
    /// Anything but a list of `count` tensors.
    pub fn outputs(&mut self, name: &'static str, count: usize) -> Result<Vec<TensorId>, OpError> {
        let tensors = self.tensor_list(name)?;
        if tensors.len() != count {
            return Err(OpError::new(name, format!("has {} tensors, expected {count}", tensors.len())));
        }
        self.flow.writes.extend(&tensors);
        Ok(tensors)
    }

    /// A list of tensors that are read.
    ///
    /// # Errors
    /// Anything but a list of tensors.
    pub fn tensors(&mut self, name: &'static str) -> Result<Vec<TensorId>, OpError> {
        let tensors = self.tensor_list(name)?;
        self.flow.reads.extend(&tensors);
        Ok(tensors)
    }

    /// A list of tensors that are read, some of which may be None.
    ///
    /// # Errors
    /// Anything but such a list.
    pub fn optional_tensors(&mut self, name: &'static str) -> Result<Vec<Option<TensorId>>, OpError> {
        let (_, Value::ValueList(ids)) = self.take(name)? else {
            return Err(OpError::new(name, "is no list of tensors"));
        };
        let tensor = |&id: &ValueId| match self.graph.value(id) {
            Some(Value::Null) => Ok(None),
            Some(value) => self.tensor_at(name, id, value).map(Some),
            None => Err(OpError::new(name, "names a value that is not there")),
        };
        let tensors = ids.iter().map(tensor).collect::<Result<Vec<_>, OpError>>()?;
        self.flow.reads.extend(tensors.iter().flatten());
        Ok(tensors)
    }

    fn tensor_list(&mut self, name: &'static str) -> Result<Vec<TensorId>, OpError> {
        match self.take(name)? {
            (_, Value::ValueList(ids)) => ids
                .iter()
                .map(|&id| match self.graph.value(id) {
                    Some(value) => self.tensor_at(name, id, value),
                    None => Err(OpError::new(name, "names a value that is not there")),
                })
                .collect(),
            (_, other) => Self::wrong(name, other, "a list of tensors"),
        }
    }

    /// An integer that may be symbolic. Python merges equal numbers, so an integer can arrive as a float.
    ///
    /// # Errors
    /// Anything but a whole number or a symbolic one.
    pub fn scalar(&mut self, name: &'static str) -> Result<Scalar, OpError> {
        let (id, value) = self.take(name)?;
        self.scalar_at(name, id, value)
    }

    fn scalar_at(&mut self, name: &'static str, id: ValueId, value: &Value) -> Result<Scalar, OpError> {
        if let Value::SymInt = value {
            self.flow.scalar_reads.push(ScalarId(id.0));
            return Ok(Scalar::Live(ScalarId(id.0)));
        }
        match whole(value) {
            Some(fixed) => Ok(Scalar::Fixed(fixed)),
            None => Self::wrong(name, value, "an integer"),
        }
    }

    /// An integer that may be symbolic, or None.
    ///
    /// # Errors
    /// Anything but a whole number, a symbolic one or None.
    pub fn optional_scalar(&mut self, name: &'static str) -> Result<Option<Scalar>, OpError> {
        if let Some(Value::Null) = self.peek() {
            self.next += 1;
            return Ok(None);
        }
        self.scalar(name).map(Some)
    }

    /// A list of integers, some of which may be symbolic.
    ///
    /// # Errors
    /// Anything but such a list.
    pub fn scalars(&mut self, name: &'static str) -> Result<Vec<Scalar>, OpError> {
        match self.take(name)? {
            (_, Value::IntList(items)) => Ok(items.iter().map(|&item| Scalar::Fixed(item)).collect()),
            (_, Value::ValueList(ids)) => ids
                .iter()
                .map(|&id| match self.graph.value(id) {
                    Some(value) => self.scalar_at(name, id, value),
                    None => Err(OpError::new(name, "names a value that is not there")),
                })
                .collect(),
            (_, other) => Self::wrong(name, other, "a list of integers"),
        }
    }

    /// The symbolic scalar the operator writes.
    ///
    /// # Errors
    /// Anything but a symbolic scalar.
    pub fn output_scalar(&mut self, name: &'static str) -> Result<ScalarId, OpError> {
        match self.take(name)? {
            (id, Value::SymInt) => {
                self.flow.scalar_writes.push(ScalarId(id.0));
                Ok(ScalarId(id.0))
            }
            (_, other) => Self::wrong(name, other, "a symbolic integer"),
        }
    }

    /// An integer that the file fixes.
    ///
    /// # Errors
    /// Anything but a whole number.
    pub fn int(&mut self, name: &'static str) -> Result<i64, OpError> {
        let (_, value) = self.take(name)?;
        whole(value).map_or_else(|| Self::wrong(name, value, "an integer"), Ok)
    }

    /// A list of integers that the file fixes.
    ///
    /// # Errors
    /// Anything but such a list.
    pub fn ints(&mut self, name: &'static str) -> Result<Vec<i64>, OpError> {
        let scalars = self.scalars(name)?;
        let fixed = |scalar: &Scalar| match scalar {
            Scalar::Fixed(value) => Ok(*value),
            Scalar::Live(_) => Err(OpError::new(name, "has a symbolic item, expected integers")),
        };
        scalars.iter().map(fixed).collect()
    }

    /// A list of integers that the file fixes, or None.
    ///
    /// # Errors
    /// Anything but such a list or None.
    pub fn optional_ints(&mut self, name: &'static str) -> Result<Option<Vec<i64>>, OpError> {
        if let Some(Value::Null) = self.peek() {
            self.next += 1;
            return Ok(None);
        }
        self.ints(name).map(Some)
    }

    /// A dimension of a tensor, counted from the end if negative.
    ///
    /// # Errors
    /// Anything but a dimension of the tensor.
    pub fn axis(&mut self, name: &'static str, rank: usize) -> Result<usize, OpError> {
        let axis = self.int(name)?;
        normalise(axis, rank).ok_or_else(|| OpError::new(name, format!("is {axis}, but the tensor has {rank} dimensions")))
    }

    /// A number that the file fixes.
    ///
    /// # Errors
    /// Anything but a number.
    pub fn float(&mut self, name: &'static str) -> Result<f64, OpError> {
        let (_, value) = self.take(name)?;
        number(value).map_or_else(|| Self::wrong(name, value, "a number"), Ok)
    }

    /// A number that the file fixes, or None.
    ///
    /// # Errors
    /// Anything but a number or None.
    pub fn optional_float(&mut self, name: &'static str) -> Result<Option<f64>, OpError> {
        match self.take(name)? {
            (_, Value::Null) => Ok(None),
            (_, value) => number(value).map_or_else(|| Self::wrong(name, value, "a number or None"), |n| Ok(Some(n))),
        }
    }

    /// A number that may be symbolic.
    ///
    /// # Errors
    /// Anything but a number or a symbolic one.
    pub fn number(&mut self, name: &'static str) -> Result<Number, OpError> {
        match self.take(name)? {
            (id, Value::SymInt) => {
                self.flow.scalar_reads.push(ScalarId(id.0));
                Ok(Number::Live(ScalarId(id.0)))
            }
            (_, value) => number(value).map_or_else(|| Self::wrong(name, value, "a number"), |n| Ok(Number::Fixed(n))),
        }
    }

    /// A truth value. Python merges equal constants, so it can arrive as 0 or 1.
    ///
    /// # Errors
    /// Anything but a truth value.
    pub fn bool(&mut self, name: &'static str) -> Result<bool, OpError> {
        match self.take(name)? {
            (_, Value::Bool(value)) => Ok(*value),
            (_, value) => match whole(value) {
                Some(0) => Ok(false),
                Some(1) => Ok(true),
                _ => Self::wrong(name, value, "a bool"),
            },
        }
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

    /// The order of a tensor's dimensions in memory, which must be None or the contiguous one.
    ///
    /// # Errors
    /// Another order.
    pub fn contiguous_order(&mut self, name: &'static str) -> Result<(), OpError> {
        match self.optional_ints(name)? {
            Some(order) if !order.iter().copied().eq((0i64..).take(order.len())) => {
                Err(OpError::new(name, format!("is {order:?}, only the contiguous order is supported")))
            }
            _ => Ok(()),
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

    /// An argument that has no influence on the answer.
    ///
    /// # Errors
    /// Its absence.
    pub fn ignore(&mut self, name: &'static str) -> Result<(), OpError> {
        self.take(name).map(|_| ())
    }

    fn peek(&self) -> Option<&'a Value> {
        self.graph.value(*self.call.args.get(self.next)?)
    }

    pub(crate) fn finish(self) -> Result<Flow, OpError> {
        match self.left() {
            0 => Ok(self.flow),
            left => Err(OpError::new("args", format!("has {left} more than the operator takes"))),
        }
    }
}
