//! The tables of a `.pte` file: identifier `ET12`, root [`Program`].

use crate::macros::{tables, unions};

tables! {
    /// How a method's flattened inputs and outputs map to Python containers.
    ContainerMetadata / ContainerMetadataArgs {
        0 encoded_inp_str: text str,
        1 encoded_out_str: text str,
    }
    /// The value None.
    Null / NullArgs {}
    /// Where the memory planner put a tensor.
    AllocationDetails / AllocationDetailsArgs {
        0 memory_id: scalar u32 = 0,
        1 memory_offset_low: scalar u32 = 0,
        2 memory_offset_high: scalar u32 = 0,
    }
    /// Optional information that only some tensors need.
    ExtraTensorInfo / ExtraTensorInfoArgs {
        0 mutable_data_segments_idx: scalar u64 = 0,
        1 fully_qualified_name: text str,
        2 location: scalar i8 = 0,
        3 device_type: scalar i8 = 0,
        4 device_index: scalar i8 = 0,
    }
    /// A tensor value.
    Tensor / TensorArgs {
        0 scalar_type: scalar i8 = 0,
        1 storage_offset: scalar i32 = 0,
        2 sizes: list i32,
        3 dim_order: list u8,
        4 requires_grad: scalar bool = false,
        5 data_buffer_idx: scalar u32 = 0,
        6 allocation_info: table AllocationDetails,
        7 layout: scalar i8 = 0,
        8 shape_dynamism: scalar i8 = 0,
        9 extra_tensor_info: table ExtraTensorInfo,
    }
    /// An integer.
    Int / IntArgs { 0 int_val: scalar i64 = 0 }
    /// A truth value.
    Bool / BoolArgs { 0 bool_val: scalar bool = false }
    /// A floating-point number.
    Double / DoubleArgs { 0 double_val: scalar f64 = 0.0 }
    /// A string.
    String / StringArgs { 0 string_val: text str }
    /// Ids of integer values.
    IntList / IntListArgs { 0 items: list i64 }
    /// Floating-point numbers.
    DoubleList / DoubleListArgs { 0 items: list f64 }
    /// Truth values.
    BoolList / BoolListArgs { 0 items: list bool }
    /// Ids of tensor values.
    TensorList / TensorListArgs { 0 items: list i32 }
    /// Ids of tensor values, −1 for None.
    OptionalTensorList / OptionalTensorListArgs { 0 items: list i32 }
    /// One value of a plan.
    EValue / EValueArgs { 0 val: union KernelTypes }
    /// An operator by name and overload.
    Operator / OperatorArgs {
        0 name: text str,
        1 overload: text str,
    }
    /// Calls a portable kernel.
    KernelCall / KernelCallArgs {
        0 op_index: scalar i32 = 0,
        1 args: list i32,
    }
    /// Calls a delegate.
    DelegateCall / DelegateCallArgs {
        0 delegate_index: scalar i32 = 0,
        1 args: list i32,
    }
    /// Copies one value to another.
    MoveCall / MoveCallArgs {
        0 move_from: scalar i32 = 0,
        1 move_to: scalar i32 = 0,
    }
    /// Jumps when a condition is false.
    JumpFalseCall / JumpFalseCallArgs {
        0 cond_value_index: scalar i32 = 0,
        1 destination_instruction: scalar i32 = 0,
    }
    /// Ends a value's life.
    FreeCall / FreeCallArgs { 0 value_index: scalar i32 = 0 }
    /// One instruction of a chain.
    Instruction / InstructionArgs { 0 instr_args: union InstructionArguments }
    /// One line of a Python stack trace.
    Frame / FrameArgs {
        0 filename: text str,
        1 lineno: scalar i32 = 0,
        2 name: text str,
        3 context: text str,
    }
    /// A Python stack trace.
    FrameList / FrameListArgs { 0 items: tables Frame }
    /// Where a delegate's bytes are.
    BackendDelegateDataReference / BackendDelegateDataReferenceArgs {
        0 location: scalar i8 = 0,
        1 index: scalar u32 = 0,
    }
    /// An option a delegate was compiled with.
    CompileSpec / CompileSpecArgs {
        0 key: text str,
        1 value: list u8,
    }
    /// A part of the program that a backend runs.
    BackendDelegate / BackendDelegateArgs {
        0 id: text str,
        1 processed: table BackendDelegateDataReference,
        2 compile_specs: tables CompileSpec,
    }
    /// Instructions in order.
    Chain / ChainArgs {
        0 inputs: list i32,
        1 outputs: list i32,
        2 instructions: tables Instruction,
        3 stacktrace: tables FrameList,
    }
    /// The device of a planned buffer.
    NonConstBufferDevice / NonConstBufferDeviceArgs {
        0 buffer_idx: scalar i32 = 0,
        1 device_type: scalar i8 = 0,
        2 device_index: scalar i8 = 0,
    }
    /// One method.
    ExecutionPlan / ExecutionPlanArgs {
        0 name: text str,
        1 container_meta_type: table ContainerMetadata,
        2 values: tables EValue,
        3 inputs: list i32,
        4 outputs: list i32,
        5 chains: tables Chain,
        6 operators: tables Operator,
        7 delegates: tables BackendDelegate,
        8 non_const_buffer_sizes: list i64,
        9 non_const_buffer_device: tables NonConstBufferDevice,
    }
    /// A constant inside the flatbuffer (older files).
    Buffer / BufferArgs { 0 storage: list u8 }
    /// A delegate's bytes inside the flatbuffer.
    BackendDelegateInlineData / BackendDelegateInlineDataArgs { 0 data: list u8 }
    /// A range of the file after the flatbuffer.
    DataSegment / DataSegmentArgs {
        0 offset: scalar u64 = 0,
        1 size: scalar u64 = 0,
    }
    /// Where each tensor starts inside a segment.
    SubsegmentOffsets / SubsegmentOffsetsArgs {
        0 segment_index: scalar u32 = 0,
        1 offsets: list u64,
    }
    /// A segment with a name.
    NamedData / NamedDataArgs {
        0 key: text str,
        1 segment_index: scalar u32 = 0,
    }
    /// The root.
    Program / ProgramArgs {
        0 version: scalar u32 = 0,
        1 execution_plan: tables ExecutionPlan,
        2 constant_buffer: tables Buffer,
        3 backend_delegate_data: tables BackendDelegateInlineData,
        4 segments: tables DataSegment,
        5 constant_segment: table SubsegmentOffsets,
        6 mutable_data_segments: tables SubsegmentOffsets,
        7 named_data: tables NamedData,
    }
}

unions! {
    /// Every kind of value.
    KernelTypes {
        1 Null, 2 Int, 3 Bool, 4 Double, 5 Tensor, 6 String, 7 IntList, 8 DoubleList, 9 BoolList, 10 TensorList,
        11 OptionalTensorList,
    }
    /// Every kind of instruction.
    InstructionArguments { 1 KernelCall, 2 DelegateCall, 3 MoveCall, 4 JumpFalseCall, 5 FreeCall }
}
