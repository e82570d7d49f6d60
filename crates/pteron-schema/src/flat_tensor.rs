//! The tables of a `.ptd` file: identifier `FT01`, root [`FlatTensor`].

use crate::macros::tables;
pub use crate::program::{DataSegment, DataSegmentArgs};

tables! {
    /// The type and shape of a named blob as a tensor.
    TensorLayout / TensorLayoutArgs {
        0 scalar_type: scalar i8 = 0,
        1 sizes: list i32,
        2 dim_order: list u8,
    }
    /// A segment with a name.
    NamedData / NamedDataArgs {
        0 key: text str,
        1 segment_index: scalar u32 = 0,
        2 tensor_layout: table TensorLayout,
    }
    /// The root.
    FlatTensor / FlatTensorArgs {
        0 version: scalar u32 = 0,
        1 segments: tables DataSegment,
        2 named_data: tables NamedData,
    }
}
