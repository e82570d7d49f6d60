//! Converts verified tables to a typed graph.

use pteron_schema::Vector;
use pteron_schema::vulkan as fb;

use super::*;
use crate::budget::Budget;
use crate::error::{Item, Problem, Result, Section};
use crate::reader::Reader;

/// The offset of a constant whose bytes are named data.
pub(crate) const NAMED: u64 = u64::MAX;
/// Marks an absent constant or memory object.
pub(crate) const NONE: i32 = -1;
/// Marks an absent staging type.
pub(crate) const UNSET: i8 = 127;

pub(crate) fn read_graph(root: fb::VkGraph<'_>, budget: &mut Budget) -> Result<Graph> {
    let mut cx = Reader::new(Section::Graph, budget);
    let mut id = 0;
    let values = cx.tables(root.values(), |cx, value: fb::VkValue<'_>| {
        id += 1;
        cx.graph_value(id - 1, value)
    })?;
    Ok(Graph {
        version: cx.text_or_empty(root.version())?,
        chain: cx.tables(root.chain(), |cx, call: fb::OperatorCall<'_>| {
            Ok(Call {
                node_id: call.node_id(),
                name: cx.text(call.name(), "an operator's name")?,
                args: cx.graph_ids(call.args())?,
            })
        })?,
        values,
        inputs: cx.list(root.input_ids(), |_, id| Ok(ValueId(id)))?,
        outputs: cx.list(root.output_ids(), |_, id| Ok(ValueId(id)))?,
        constants: cx.tables(root.constants(), Reader::graph_bytes)?,
        shaders: cx.tables(root.shaders(), Reader::graph_bytes)?,
        storage_override: StorageType::read(root.storage_type_override(), &cx.section, Item::Whole)?,
        layout_override: MemoryLayout::read(root.memory_layout_override(), &cx.section, Item::Whole)?,
    })
}

impl Reader<'_> {
    fn graph_ids(&mut self, ids: Option<Vector<'_, i32>>) -> Result<Vec<ValueId>> {
        self.list(ids, |cx, id: i32| cx.index("a value id", id.into()).map(ValueId))
    }

    fn graph_bytes(&mut self, table: fb::VkBytes<'_>) -> Result<Constant> {
        let source = match (table.offset(), table.named_key()) {
            (NAMED, Some(key)) if !key.is_empty() => ConstantSource::Named(self.budget.text(&self.section, key)?),
            (NAMED, _) => return self.missing("the key of a constant without an offset"),
            (offset, _) => ConstantSource::Stored(offset),
        };
        Ok(Constant { len: table.length(), source })
    }

    fn graph_value(&mut self, id: usize, table: fb::VkValue<'_>) -> Result<Value> {
        use fb::GraphTypes as G;
        Ok(match table.value() {
            G::Absent => return self.fail(Item::Value(id), Problem::Missing { what: "its content" }),
            G::Unknown(tag) => {
                return self.fail(Item::Value(id), Problem::Unknown { what: "the kind of value", value: tag.into() });
            }
            G::Null(_) => Value::Null,
            G::Int(t) => Value::Int(t.int_val()),
            G::Double(t) => Value::Double(Float(t.double_val())),
            G::Bool(t) => Value::Bool(t.bool_val()),
            G::VkTensor(t) => Value::Tensor(self.graph_tensor(id, t)?),
            G::IntList(t) => Value::IntList(self.list(t.items(), |_, item| Ok(item))?),
            G::DoubleList(t) => Value::DoubleList(self.list(t.items(), |_, item| Ok(Float(item)))?),
            G::BoolList(t) => Value::BoolList(self.list(t.items(), |_, item| Ok(item))?),
            G::ValueList(t) => Value::ValueList(self.graph_ids(t.items())?),
            G::String(t) => Value::String(self.text_or_empty(t.string_val())?),
            G::SymInt(t) => Value::SymInt(t.value()),
        })
    }

    fn graph_tensor(&mut self, id: usize, table: fb::VkTensor<'_>) -> Result<Tensor> {
        let item = || Item::Value(id);
        let optional = |cx: &Self, what, value: i32| match (value, u32::try_from(value)) {
            (NONE, _) => Ok(None),
            (_, Ok(index)) => Ok(Some(index)),
            (_, Err(_)) => cx.fail(item(), Problem::Negative { what, value: value.into() }),
        };
        Ok(Tensor {
            dtype: DataType::read(table.datatype(), &self.section, item())?,
            dims: self.list(table.dims(), |_, dim| Ok(dim))?,
            constant: optional(self, "its constant's id", table.constant_id())?.map(ConstantId),
            memory_object: optional(self, "its memory object's id", table.mem_obj_id())?,
            storage: StorageType::read(table.storage_type(), &self.section, item())?,
            layout: MemoryLayout::read(table.memory_layout(), &self.section, item())?,
            staging: match table.staging_datatype() {
                UNSET => None,
                staging => Some(DataType::read(staging, &self.section, item())?),
            },
        })
    }
}
