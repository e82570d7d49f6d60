//! Programs made from bytes: methods with delegates of both backends, kernel calls and other instructions around them, kept tensors
//! and constants.

use pteron_format::program::{
    AllocationDetails, Chain, DataRef, Delegate, DeviceType, ExecutionPlan, ExtraTensorInfo, Instruction, Operator,
    SegmentId, ShapeDynamism, SubsegmentOffsets, Tensor, TensorDataLocation, Value, ValueId,
};
use pteron_format::vulkan::DataType;
use pteron_format::{Program, ScalarType};

use super::cursor::Cursor;
use super::graph::{GraphBuilder, builder};
use super::part::Part;

/// Bytes of the segment of constants: each of its tensors starts at a multiple of 64.
const CONSTANT_BYTES: usize = 4096;

fn parts(cursor: &mut Cursor<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    for _ in 0..1 + cursor.below(3) {
        if cursor.flip() {
            parts.extend(Part::xnnpack(super::xnnpack::graph(cursor)));
        } else {
            let hostile = cursor.one_in(6);
            let GraphBuilder { graph, .. } = builder(cursor, hostile, 2);
            parts.extend(Part::vulkan(graph));
        }
    }
    parts
}

/// A program with several methods.
#[must_use]
pub fn program(cursor: &mut Cursor<'_>) -> Program<Vec<u8>> {
    let parts = parts(cursor);
    let mut plans: Vec<ExecutionPlan> = (0..1 + cursor.below(3)).map(|index| method(cursor, &parts, index)).collect();
    if cursor.flip() {
        plans.push(constant_method(cursor));
    }
    for _ in 0..cursor.below(3) {
        let index = cursor.below(plans.len());
        change(&mut plans[index], cursor);
    }
    let blobs: Vec<Vec<u8>> = parts.into_iter().map(Part::into_blob).collect();
    assemble(plans, blobs)
}

/// Puts methods and the graphs they call into one program. Delegates name graphs by segment, after the segment of constants.
#[must_use]
pub fn assemble(plans: Vec<ExecutionPlan>, blobs: Vec<Vec<u8>>) -> Program<Vec<u8>> {
    let mut segments = vec![(0..CONSTANT_BYTES).map(|at| at as u8).collect::<Vec<u8>>()];
    let inline_delegates = blobs.iter().take(1).cloned().collect();
    segments.extend(blobs);
    let offsets: Vec<u64> = (0..CONSTANT_BYTES as u64 / 64).map(|at| at * 64).collect();
    let constants = SubsegmentOffsets { segment: SegmentId(0), offsets };
    Program {
        plans,
        segments,
        inline_delegates,
        mutable_data: Some(vec![constants.clone()]),
        constants: Some(constants),
        ..Program::default()
    }
}

/// Where the bytes of a graph are.
fn place(cursor: &mut Cursor<'_>, graph: usize) -> DataRef {
    if graph == 0 && cursor.one_in(4) { DataRef::Inline(0) } else { DataRef::Segment(SegmentId(graph as u32 + 1)) }
}

/// The type that crosses the border of a graph.
#[must_use]
pub fn border(dtype: DataType) -> ScalarType {
    match dtype {
        DataType::Bool => ScalarType::Bool,
        DataType::UInt8 => ScalarType::Byte,
        DataType::Int8 => ScalarType::Char,
        DataType::Int32 => ScalarType::Int,
        DataType::Float16 => ScalarType::Half,
        DataType::Float32 => ScalarType::Float,
        DataType::Float64 => ScalarType::Double,
        DataType::Int64 => ScalarType::Long,
    }
}

/// A tensor with live sizes.
#[must_use]
pub fn tensor(scalar_type: ScalarType, sizes: &[u32]) -> Tensor {
    Tensor { dynamism: ShapeDynamism::Bound, ..Tensor::new(scalar_type, sizes) }
}

/// A method as it is built.
pub(super) struct Builder<'c, 'b> {
    pub(super) cursor: &'c mut Cursor<'b>,
    pub(super) plan: ExecutionPlan,
    /// Tensors that may hold something already.
    pub(super) known: Vec<ValueId>,
}

impl Builder<'_, '_> {
    pub(super) fn value(&mut self, value: Value) -> ValueId {
        self.plan.values.push(value);
        ValueId(self.plan.values.len() as u32 - 1)
    }

    /// A new tensor: computed, a constant, one that is kept, one of external data, or one that claims to be large.
    fn tensor(&mut self, scalar_type: ScalarType, sizes: &[u32]) -> ValueId {
        let mut tensor = tensor(scalar_type, sizes);
        let allocation = Some(AllocationDetails { memory: 1, offset: self.cursor.below(64) as u64 * 16 });
        match self.cursor.below(12) {
            0..=3 => tensor.allocation = allocation,
            4 | 5 => tensor.buffer = 1 + self.cursor.below(40) as u32,
            6 => {
                tensor.allocation = allocation;
                tensor.buffer = 1 + self.cursor.below(40) as u32;
            }
            7 => tensor.dynamism = ShapeDynamism::Static,
            8 if self.cursor.one_in(3) => tensor.sizes.iter_mut().for_each(|size| *size = 1 << 14),
            9 if self.cursor.one_in(6) => {
                let name = Some(self.cursor.of(&["outside", "elsewhere"]).to_owned());
                let location = TensorDataLocation::External;
                let extra = ExtraTensorInfo { mutable_segment: 0, name, location, device: DeviceType::Cpu, device_index: 0 };
                tensor.extra = Some(extra);
            }
            _ => {}
        }
        self.value(Value::Tensor(Box::new(tensor)))
    }

    /// A new tensor in planned memory of its own, as exporters write what is computed.
    pub(super) fn computed(&mut self, scalar_type: ScalarType, sizes: &[u32]) -> ValueId {
        let offset = self.plan.values.len() as u64 * (1 << 20);
        let tensor = Tensor { allocation: Some(AllocationDetails { memory: 1, offset }), ..tensor(scalar_type, sizes) };
        self.value(Value::Tensor(Box::new(tensor)))
    }

    /// A tensor for an argument of a graph: one that is there with the same type and rank, or a new one.
    pub(super) fn argument(&mut self, scalar_type: ScalarType, sizes: &[u32]) -> ValueId {
        let fits = |id: &&ValueId| match self.plan.value(**id) {
            Some(Value::Tensor(tensor)) => tensor.scalar_type == scalar_type && tensor.sizes == sizes,
            _ => false,
        };
        let known: Vec<ValueId> = self.known.iter().filter(fits).copied().collect();
        if !known.is_empty() && !self.cursor.one_in(4) {
            return self.cursor.of(&known);
        }
        let id = self.tensor(scalar_type, sizes);
        // Most of what nothing computes must come in.
        if self.cursor.below(4) > 0 && self.plan.inputs.len() < 6 {
            self.plan.inputs.push(id);
        }
        self.known.push(id);
        id
    }

    fn call(&mut self, parts: &[Part]) {
        if parts.is_empty() || self.plan.delegates.is_empty() {
            return;
        }
        let delegate = self.cursor.below(self.plan.delegates.len());
        let graph = match self.plan.delegates[delegate].data {
            DataRef::Inline(index) => index as usize,
            DataRef::Segment(segment) => segment.index() - 1,
        };
        let mut args: Vec<ValueId> = Vec::new();
        for port in parts[graph].ports() {
            let (scalar_type, sizes) = (port.scalar_type, &port.sizes);
            let id = if !port.output || self.cursor.one_in(8) {
                self.argument(scalar_type, sizes)
            } else if self.cursor.flip() {
                self.computed(scalar_type, sizes)
            } else {
                self.tensor(scalar_type, sizes)
            };
            self.known.push(id);
            args.push(id);
        }
        self.push(Instruction::DelegateCall { delegate: delegate as u32, args });
    }

    pub(super) fn push(&mut self, instruction: Instruction) {
        self.plan.chains[0].instructions.push(instruction);
    }

    fn some(&mut self) -> ValueId {
        if self.known.is_empty() || self.cursor.one_in(8) {
            return ValueId(self.cursor.below(self.plan.values.len()) as u32);
        }
        self.cursor.of(&self.known)
    }

    fn instruction(&mut self, parts: &[Part]) {
        match self.cursor.below(14) {
            0..=3 => self.call(parts),
            4 | 5 => {
                let (from, to) = (self.some(), self.some());
                self.push(Instruction::Move { from, to });
            }
            6 => {
                let condition = if self.cursor.flip() { ValueId(self.cursor.below(2) as u32) } else { self.some() };
                let at = self.plan.chains[0].instructions.len() as u32;
                let target = if self.cursor.one_in(8) { at } else { at + 1 + self.cursor.below(4) as u32 };
                self.push(Instruction::JumpFalse { condition, target });
            }
            7 => {
                let value = self.some();
                self.push(Instruction::Free(value));
            }
            8 => self.kernel(),
            _ => self.typed_kernel(),
        }
    }

    /// A kernel call: tensors, then scalars, then the tensor it writes and its result. Now and then an argument is any value.
    fn kernel(&mut self) {
        let operator = self.cursor.below(KERNELS.len());
        let (_, _, tensors, scalars) = KERNELS[operator];
        let mut args: Vec<ValueId> = (0..tensors).map(|_| self.some()).collect();
        args.extend(scalars.iter().map(|&scalar| ValueId(scalar)));
        let out = if self.cursor.one_in(3) {
            self.some()
        } else {
            let like = args.first().and_then(|&id| self.plan.value(id)).and_then(Value::as_tensor).cloned();
            let (scalar_type, sizes) = like.map_or((ScalarType::Float, vec![2]), |like| (like.scalar_type, like.sizes));
            self.tensor(scalar_type, &sizes)
        };
        self.known.push(out);
        args.extend([out, out]);
        if self.cursor.one_in(8) {
            let at = self.cursor.below(args.len());
            args[at] = ValueId(self.cursor.below(self.plan.values.len()) as u32);
        }
        if self.cursor.one_in(24) {
            args.truncate(self.cursor.below(args.len()));
        }
        self.push(Instruction::KernelCall { operator: operator as u32, args });
    }
}

/// Kernels with their overload, the number of tensors they take, and the scalars after those: values that every method starts with.
const KERNELS: &[(&str, &str, usize, &[u32])] = &[
    ("aten::copy_", "", 2, &[1]),
    ("aten::add", "out", 2, &[4]),
    ("aten::mul", "out", 2, &[]),
    ("aten::relu", "out", 1, &[]),
    ("aten::view_copy", "out", 1, &[6]),
    ("executorch_prim::et_view", "default", 1, &[6]),
    ("aten::select_copy", "int_out", 1, &[5, 5]),
    ("aten::permute_copy", "out", 1, &[6]),
    ("aten::cat", "out", 0, &[7, 5]),
    ("aten::index_put_", "", 1, &[8, 2, 1]),
    ("aten::_to_copy", "out", 1, &[1, 3]),
    ("aten::mean", "out", 1, &[6, 0, 3]),
    ("aten::nonzero", "out", 1, &[]),
    ("aten::sym_size", "int", 1, &[5]),
    ("aten::_local_scalar_dense", "", 1, &[]),
    ("executorch_prim::add", "Scalar", 0, &[2, 4]),
    ("executorch_prim::lt", "Scalar", 0, &[2, 4]),
    ("llama::update_cache", "out", 2, &[5]),
    ("aten::mystery", "out", 1, &[]),
];

/// A method that calls delegates and moves their outputs.
fn method(cursor: &mut Cursor<'_>, parts: &[Part], index: usize) -> ExecutionPlan {
    let delegates = if parts.is_empty() { 0 } else { 1 + cursor.below(4) };
    let delegates = (0..delegates).map(|_| {
        let graph = cursor.below(parts.len());
        let data = place(cursor, graph);
        // Now and then of another backend.
        let id = if cursor.one_in(48) { cursor.of(&["XnnpackBackend", "CoreMLBackend"]) } else { parts[graph].backend() };
        Delegate { id: id.to_owned(), ..Delegate::vulkan(data) }
    });
    let operator = |&(name, overload, ..): &(&str, &str, usize, &[u32])| Operator {
        name: name.to_owned(),
        overload: overload.to_owned(),
    };
    let plan = ExecutionPlan {
        name: ["forward", "second", "third"][index].to_owned(),
        values: vec![
            Value::Bool(true),
            Value::Bool(false),
            Value::Int(3),
            Value::Null,
            Value::Int(1),
            Value::Int(0),
            Value::IntList(vec![ValueId(5), ValueId(4)]),
            Value::TensorList(Vec::new()),
            Value::OptionalTensorList(vec![None]),
        ],
        chains: vec![Chain::default()],
        operators: KERNELS.iter().map(operator).collect(),
        delegates: delegates.collect(),
        buffer_sizes: vec![0, 1 << 40],
        ..ExecutionPlan::default()
    };
    let mut builder = Builder { cursor, plan, known: Vec::new() };
    for _ in 0..1 + builder.cursor.below(8) {
        builder.instruction(parts);
    }
    for _ in 0..1 + builder.cursor.below(3) {
        let output = builder.some();
        builder.plan.outputs.push(output);
    }
    let last = builder.plan.chains[0].instructions.len() as u32;
    for instruction in &mut builder.plan.chains[0].instructions {
        if let Instruction::JumpFalse { target, .. } = instruction {
            *target = (*target).min(last);
        }
    }
    builder.plan
}

/// A method without instructions, as exporters write facts.
#[must_use]
pub fn constant_method(cursor: &mut Cursor<'_>) -> ExecutionPlan {
    const NAMES: [&str; 8] = [
        "get_max_context_len",
        "get_max_seq_len",
        "get_vocab_size",
        "get_bos_id",
        "get_eos_ids",
        "use_kv_cache",
        "enable_dynamic_shape",
        "something_else",
    ];
    let value = |cursor: &mut Cursor<'_>| match cursor.below(6) {
        0 | 1 => Value::Int(cursor.integer()),
        2 => Value::Bool(cursor.flip()),
        3 => Value::Double(cursor.float().into()),
        4 => Value::String("text".to_owned()),
        _ => Value::Tensor(Box::new(tensor(ScalarType::Float, &[2]))),
    };
    let values: Vec<Value> = (0..1 + cursor.below(4)).map(|_| value(cursor)).collect();
    let outputs = (0..values.len() as u32).map(ValueId).collect();
    ExecutionPlan { name: cursor.of(&NAMES).to_owned(), values, outputs, ..ExecutionPlan::default() }
}

/// Changes something of a method that no exporter would.
fn change(plan: &mut ExecutionPlan, cursor: &mut Cursor<'_>) {
    let some = ValueId(cursor.below(plan.values.len()) as u32);
    match cursor.below(7) {
        0 => plan.inputs.push(some),
        1 => plan.outputs.push(some),
        2 => plan.chains.push(Chain::default()),
        3 => {
            if let Some(Value::Tensor(tensor)) = plan.values.get_mut(some.index()) {
                tensor.scalar_type = cursor.of(ScalarType::ALL);
            }
        }
        4 => {
            if let Some(Value::Tensor(tensor)) = plan.values.get_mut(some.index()) {
                let size = cursor.edge_size().min(i32::MAX as u32);
                tensor.sizes.push(size);
                tensor.dim_order = (0..tensor.sizes.len() as u8).collect();
            }
        }
        5 => plan.values[some.index()] = Value::Int(cursor.integer()),
        _ => {
            let instructions = plan.chains.first_mut().map(|chain| &mut chain.instructions);
            if let Some(instructions) = instructions.filter(|instructions| !instructions.is_empty()) {
                let again = instructions[cursor.below(instructions.len())].clone();
                let times = cursor.of(&[1, 2, 30]);
                instructions.extend(std::iter::repeat_n(again, times));
            }
        }
    }
}
