//! Assigns value ids and writes the graph. Equal scalars share an id, as in the exporter.

use pteron_format::Float;
use pteron_format::vulkan::{
    self, Constant, ConstantId, ConstantSource, DataType, Graph, MemoryLayout, StorageType, Value, ValueId,
};

use super::builder::{Arg, Call, CallOutput, Element, GraphBuilder, Origin, Size, Statement, TensorId};
use super::storage::Representation;
use crate::template::ConstantData;

/// The version of the exporter's schema.
const VERSION: &str = "0";

/// Storage and memory of each tensor, in order.
pub(super) struct TensorAssignments {
    pub(super) representations: Vec<Option<Representation>>,
    pub(super) memory_objects: Vec<Option<u32>>,
    /// Whether floats are float16.
    pub(super) f16: bool,
}

/// Writes the graph. Returns it with the contents of its constants.
pub(super) fn write(builder: &GraphBuilder, assigned: &TensorAssignments) -> (Graph, Vec<ConstantData>) {
    let graph = Graph { version: VERSION.to_owned(), ..Graph::default() };
    let tensors = vec![None; builder.tensors.len()];
    let mut writer =
        Writer { builder, assigned, graph, constant_data: Vec::new(), tensors, sym_ints: Vec::new(), scalars: Vec::new() };
    for statement in &builder.statements {
        match statement {
            Statement::Placeholder(tensor) => writer.placeholder(*tensor),
            Statement::Call(call) => writer.call(call),
        }
    }
    writer.graph.outputs = builder.outputs.iter().map(|&tensor| writer.tensor(tensor)).collect();
    (writer.graph, writer.constant_data)
}

/// A scalar argument. As in Python, `1 == 1.0`, but a bool equals no number.
#[derive(Clone, Copy, Debug)]
enum Scalar {
    Number(f64),
    Bool(bool),
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a == b,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            _ => false,
        }
    }
}

struct Writer<'a> {
    builder: &'a GraphBuilder,
    assigned: &'a TensorAssignments,
    graph: Graph,
    constant_data: Vec<ConstantData>,
    tensors: Vec<Option<ValueId>>,
    sym_ints: Vec<ValueId>,
    scalars: Vec<(Scalar, ValueId)>,
}

impl Writer<'_> {
    fn value(&mut self, value: Value) -> ValueId {
        self.graph.values.push(value);
        ValueId(index(self.graph.values.len() - 1))
    }

    fn placeholder(&mut self, tensor: TensorId) {
        let id = self.tensor(tensor);
        if self.builder.tensors[tensor].origin == Origin::Input {
            self.graph.inputs.push(id);
        }
    }

    fn call(&mut self, call: &Call) {
        let mut args: Vec<ValueId> = call.args.iter().map(|arg| self.arg(arg)).collect();
        args.push(match &call.output {
            CallOutput::Tensor(tensor) => self.tensor(*tensor),
            CallOutput::Tensors(tensors) => {
                let items = tensors.iter().map(|&tensor| self.tensor(tensor)).collect();
                self.value(Value::ValueList(items))
            }
            // Symbolic integers are numbered in the order of their calls.
            CallOutput::SymInt => {
                let id = self.value(Value::SymInt(0));
                self.sym_ints.push(id);
                id
            }
        });
        let node_id = index(self.graph.chain.len());
        self.graph.chain.push(vulkan::Call { node_id, name: call.operator.name().to_owned(), args });
    }

    fn arg(&mut self, arg: &Arg) -> ValueId {
        match arg {
            Arg::Tensor(tensor) => self.tensor(*tensor),
            Arg::SymInt(sym_int) => self.sym_ints[sym_int.index()],
            Arg::Sizes { sizes, tokens } => {
                let tokens = self.sym_ints[tokens.index()];
                let size = |size: &Size| match size {
                    Size::Tokens => tokens,
                    Size::Fixed(size) => self.scalar(Scalar::Number((*size).into()), Value::Int((*size).into())),
                };
                let items = sizes.iter().map(size).collect();
                self.value(Value::ValueList(items))
            }
            Arg::Int(int) => self.scalar(Scalar::Number(*int as f64), Value::Int(*int)),
            Arg::Double(double) => self.scalar(Scalar::Number(*double), Value::Double(Float(*double))),
            Arg::Bool(bool) => self.scalar(Scalar::Bool(*bool), Value::Bool(*bool)),
            Arg::Ints(ints) => self.value(Value::IntList(ints.clone())),
            Arg::Text(text) => self.value(Value::String((*text).to_owned())),
            Arg::Null => self.value(Value::Null),
        }
    }

    /// Returns the id of a scalar. The first occurrence decides its type: a zero that came as an integer stays one.
    fn scalar(&mut self, scalar: Scalar, value: Value) -> ValueId {
        if let Some(&(_, id)) = self.scalars.iter().find(|(known, _)| *known == scalar) {
            return id;
        }
        let id = self.value(value);
        self.scalars.push((scalar, id));
        id
    }

    fn tensor(&mut self, tensor: TensorId) -> ValueId {
        if let Some(id) = self.tensors[tensor] {
            return id;
        }
        let value = Value::Tensor(self.describe(tensor));
        let id = self.value(value);
        self.tensors[tensor] = Some(id);
        id
    }

    #[expect(clippy::expect_used, reason = "`check::check` runs before and bounds the size of every tensor")]
    fn describe(&mut self, tensor: TensorId) -> vulkan::Tensor {
        let source = &self.builder.tensors[tensor];
        let content = match source.origin {
            Origin::Constant(content) | Origin::State(content) => Some(content),
            Origin::Prepacked | Origin::Input | Origin::Call => None,
        };
        let (dtype, border) = match source.element {
            Element::Float if self.assigned.f16 => (DataType::Float16, DataType::Float32),
            Element::Float => (DataType::Float32, DataType::Float32),
            Element::Index => (DataType::Int32, DataType::Int32),
            Element::Nibbles => (DataType::UInt8, DataType::UInt8),
            Element::Int8 => (DataType::Int8, DataType::Int8),
            Element::Int32 => (DataType::Int32, DataType::Int32),
        };
        let (storage, layout) = self.assigned.representations[tensor].unwrap_or((StorageType::Unset, MemoryLayout::Unset));
        let mut described = vulkan::Tensor {
            dtype,
            dims: self.builder.dims(tensor),
            constant: None,
            memory_object: self.assigned.memory_objects[tensor],
            storage,
            layout,
            // Constants are stored in the graph's element type.
            staging: Some(if content.is_some() { dtype } else { border }),
        };
        if let Some(content) = content {
            described.constant = Some(ConstantId(index(self.constant_data.len())));
            self.constant_data.push(content);
            let len = described.byte_len().expect("`check` bounds the size of every tensor");
            self.graph.constants.push(Constant { len, source: ConstantSource::Named(String::new()) });
        }
        described
    }
}

/// Converts a position in a list of the file.
#[expect(clippy::expect_used, reason = "`check::check` bounds the number of layers")]
fn index(position: usize) -> u32 {
    u32::try_from(position).expect("1024 layers of some dozens of values fit 32 bits")
}
