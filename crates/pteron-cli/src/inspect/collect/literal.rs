//! Collects constant methods and the values they return.

use pteron_format::program::{ExecutionPlan, Program, Tensor, Value, ValueId};
use pteron_format::{ByteRange, Bytes, Pte, ScalarType};

use crate::inspect::report::{ConstantMethod, Literal};

/// Larger tensors are described, not printed.
const MOST_ELEMENTS: u64 = 16;
/// The most bytes of a method's constants in the report: outputs can repeat one long text.
const MOST_BYTES: usize = 1 << 20;

pub(super) fn constant_methods<B: Bytes>(pte: &Pte<B>) -> Vec<ConstantMethod> {
    let plans = pte.program().plans.iter().filter(|plan| plan.is_constant());
    plans.map(|plan| ConstantMethod { name: plan.name.clone(), value: value(pte, plan) }).collect()
}

fn value<B: Bytes>(pte: &Pte<B>, plan: &ExecutionPlan) -> Literal {
    let mut reader = Reader { pte, plan, room: MOST_BYTES };
    let mut outputs: Vec<_> = plan.outputs.iter().map(|&id| reader.literal(id)).collect();
    match outputs.pop() {
        Some(single) if outputs.is_empty() && !returns_list(plan) => single,
        last => Literal::List(outputs.into_iter().chain(last).collect()),
    }
}

/// Whether Python's description of the outputs says that they are a list or tuple, even of one.
fn returns_list(plan: &ExecutionPlan) -> bool {
    let Some(containers) = &plan.containers else { return false };
    let spec = serde_json::from_str::<serde_json::Value>(&containers.outputs).unwrap_or_default();
    matches!(spec[1]["type"].as_str(), Some("builtins.list" | "builtins.tuple"))
}

/// Reads values until there is no room for more.
struct Reader<'a, B> {
    pte: &'a Pte<B>,
    plan: &'a ExecutionPlan,
    room: usize,
}

impl<B: Bytes> Reader<'_, B> {
    /// A value as a literal. Lists never hold lists (the reader has checked that), so this does not recurse deeply.
    fn literal(&mut self, id: ValueId) -> Literal {
        let plan = self.plan;
        let value = plan.value(id).unwrap_or(&Value::Null);
        let cost = match value {
            Value::String(text) => text.len(),
            Value::DoubleList(items) => items.len(),
            Value::BoolList(items) => items.len(),
            _ => 1,
        };
        let Some(room) = self.room.checked_sub(cost) else { return Literal::Text("…".to_owned()) };
        self.room = room;
        match value {
            Value::Null => Literal::Null,
            Value::Int(value) => Literal::Int(*value),
            Value::Bool(value) => Literal::Bool(*value),
            Value::Double(value) => Literal::Float(value.0),
            Value::String(value) => Literal::Text(value.clone()),
            Value::DoubleList(values) => Literal::List(values.iter().map(|value| Literal::Float(value.0)).collect()),
            Value::BoolList(values) => Literal::List(values.iter().map(|&value| Literal::Bool(value)).collect()),
            Value::IntList(ids) | Value::TensorList(ids) => self.list(ids.iter().map(|&id| Some(id))),
            Value::OptionalTensorList(ids) => self.list(ids.iter().copied()),
            Value::Tensor(tensor) => Literal::Tensor {
                dtype: tensor.scalar_type.name(),
                shape: tensor.sizes.clone(),
                elements: data(self.pte, tensor).and_then(|bytes| elements(tensor.scalar_type, bytes)),
            },
        }
    }

    fn list(&mut self, ids: impl Iterator<Item = Option<ValueId>>) -> Literal {
        Literal::List(ids.map(|id| id.map_or(Literal::Null, |id| self.literal(id))).collect())
    }
}

/// The bytes of a small constant tensor in the program's own constants.
fn data<'a, B: Bytes>(pte: &'a Pte<B>, tensor: &Tensor) -> Option<&'a [u8]> {
    if tensor.buffer == 0 || tensor.allocation.is_some() || tensor.element_count()? > MOST_ELEMENTS {
        return None;
    }
    let extent = extent(pte.program(), tensor)?;
    Some(pte.bytes(ByteRange { len: tensor.byte_len()?.min(extent.len), ..extent }))
}

fn extent(program: &Program, tensor: &Tensor) -> Option<ByteRange> {
    let index = tensor.buffer as usize;
    match &program.constants {
        Some(list) if !list.offsets.is_empty() => {
            let (segment, offset) = (program.segments.get(list.segment.index())?, *list.offsets.get(index)?);
            Some(ByteRange { start: segment.start.checked_add(offset)?, len: segment.len.checked_sub(offset)? })
        }
        _ => program.inline_constants.get(index).copied(),
    }
}

fn elements(scalar: ScalarType, bytes: &[u8]) -> Option<Vec<Literal>> {
    fn each<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> Literal) -> Vec<Literal> {
        bytes.chunks_exact(N).filter_map(|chunk| chunk.try_into().ok()).map(read).collect()
    }
    Some(match scalar {
        ScalarType::Bool => each(bytes, |[byte]: [u8; 1]| Literal::Bool(byte != 0)),
        ScalarType::Byte => each(bytes, |[byte]: [u8; 1]| Literal::Int(byte.into())),
        ScalarType::Char => each(bytes, |byte| Literal::Int(i8::from_le_bytes(byte).into())),
        ScalarType::Short => each(bytes, |bytes| Literal::Int(i16::from_le_bytes(bytes).into())),
        ScalarType::Int => each(bytes, |bytes| Literal::Int(i32::from_le_bytes(bytes).into())),
        ScalarType::Long => each(bytes, |bytes| Literal::Int(i64::from_le_bytes(bytes))),
        ScalarType::Float => each(bytes, |bytes| Literal::Float(f32::from_le_bytes(bytes).into())),
        ScalarType::Double => each(bytes, |bytes| Literal::Float(f64::from_le_bytes(bytes))),
        _ => return None,
    })
}
