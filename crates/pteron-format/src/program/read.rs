//! Converts verified tables to typed values.

use pteron_schema::Vector;
use pteron_schema::program as fb;

use super::*;
use crate::budget::Budget;
use crate::error::{Item, Problem, Result, Section, clip};
use crate::reader::Reader;

/// Reads the tables. Segments are placed by `segment`, data inside the tables by its position.
pub(crate) fn read_tables(
    root: fb::Program<'_>,
    tables: &[u8],
    budget: &mut Budget,
    mut segment: impl FnMut(usize, u64, u64) -> Result<ByteRange>,
) -> Result<Program> {
    let mut cx = Reader::new(Section::Program, budget);
    let mut index = 0;
    Ok(Program {
        version: root.version(),
        segments: cx.tables(root.segments(), |_, table: fb::DataSegment<'_>| {
            index += 1;
            segment(index - 1, table.offset(), table.size())
        })?,
        inline_constants: cx.tables(root.constant_buffer(), |_, t: fb::Buffer<'_>| Ok(inline(tables, t.storage())))?,
        inline_delegates: cx
            .tables(root.backend_delegate_data(), |_, t: fb::BackendDelegateInlineData<'_>| Ok(inline(tables, t.data())))?,
        constants: root.constant_segment().map(|t| cx.subsegments(t)).transpose()?,
        mutable_data: cx.optional_tables(root.mutable_data_segments(), Reader::subsegments)?,
        named_data: cx.optional_tables(root.named_data(), |cx, t: fb::NamedData<'_>| {
            // Names are sorted for comparison and lookup, which takes a pair of references per name.
            cx.budget.charge::<(&str, &ByteRange)>(&cx.section, 1)?;
            Ok(NamedData { key: cx.text(t.key(), "a data key")?, segment: SegmentId(t.segment_index()) })
        })?,
        plans: cx.tables(root.execution_plan(), Reader::plan)?,
    })
}

/// The file range of a byte vector in the tables, which start at the first byte of the file.
fn inline(tables: &[u8], bytes: Option<Vector<'_, u8>>) -> ByteRange {
    bytes.map_or(ByteRange { start: 0, len: 0 }, |bytes| {
        let bytes = bytes.bytes();
        let start = bytes.as_ptr().addr().saturating_sub(tables.as_ptr().addr());
        ByteRange { start: start as u64, len: bytes.len() as u64 }
    })
}

impl Reader<'_> {
    fn id(&self, value: i32) -> Result<ValueId> {
        self.index("a value id", value.into()).map(ValueId)
    }

    fn ids(&mut self, ids: Option<Vector<'_, i32>>) -> Result<Vec<ValueId>> {
        self.list(ids, Self::id)
    }

    fn subsegments(&mut self, table: fb::SubsegmentOffsets<'_>) -> Result<SubsegmentOffsets> {
        Ok(SubsegmentOffsets {
            segment: SegmentId(table.segment_index()),
            offsets: self.list(table.offsets(), |_, offset| Ok(offset))?,
        })
    }

    fn plan(&mut self, table: fb::ExecutionPlan<'_>) -> Result<ExecutionPlan> {
        let name = self.text(table.name(), "a method's name")?;
        self.section = Section::Method(clip(&name));
        let containers = match table.container_meta_type() {
            None => None,
            Some(meta) => Some(ContainerMetadata {
                inputs: self.text_or_empty(meta.encoded_inp_str())?,
                outputs: self.text_or_empty(meta.encoded_out_str())?,
            }),
        };
        let mut id = 0;
        let values = self.tables(table.values(), |cx, value: fb::EValue<'_>| {
            id += 1;
            cx.value(id - 1, value)
        })?;
        let plan = ExecutionPlan {
            name,
            containers,
            values,
            inputs: self.ids(table.inputs())?,
            outputs: self.ids(table.outputs())?,
            chains: self.tables(table.chains(), Self::chain)?,
            operators: self.tables(table.operators(), |cx, operator: fb::Operator<'_>| {
                Ok(Operator {
                    name: cx.text(operator.name(), "an operator's name")?,
                    overload: cx.text_or_empty(operator.overload())?,
                })
            })?,
            delegates: self.tables(table.delegates(), Self::delegate)?,
            buffer_sizes: self.list(table.non_const_buffer_sizes(), |cx, size: i64| match u64::try_from(size) {
                Ok(size) => Ok(size),
                Err(_) => cx.fail(Item::Whole, Problem::Negative { what: "a planned buffer's size", value: size }),
            })?,
            buffer_devices: self.optional_tables(
                table.non_const_buffer_device(),
                |cx, t: fb::NonConstBufferDevice<'_>| {
                    Ok(BufferDevice {
                        buffer: cx.index("a planned buffer's index", t.buffer_idx().into())?,
                        device: DeviceType::read(t.device_type(), &cx.section, Item::Whole)?,
                        index: t.device_index(),
                    })
                },
            )?,
        };
        self.section = Section::Program;
        Ok(plan)
    }

    fn value(&mut self, id: usize, table: fb::EValue<'_>) -> Result<Value> {
        use fb::KernelTypes as K;
        Ok(match table.val() {
            K::Absent => return self.fail(Item::Value(id), Problem::Missing { what: "its content" }),
            K::Unknown(tag) => {
                return self.fail(Item::Value(id), Problem::Unknown { what: "the kind of value", value: tag.into() });
            }
            K::Null(_) => Value::Null,
            K::Int(t) => Value::Int(t.int_val()),
            K::Bool(t) => Value::Bool(t.bool_val()),
            K::Double(t) => Value::Double(Float(t.double_val())),
            K::Tensor(t) => {
                self.budget.charge::<Tensor>(&self.section, 1)?;
                Value::Tensor(Box::new(self.tensor(id, t)?))
            }
            K::String(t) => Value::String(self.text_or_empty(t.string_val())?),
            K::IntList(t) => Value::IntList(self.list(t.items(), |cx, id: i64| cx.index("a value id", id).map(ValueId))?),
            K::DoubleList(t) => Value::DoubleList(self.list(t.items(), |_, item| Ok(Float(item)))?),
            K::BoolList(t) => Value::BoolList(self.list(t.items(), |_, item| Ok(item))?),
            K::TensorList(t) => Value::TensorList(self.ids(t.items())?),
            K::OptionalTensorList(t) => Value::OptionalTensorList(
                self.list(t.items(), |cx, id: i32| if id == -1 { Ok(None) } else { cx.id(id).map(Some) })?,
            ),
        })
    }

    fn tensor(&mut self, id: usize, table: fb::Tensor<'_>) -> Result<Tensor> {
        let unsigned = |cx: &Self, what, value: i32| match u32::try_from(value) {
            Ok(value) => Ok(value),
            Err(_) => cx.fail(Item::Value(id), Problem::Negative { what, value: value.into() }),
        };
        Ok(Tensor {
            scalar_type: ScalarType::read(table.scalar_type(), &self.section, Item::Value(id))?,
            storage_offset: unsigned(self, "the storage offset", table.storage_offset())?,
            sizes: self.list(table.sizes(), |cx, size: i32| unsigned(cx, "a dimension", size))?,
            dim_order: self.list(table.dim_order(), |_, dim| Ok(dim))?,
            requires_grad: table.requires_grad(),
            buffer: table.data_buffer_idx(),
            allocation: table.allocation_info().map(|a| AllocationDetails {
                memory: a.memory_id(),
                offset: u64::from(a.memory_offset_high()) << 32 | u64::from(a.memory_offset_low()),
            }),
            layout: table.layout(),
            dynamism: ShapeDynamism::read(table.shape_dynamism(), &self.section, Item::Value(id))?,
            extra: match table.extra_tensor_info() {
                None => None,
                Some(extra) => Some(ExtraTensorInfo {
                    mutable_segment: extra.mutable_data_segments_idx(),
                    name: extra.fully_qualified_name().map(|name| self.budget.text(&self.section, name)).transpose()?,
                    location: TensorDataLocation::read(extra.location(), &self.section, Item::Value(id))?,
                    device: DeviceType::read(extra.device_type(), &self.section, Item::Value(id))?,
                    device_index: extra.device_index(),
                }),
            },
        })
    }

    fn delegate(&mut self, table: fb::BackendDelegate<'_>) -> Result<Delegate> {
        let Some(processed) = table.processed() else { return self.missing("the place of a delegate's data") };
        Ok(Delegate {
            id: self.text(table.id(), "a delegate's backend")?,
            data: match processed.location() {
                0 => DataRef::Inline(processed.index()),
                1 => DataRef::Segment(SegmentId(processed.index())),
                value => {
                    return self
                        .fail(Item::Whole, Problem::Unknown { what: "a delegate's data location", value: value.into() });
                }
            },
            specs: self.tables(table.compile_specs(), |cx, spec: fb::CompileSpec<'_>| {
                Ok(CompileSpec {
                    key: cx.text(spec.key(), "a compile option's name")?,
                    value: cx.list(spec.value(), |_, b| Ok(b))?,
                })
            })?,
        })
    }

    fn chain(&mut self, table: fb::Chain<'_>) -> Result<Chain> {
        Ok(Chain {
            inputs: self.ids(table.inputs())?,
            outputs: self.ids(table.outputs())?,
            instructions: self.tables(table.instructions(), Self::instruction)?,
            stacktrace: self.optional_tables(table.stacktrace(), |cx, frames: fb::FrameList<'_>| {
                cx.tables(frames.items(), |cx, frame: fb::Frame<'_>| {
                    Ok(Frame {
                        filename: cx.text_or_empty(frame.filename())?,
                        line: frame.lineno(),
                        function: cx.text_or_empty(frame.name())?,
                        context: cx.text_or_empty(frame.context())?,
                    })
                })
            })?,
        })
    }

    fn instruction(&mut self, table: fb::Instruction<'_>) -> Result<Instruction> {
        use fb::InstructionArguments as I;
        let item = Item::Byte(table.position() as u64);
        Ok(match table.instr_args() {
            I::Absent => return self.fail(item, Problem::Missing { what: "an instruction's content" }),
            I::Unknown(tag) => {
                return self.fail(item, Problem::Unknown { what: "the kind of instruction", value: tag.into() });
            }
            I::KernelCall(call) => Instruction::KernelCall {
                operator: self.index("an operator's index", call.op_index().into())?,
                args: self.ids(call.args())?,
            },
            I::DelegateCall(call) => Instruction::DelegateCall {
                delegate: self.index("a delegate's index", call.delegate_index().into())?,
                args: self.ids(call.args())?,
            },
            I::MoveCall(call) => Instruction::Move { from: self.id(call.move_from())?, to: self.id(call.move_to())? },
            I::JumpFalseCall(call) => Instruction::JumpFalse {
                condition: self.id(call.cond_value_index())?,
                target: self.index("a jump's target", call.destination_instruction().into())?,
            },
            I::FreeCall(call) => Instruction::Free(self.id(call.value_index())?),
        })
    }
}
