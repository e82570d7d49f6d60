//! A sketch becomes the graph of a file: values get their ids, equal numbers one id.

use pteron_format::Float;
use pteron_format::vulkan::{
    self, Constant, ConstantId, ConstantSource, DataType, Graph, MemoryLayout, StorageType, Value, ValueId,
};

use super::sketch::{Arg, Call, Element, Origin, Outcome, Size, Sketch, Step, TensorId};
use super::storage::Representation;
use crate::blueprint::Content;

/// The version of the exporter's schema.
const VERSION: &str = "0";

/// What was decided about the tensors of a sketch, in their order.
pub(super) struct Decided {
    pub(super) representations: Vec<Option<Representation>>,
    pub(super) memory_objects: Vec<Option<u32>>,
    /// Whether floats have 16 bits.
    pub(super) half: bool,
}

/// The graph, and what its constants are.
pub(super) fn write(sketch: &Sketch, decided: &Decided) -> (Graph, Vec<Content>) {
    let graph = Graph { version: VERSION.to_owned(), ..Graph::default() };
    let tensors = vec![None; sketch.tensors.len()];
    let mut writer =
        Writer { sketch, decided, graph, contents: Vec::new(), tensors, symbols: Vec::new(), scalars: Vec::new() };
    for step in &sketch.steps {
        match step {
            Step::Begin(tensor) => writer.begin(*tensor),
            Step::Call(call) => writer.call(call),
        }
    }
    writer.graph.outputs = sketch.outputs.iter().map(|&tensor| writer.tensor(tensor)).collect();
    (writer.graph, writer.contents)
}

/// A number that calls take. Python tells bools from numbers here, but not floats from integers.
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
    sketch: &'a Sketch,
    decided: &'a Decided,
    graph: Graph,
    contents: Vec<Content>,
    tensors: Vec<Option<ValueId>>,
    symbols: Vec<ValueId>,
    scalars: Vec<(Scalar, ValueId)>,
}

impl Writer<'_> {
    fn value(&mut self, value: Value) -> ValueId {
        self.graph.values.push(value);
        ValueId(index(self.graph.values.len() - 1))
    }

    fn begin(&mut self, tensor: TensorId) {
        let id = self.tensor(tensor);
        if self.sketch.tensors[tensor].origin == Origin::Input {
            self.graph.inputs.push(id);
        }
    }

    fn call(&mut self, call: &Call) {
        let mut args: Vec<ValueId> = call.args.iter().map(|arg| self.arg(arg)).collect();
        args.push(match &call.outcome {
            Outcome::Tensor(tensor) => self.tensor(*tensor),
            Outcome::Tensors(tensors) => {
                let items = tensors.iter().map(|&tensor| self.tensor(tensor)).collect();
                self.value(Value::ValueList(items))
            }
            // Symbols are numbered as they are made, and their calls stand in that order.
            Outcome::Symbol => {
                let id = self.value(Value::SymInt(0));
                self.symbols.push(id);
                id
            }
        });
        let node_id = index(self.graph.chain.len());
        self.graph.chain.push(vulkan::Call { node_id, name: call.operator.name().to_owned(), args });
    }

    fn arg(&mut self, arg: &Arg) -> ValueId {
        match arg {
            Arg::Tensor(tensor) => self.tensor(*tensor),
            Arg::Symbol(symbol) => self.symbols[symbol.index()],
            Arg::Sizes { sizes, tokens } => {
                let tokens = self.symbols[tokens.index()];
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
            Arg::Null => self.value(Value::Null),
        }
    }

    /// The number as it was first written: a zero that came as an integer stays one.
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

    fn describe(&mut self, tensor: TensorId) -> vulkan::Tensor {
        let drawn = &self.sketch.tensors[tensor];
        let content = match drawn.origin {
            Origin::Constant(content) | Origin::State(content) => Some(content),
            Origin::Prepacked | Origin::Input | Origin::Call => None,
        };
        let (dtype, border) = match drawn.element {
            Element::Float if self.decided.half => (DataType::Float16, DataType::Float32),
            Element::Float => (DataType::Float32, DataType::Float32),
            Element::Index => (DataType::Int32, DataType::Int32),
            Element::Nibbles => (DataType::UInt8, DataType::UInt8),
        };
        let (storage, layout) = self.decided.representations[tensor].unwrap_or((StorageType::Unset, MemoryLayout::Unset));
        let mut described = vulkan::Tensor {
            dtype,
            dims: self.sketch.dims(tensor),
            constant: None,
            memory_object: self.decided.memory_objects[tensor],
            storage,
            layout,
            // Constants are written as what they are in the graph.
            staging: Some(if content.is_some() { dtype } else { border }),
        };
        if let Some(content) = content {
            described.constant = Some(ConstantId(index(self.contents.len())));
            self.contents.push(content);
            let len = described.byte_len().unwrap_or(u64::MAX);
            self.graph.constants.push(Constant { len, source: ConstantSource::Named(String::new()) });
        }
        described
    }
}

/// A place in a list of the file. Layers are few enough, and calls for a layer, that 32 bits count them.
fn index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}
