//! Building a graph from several sources: the values and calls of every front end go into one [`Builder`].
//!
//! Scalars and lists of scalars are interned, so a program that repeats them a thousand times costs one value each. Everything
//! that is added is charged to a budget that follows from the size of the source, because instructions can repeat: a
//! delegate that is called a thousand times is translated a thousand times.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pteron_format::program::{self as file, DataRef};

use crate::budget::Resource;
use crate::error::{Error, Result};
use crate::ir::{Call, Constant, ConstantId, ConstantSource, DataType, Graph, Quantization, Tensor, Value, ValueId};

/// Items that may be added per item of the source. A node of a delegate becomes some calls with some arguments each.
const ITEMS_PER_ITEM: u64 = 64;
/// Items that may be added for any source.
const FREE_ITEMS: u64 = 1 << 14;

/// The location of a constant's bytes in a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ConstantOrigin {
    /// A constant of a delegate, by its index there.
    Delegate {
        /// The delegate's bytes.
        data: DataRef,
        /// The constant's index.
        constant: u32,
    },
    /// The initial bytes of a tensor of the execution plan.
    Tensor(file::ValueId),
    /// These bytes.
    Bytes(Arc<Vec<u8>>),
    /// Nowhere: zeros.
    Zeros,
}

/// A graph with the origin of each of its constants.
#[derive(Clone, Debug, Default)]
pub struct BuiltGraph {
    /// The graph.
    pub graph: Graph,
    /// The origins of its constants, in order.
    pub origins: Vec<ConstantOrigin>,
}

/// Adds values, constants and calls to a graph.
#[derive(Debug)]
pub struct Builder {
    built: BuiltGraph,
    scalars: HashMap<ScalarKey, ValueId>,
    constants: HashMap<(ConstantOrigin, DataType), ConstantId>,
    unsupported: BTreeMap<String, usize>,
    /// The delegate that is being translated.
    delegate: Option<DataRef>,
    origin: usize,
    items: u64,
    limit: u64,
    source_items: u64,
}

/// Scalars and lists that are equal and of one kind. Floats are compared by their bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ScalarKey {
    Null,
    Int(i64),
    Double(u64),
    Bool(bool),
    String(String),
    Ints(Vec<i64>),
    Doubles(Vec<u64>),
    Bools(Vec<bool>),
    List(Vec<ValueId>),
}

impl Builder {
    /// Creates an empty graph whose size is bounded by the size of its source: instructions, arguments, values and list items.
    #[must_use]
    pub fn new(source_items: u64) -> Self {
        Self {
            built: BuiltGraph::default(),
            scalars: HashMap::new(),
            constants: HashMap::new(),
            unsupported: BTreeMap::new(),
            delegate: None,
            origin: 0,
            items: 0,
            limit: source_items.saturating_mul(ITEMS_PER_ITEM).saturating_add(FREE_ITEMS),
            source_items,
        }
    }

    /// The graph so far.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.built.graph
    }

    /// A tensor of the graph; `None` for any other value.
    #[must_use]
    pub fn tensor_at(&self, id: ValueId) -> Option<&Tensor> {
        self.graph().value(id).and_then(Value::as_tensor)
    }

    /// Sets the delegate that the following constants belong to.
    pub fn begin_delegate(&mut self, data: DataRef) {
        self.delegate = Some(data);
    }

    /// Sets the position in the source that the following calls come from.
    pub fn at(&mut self, origin: usize) {
        self.origin = origin;
    }

    /// The position in the source that calls come from now.
    #[must_use]
    pub fn origin(&self) -> usize {
        self.origin
    }

    /// Charges items to the budget, before they are added.
    ///
    /// # Errors
    /// More items than the size of the source justifies.
    pub fn charge(&mut self, items: usize) -> Result<()> {
        self.items = self.items.saturating_add(items as u64);
        if self.items > self.limit {
            return Err(Error::Budget { resource: Resource::Items, limit: self.limit, items: self.source_items });
        }
        Ok(())
    }

    fn add(&mut self, value: Value) -> Result<ValueId> {
        self.charge(1 + crate::budget::listed(&value))?;
        Ok(self.built.graph.add(value))
    }

    fn intern(&mut self, key: ScalarKey, value: impl FnOnce() -> Value) -> Result<ValueId> {
        if let Some(&id) = self.scalars.get(&key) {
            return Ok(id);
        }
        let id = self.add(value())?;
        self.scalars.insert(key, id);
        Ok(id)
    }

    /// Adds any value.
    ///
    /// # Errors
    /// As [`charge`](Self::charge), like all that follow.
    pub fn value(&mut self, value: Value) -> Result<ValueId> {
        match value {
            Value::Null => self.null(),
            Value::Int(value) => self.int(value),
            Value::Double(value) => self.double(value),
            Value::Bool(value) => self.bool(value),
            Value::String(text) => self.intern(ScalarKey::String(text.clone()), || Value::String(text)),
            Value::IntList(items) => self.ints(&items),
            Value::DoubleList(items) => self.doubles(&items),
            Value::BoolList(items) => {
                self.charge(items.len())?;
                self.intern(ScalarKey::Bools(items.clone()), || Value::BoolList(items))
            }
            Value::ValueList(items) => self.list(&items),
            Value::Tensor(_) | Value::SymInt => self.add(value),
        }
    }

    /// None.
    pub fn null(&mut self) -> Result<ValueId> {
        self.intern(ScalarKey::Null, || Value::Null)
    }

    /// An integer.
    pub fn int(&mut self, value: i64) -> Result<ValueId> {
        self.intern(ScalarKey::Int(value), || Value::Int(value))
    }

    /// A floating-point number.
    pub fn double(&mut self, value: f64) -> Result<ValueId> {
        self.intern(ScalarKey::Double(value.to_bits()), || Value::Double(value))
    }

    /// A Boolean.
    pub fn bool(&mut self, value: bool) -> Result<ValueId> {
        self.intern(ScalarKey::Bool(value), || Value::Bool(value))
    }

    /// A string.
    pub fn text(&mut self, text: &str) -> Result<ValueId> {
        self.intern(ScalarKey::String(text.to_owned()), || Value::String(text.to_owned()))
    }

    /// A list of integers.
    pub fn ints(&mut self, items: &[i64]) -> Result<ValueId> {
        self.charge(items.len())?;
        self.intern(ScalarKey::Ints(items.to_vec()), || Value::IntList(items.to_vec()))
    }

    /// A list of floating-point numbers.
    pub fn doubles(&mut self, items: &[f64]) -> Result<ValueId> {
        self.charge(items.len())?;
        let key = items.iter().map(|item| item.to_bits()).collect();
        self.intern(ScalarKey::Doubles(key), || Value::DoubleList(items.to_vec()))
    }

    /// A list of values that are not lists of values themselves.
    pub fn list(&mut self, items: &[ValueId]) -> Result<ValueId> {
        self.charge(items.len())?;
        self.intern(ScalarKey::List(items.to_vec()), || Value::ValueList(items.to_vec()))
    }

    /// A symbolic integer that a call will compute.
    pub fn symint(&mut self) -> Result<ValueId> {
        self.add(Value::SymInt)
    }

    /// A contiguous tensor that a call will compute.
    pub fn tensor(&mut self, dtype: DataType, dims: &[u32]) -> Result<ValueId> {
        self.charge(dims.len())?;
        self.add(Value::Tensor(Tensor::new(dtype, dims)))
    }

    /// A quantised tensor that a call will compute.
    pub fn quantized_tensor(&mut self, dtype: DataType, dims: &[u32], quantization: Quantization) -> Result<ValueId> {
        self.charge(dims.len())?;
        self.add(Value::Tensor(Tensor { quantization: Some(quantization), ..Tensor::new(dtype, dims) }))
    }

    /// A tensor with the bytes of a constant of the delegate that is being translated. Equal constants share their bytes.
    pub fn delegate_constant(&mut self, tensor: Tensor, constant: u32, source: ConstantSource) -> Result<ValueId> {
        let Some(data) = self.delegate else {
            return Err(Error::Misuse("a constant of a delegate is added outside of any delegate".to_owned()));
        };
        self.constant(tensor, source, ConstantOrigin::Delegate { data, constant })
    }

    /// A tensor with these bytes.
    pub fn bytes(&mut self, dtype: DataType, dims: &[u32], bytes: Vec<u8>) -> Result<ValueId> {
        // Bytes come from the source, which holds them as well.
        self.charge(bytes.len() / 64)?;
        let origin = ConstantOrigin::Bytes(Arc::new(bytes));
        self.constant(Tensor::new(dtype, dims), ConstantSource::Stored, origin)
    }

    /// A tensor of zeros that lasts from call to call, if a call mutates it.
    pub fn zeros(&mut self, dtype: DataType, dims: &[u32]) -> Result<ValueId> {
        let tensor = Tensor::new(dtype, dims);
        let len = byte_len(&tensor)?;
        let constant = self.new_constant(len, ConstantSource::Zeros, ConstantOrigin::Zeros)?;
        self.add(Value::Tensor(Tensor { constant: Some(constant), ..tensor }))
    }

    /// A tensor with the bytes of a constant; its own constant is replaced. One origin with one element type is one constant.
    pub fn constant(&mut self, tensor: Tensor, source: ConstantSource, origin: ConstantOrigin) -> Result<ValueId> {
        let len = byte_len(&tensor)?;
        let key = (origin, tensor.dtype);
        let constant = match self.constants.get(&key) {
            // A tensor of another length fails verification, which names both.
            Some(&known) => known,
            None => {
                let id = self.new_constant(len, source, key.0.clone())?;
                self.constants.insert(key, id);
                id
            }
        };
        self.add(Value::Tensor(Tensor { constant: Some(constant), ..tensor }))
    }

    fn new_constant(&mut self, len: u64, source: ConstantSource, origin: ConstantOrigin) -> Result<ConstantId> {
        self.charge(2)?;
        let id = u32::try_from(self.built.graph.constants.len());
        let id = id.map_err(|_| Error::Misuse("a graph has at most 2^32 constants".to_owned()))?;
        self.built.graph.constants.push(Constant { len, source });
        self.built.origins.push(origin);
        Ok(ConstantId(id))
    }

    /// Adds a call of an operator, internal ones included. A name that no operator has is recorded as unsupported, and
    /// [`finish`](Self::finish) reports all of them.
    pub fn call(&mut self, name: &str, args: &[ValueId]) -> Result<()> {
        self.charge(1 + args.len())?;
        match Call::named(name, args.to_vec()) {
            Some(call) => self.built.graph.calls.push(call.at(self.origin)),
            None => self.unsupported(name),
        }
        Ok(())
    }

    /// Adds a finished call.
    pub(super) fn push(&mut self, call: Call) -> Result<()> {
        self.charge(1 + call.args.len())?;
        self.built.graph.calls.push(call);
        Ok(())
    }

    /// Adds a call whose only output is a new contiguous tensor. Returns that tensor.
    pub fn compute(&mut self, name: &str, args: &[ValueId], dtype: DataType, dims: &[u32]) -> Result<ValueId> {
        let out = self.tensor(dtype, dims)?;
        self.call(name, &[args, &[out]].concat())?;
        Ok(out)
    }

    /// Records something of the source that is not supported, by name.
    pub fn unsupported(&mut self, name: &str) {
        *self.unsupported.entry(name.to_owned()).or_insert(0) += 1;
    }

    /// Everything recorded as unsupported so far, with its count.
    #[must_use]
    pub fn missing(&self) -> &BTreeMap<String, usize> {
        &self.unsupported
    }

    /// Makes a tensor an input of the graph.
    pub fn input(&mut self, id: ValueId) -> Result<()> {
        self.charge(1)?;
        self.built.graph.inputs.push(id);
        Ok(())
    }

    /// Makes a tensor an output of the graph.
    pub fn output(&mut self, id: ValueId) -> Result<()> {
        self.charge(1)?;
        self.built.graph.outputs.push(id);
        Ok(())
    }

    /// Returns the graph.
    ///
    /// # Errors
    /// Everything that is not supported, with its count.
    pub fn finish(self) -> Result<BuiltGraph> {
        if self.unsupported.is_empty() {
            return Ok(self.built);
        }
        Err(Error::UnsupportedOperators(self.unsupported.into_iter().collect()))
    }
}

fn byte_len(tensor: &Tensor) -> Result<u64> {
    tensor.byte_len().ok_or_else(|| Error::Misuse("a constant has more bytes than 64 bits count".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_scalars_and_lists_are_one_value() {
        let mut builder = Builder::new(0);
        let three = builder.int(3).unwrap();
        assert_eq!(builder.int(3).unwrap(), three);
        assert_ne!(builder.double(3.0).unwrap(), three, "an integer and a float are different values");
        assert_ne!(builder.double(0.0).unwrap(), builder.double(-0.0).unwrap());
        assert_eq!(builder.ints(&[1, 2]).unwrap(), builder.ints(&[1, 2]).unwrap());
        assert_ne!(builder.tensor(DataType::Int32, &[1]).unwrap(), builder.tensor(DataType::Int32, &[1]).unwrap());
    }

    #[test]
    fn one_origin_with_one_type_is_one_constant() {
        let mut builder = Builder::new(0);
        let mut add = |dtype, bytes: u8| {
            let id = builder.bytes(dtype, &[4], vec![bytes; 4]).unwrap();
            builder.tensor_at(id).unwrap().constant.unwrap()
        };
        let first = add(DataType::UInt8, 7);
        assert_eq!(add(DataType::UInt8, 7), first);
        assert_ne!(add(DataType::UInt8, 8), first);
        assert_ne!(add(DataType::Int8, 7), first);
        let built = builder.finish().unwrap();
        assert_eq!(built.origins.len(), built.graph.constants.len());
    }

    #[test]
    fn zeros_are_separate_states() {
        let mut builder = Builder::new(0);
        let (a, b) = (builder.zeros(DataType::Float32, &[2]).unwrap(), builder.zeros(DataType::Float32, &[2]).unwrap());
        assert_ne!(builder.tensor_at(a).unwrap().constant, builder.tensor_at(b).unwrap().constant);
    }

    #[test]
    fn unsupported_names_are_reported_at_once_with_counts() {
        let mut builder = Builder::new(0);
        builder.call("aten.mystery.default", &[]).unwrap();
        builder.call("aten.mystery.default", &[]).unwrap();
        builder.unsupported("CoreMLBackend");
        let error = builder.finish().unwrap_err().to_string();
        assert!(error.starts_with("operators CoreMLBackend, aten.mystery.default (2 calls) are not supported"), "{error}");
    }

    #[test]
    fn a_graph_larger_than_its_source_justifies_is_rejected() {
        let mut builder = Builder::new(1);
        let error = (0..).find_map(|_| builder.tensor(DataType::Float32, &[1, 2, 3]).err()).unwrap();
        assert!(matches!(error, Error::Budget { resource: Resource::Items, items: 1, .. }), "{error}");
    }
}
