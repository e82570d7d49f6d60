//! Arguments that are tensors.

use super::{Args, IndexInput};
use crate::error::OpError;
use crate::graph::Elem;
use crate::ir::{Quantization, Value, ValueId};
use crate::live::TensorId;

impl Args<'_> {
    /// A tensor of plain numbers in contiguous memory: kernels read its elements as they are.
    fn tensor_at(&self, name: &'static str, id: ValueId, value: &Value) -> Result<TensorId, OpError> {
        match value {
            Value::Tensor(tensor) if tensor.quantization.is_some() => {
                Err(OpError::new(name, "is quantised, expected a tensor of plain numbers"))
            }
            Value::Tensor(tensor) if !tensor.dim_order.is_contiguous() => {
                Err(OpError::new(name, "has its dims in another order in memory, expected a contiguous tensor"))
            }
            Value::Tensor(_) => Ok(TensorId(id.0)),
            other => Self::wrong(name, other, "a tensor"),
        }
    }

    /// A quantised tensor that is read, with its parameters; parameters that are tensors are read, too.
    ///
    /// # Errors
    /// Anything but a quantised tensor in contiguous memory.
    pub fn quantized_tensor(&mut self, name: &'static str) -> Result<(TensorId, Quantization), OpError> {
        let (id, value) = self.take(name)?;
        let Value::Tensor(tensor) = value else { return Self::wrong(name, value, "a quantised tensor") };
        let (Some(quantization), true) = (&tensor.quantization, tensor.dim_order.is_contiguous()) else {
            return Err(OpError::new(name, "is not quantised or not contiguous, expected a contiguous quantised tensor"));
        };
        self.flow.reads.push(TensorId(id.0));
        // Verification has checked that the parameters are tensors.
        self.flow.reads.extend(quantization.parameters().map(|parameter| TensorId(parameter.0)));
        Ok((TensorId(id.0), quantization.clone()))
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
        self.check_indices(name, index)?;
        self.reads_slices(index.of, index.axis);
        Ok(())
    }

    /// As [`use_indices`](Self::use_indices), for an operator that also reads elements which no index names.
    ///
    /// # Errors
    /// Anything but 32-bit integers.
    pub fn check_indices(&mut self, name: &'static str, index: IndexInput) -> Result<(), OpError> {
        let elem = self.info(index.indices).elem;
        if elem != Elem::I32 {
            return Err(OpError::new(name, format!("has elements {elem:?}, expected integers that name elements")));
        }
        if self.is_input(index.indices) {
            self.flow.index_inputs.push(index);
        }
        Ok(())
    }

    /// Declares that each output row reads only one index of `axis` of a tensor.
    pub fn reads_slices(&mut self, tensor: TensorId, axis: usize) {
        self.flow.sliced_reads.push((tensor, axis));
    }

    /// The tensor the operator writes, which must have this element type.
    ///
    /// # Errors
    /// Anything but such a tensor.
    pub fn output_of(&mut self, name: &'static str, elem: Elem) -> Result<TensorId, OpError> {
        let tensor = self.output(name)?;
        match self.info(tensor).elem {
            found if found == elem => Ok(tensor),
            found => Err(OpError::new(name, format!("has elements {found:?}, but the result's are {elem:?}"))),
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

    /// The tensors the operator writes, given as one list of any length.
    ///
    /// # Errors
    /// Anything but a list of tensors.
    pub fn output_list(&mut self, name: &'static str) -> Result<Vec<TensorId>, OpError> {
        let tensors = self.tensor_list(name)?;
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
}
