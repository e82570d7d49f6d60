//! The graph IR: the one representation of a computation below the front ends.
//!
//! A front end (`crate::frontend`) translates the content of a file into a [`Graph`]: calls of operators over numbered
//! [`Value`]s, with inputs, outputs and constants. Nothing here knows a file format. A [`Call`] refers to an entry of the
//! operator registry, not to a name, so a front end decides which names a file may use, and no file can call the
//! [internal](crate::ops::OpDef::internal) operators that rewrites and fusions insert.
//!
//! Sizes are upper bounds; live sizes are those of a call's inputs ([`crate::live`]). A tensor with a constant has its bytes
//! as initial content. A tensor that a call also mutates is *state*: its content lasts from call to call.

mod append;
mod call;
mod data_type;
mod dim_order;
mod graph;
mod hidden_states;
mod quantization;
mod value;
pub(crate) mod verify;

pub use append::Appended;
pub use call::Call;
pub use data_type::DataType;
pub use dim_order::DimOrder;
pub use graph::{Constant, ConstantSource, Graph};
pub use quantization::Quantization;
pub use value::{ConstantId, Tensor, Value, ValueId};
