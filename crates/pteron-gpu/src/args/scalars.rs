//! Arguments that are numbers, Booleans or lists of integers.

use super::Args;
use super::number::{normalise, number, whole};
use crate::error::OpError;
use crate::ir::{Value, ValueId};
use crate::live::{Number, Scalar, ScalarId};

impl Args<'_> {
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

    /// A list of numbers that the file fixes, or None.
    ///
    /// # Errors
    /// Anything but such a list or None.
    pub fn optional_floats(&mut self, name: &'static str) -> Result<Option<Vec<f64>>, OpError> {
        let expected = "a list of numbers or None";
        match self.take(name)? {
            (_, Value::Null) => Ok(None),
            (_, Value::DoubleList(items)) => Ok(Some(items.clone())),
            #[allow(clippy::cast_precision_loss, reason = "floats that were merged with equal integers")]
            (_, Value::IntList(items)) => Ok(Some(items.iter().map(|&item| item as f64).collect())),
            (_, Value::ValueList(ids)) => {
                let item = |id: &ValueId| match self.graph.value(*id) {
                    Some(value) => number(value).map_or_else(|| Self::wrong(name, value, expected), Ok),
                    None => Err(OpError::new(name, "names a value that is not there")),
                };
                ids.iter().map(item).collect::<Result<_, _>>().map(Some)
            }
            (_, other) => Self::wrong(name, other, expected),
        }
    }

    /// A list of integers, some of which may be symbolic, or None.
    ///
    /// # Errors
    /// Anything but such a list or None.
    pub fn optional_scalars(&mut self, name: &'static str) -> Result<Option<Vec<Scalar>>, OpError> {
        if let Some(Value::Null) = self.peek() {
            self.next += 1;
            return Ok(None);
        }
        self.scalars(name).map(Some)
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

    /// A Boolean. Python merges equal constants, so it can arrive as 0 or 1.
    ///
    /// # Errors
    /// Anything but a Boolean.
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
}
