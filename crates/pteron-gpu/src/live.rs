//! Live values: the dims of tensors and the values of symbolic scalars, as they are for the current call.

use std::collections::BTreeMap;
use std::fmt;

use crate::shape::Dims;

/// A tensor, by its value id in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u32);

/// A symbolic scalar, by its value id in the graph.
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

/// An integer argument: a literal of the file, or a symbolic scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// The same in every call.
    Fixed(i64),
    /// Known only when the graph runs.
    Live(ScalarId),
}

/// A number that may be no integer: a literal of the file, or a symbolic scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// The same in every call.
    Fixed(f64),
    /// Known only when the graph runs.
    Live(ScalarId),
}

/// The current dims and scalars of a graph's values, by value id, and the integers of inputs that the host knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    dims: Vec<Dims>,
    scalars: Vec<i64>,
    host: BTreeMap<TensorId, Vec<i32>>,
}

impl Live {
    /// All values at these dims, scalars at 0.
    #[must_use]
    pub fn new(dims: Vec<Dims>) -> Self {
        let scalars = vec![0; dims.len()];
        Self { dims, scalars, host: BTreeMap::new() }
    }

    /// The live dims of a tensor.
    #[must_use]
    pub fn dims(&self, tensor: TensorId) -> Dims {
        self.dims.get(tensor.index()).copied().unwrap_or(Dims::SCALAR)
    }

    /// The live value of a scalar.
    #[must_use]
    pub fn scalar(&self, scalar: Scalar) -> i64 {
        match scalar {
            Scalar::Fixed(value) => value,
            Scalar::Live(id) => self.scalars.get(id.index()).copied().unwrap_or(0),
        }
    }

    /// The integers of an input, where the host has them.
    #[must_use]
    pub fn host_values(&self, tensor: TensorId) -> Option<&[i32]> {
        self.host.get(&tensor).map(Vec::as_slice)
    }

    /// Sets a tensor's dims; whether they changed.
    pub fn set_dims(&mut self, tensor: TensorId, dims: Dims) -> bool {
        match self.dims.get_mut(tensor.index()) {
            Some(current) if *current != dims => {
                *current = dims;
                true
            }
            _ => false,
        }
    }

    /// Sets a scalar's value; whether it changed.
    pub fn set_scalar(&mut self, scalar: ScalarId, value: i64) -> bool {
        match self.scalars.get_mut(scalar.index()) {
            Some(current) if *current != value => {
                *current = value;
                true
            }
            _ => false,
        }
    }

    /// Sets what the host knows of an input; whether it changed.
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
