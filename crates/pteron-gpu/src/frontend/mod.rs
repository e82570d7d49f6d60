//! Front ends: each translates one kind of instructions of a verified program into the graph IR ([`crate::ir`]).
//!
//! A front end resolves operators through the table of those that files may call ([`crate::ops::find_in_files`]), in time
//! and memory proportional to its input. It is the only code of this crate that knows a file format.

pub mod builder;
mod delegates;
pub mod method;
pub mod portable;
mod split;
pub mod vulkan;
pub mod xnnpack;

pub use builder::{Builder, BuiltGraph, ConstantOrigin};
