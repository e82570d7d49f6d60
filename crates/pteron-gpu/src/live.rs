//! Live values: the dims of tensors and the values of symbolic integers in the current call.

use std::collections::BTreeMap;
use std::fmt;

use crate::shape::Dims;

/// A tensor of a decoded graph, by its value id. Decoding creates ids of tensors only, so a lookup in the same graph cannot
/// miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u32);

/// A symbolic integer of a decoded graph, by its value id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScalarId(pub u32);

impl TensorId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl ScalarId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for TensorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An integer argument: a literal of the graph, or a symbolic integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// The same in every call.
    Fixed(i64),
    /// Known only when the graph runs.
    Live(ScalarId),
}

/// A number that may be fractional: a literal of the graph, or a symbolic integer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// The same in every call.
    Fixed(f64),
    /// Known only when the graph runs.
    Live(ScalarId),
}

/// The current dims and scalars of a graph's values, by value id, and the integers of inputs that the host knows.
///
/// Ids must belong to the graph it was created for; lookups with others panic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    dims: Vec<Dims>,
    scalars: Vec<i64>,
    host: BTreeMap<TensorId, Vec<i32>>,
}

impl Live {
    /// Creates live values with these dims, scalars at 0.
    #[must_use]
    pub fn new(dims: Vec<Dims>) -> Self {
        let scalars = vec![0; dims.len()];
        Self { dims, scalars, host: BTreeMap::new() }
    }

    /// The live dims of a tensor.
    #[must_use]
    pub fn dims(&self, tensor: TensorId) -> Dims {
        self.dims[tensor.index()]
    }

    /// The live value of a scalar.
    #[must_use]
    pub fn scalar(&self, scalar: Scalar) -> i64 {
        match scalar {
            Scalar::Fixed(value) => value,
            Scalar::Live(id) => self.scalars[id.index()],
        }
    }

    /// The integers of an input, if they are on the host.
    #[must_use]
    pub fn host_values(&self, tensor: TensorId) -> Option<&[i32]> {
        self.host.get(&tensor).map(Vec::as_slice)
    }

    /// Sets a tensor's dims. Returns whether they changed.
    pub fn set_dims(&mut self, tensor: TensorId, dims: Dims) -> bool {
        std::mem::replace(&mut self.dims[tensor.index()], dims) != dims
    }

    /// Sets a scalar's value. Returns whether it changed.
    pub fn set_scalar(&mut self, scalar: ScalarId, value: i64) -> bool {
        std::mem::replace(&mut self.scalars[scalar.index()], value) != value
    }

    /// Sets the integers that the host knows of an input. Returns whether they changed.
    pub fn set_host_values(&mut self, tensor: TensorId, values: &[i32]) -> bool {
        match self.host.get_mut(&tensor) {
            Some(current) if current == values => false,
            Some(current) => {
                current.clear();
                current.extend_from_slice(values);
                true
            }
            None => {
                self.host.insert(tensor, values.to_vec());
                true
            }
        }
    }
}
