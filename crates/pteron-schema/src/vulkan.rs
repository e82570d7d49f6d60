//! The tables of a Vulkan delegate's graph: identifier `VK00`, root [`VkGraph`].

use crate::macros::{tables, unions};

tables! {
    /// One operator call.
    OperatorCall / OperatorCallArgs {
        0 node_id: scalar u32 = 0,
        1 name: text str,
        2 args: list i32,
    }
    /// A tensor value.
    VkTensor / VkTensorArgs {
        0 datatype: scalar i8 = 0,
        1 dims: list u32,
        2 constant_id: scalar i32 = 0,
        3 mem_obj_id: scalar i32 = 0,
        4 storage_type: scalar u8 = 255,
        5 memory_layout: scalar u8 = 255,
        6 staging_datatype: scalar i8 = 127,
    }
    /// The value None.
    Null / NullArgs {}
    /// An integer.
    Int / IntArgs { 0 int_val: scalar i64 = 0 }
    /// A truth value.
    Bool / BoolArgs { 0 bool_val: scalar bool = false }
    /// A floating-point number.
    Double / DoubleArgs { 0 double_val: scalar f64 = 0.0 }
    /// A string.
    String / StringArgs { 0 string_val: text str }
    /// Integers.
    IntList / IntListArgs { 0 items: list i64 }
    /// Floating-point numbers.
    DoubleList / DoubleListArgs { 0 items: list f64 }
    /// Truth values.
    BoolList / BoolListArgs { 0 items: list bool }
    /// Ids of values.
    ValueList / ValueListArgs { 0 items: list i32 }
    /// An integer known only when the graph runs.
    SymInt / SymIntArgs { 0 value: scalar i32 = 0 }
    /// One value of the graph.
    VkValue / VkValueArgs { 0 value: union GraphTypes }
    /// A constant's bytes, in the delegate's blob or under a name.
    VkBytes / VkBytesArgs {
        0 offset: scalar u64 = 0,
        1 length: scalar u64 = 0,
        2 named_key: text str,
    }
    /// The root.
    VkGraph / VkGraphArgs {
        0 version: text str,
        1 chain: tables OperatorCall,
        2 values: tables VkValue,
        3 input_ids: list u32,
        4 output_ids: list u32,
        5 constants: tables VkBytes,
        6 shaders: tables VkBytes,
        7 storage_type_override: scalar u8 = 255,
        8 memory_layout_override: scalar u8 = 255,
    }
}

unions! {
    /// Every kind of value.
    GraphTypes {
        1 Null, 2 Int, 3 Double, 4 Bool, 5 VkTensor, 6 IntList, 7 DoubleList, 8 BoolList, 9 ValueList, 10 String, 11 SymInt,
    }
}
