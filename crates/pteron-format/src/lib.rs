//! Reads, verifies and writes ExecuTorch programs. No I/O, no `unsafe`, no trust.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use pteron_format::Pte;
//!
//! let pte = Pte::read(std::fs::read("model.pte")?)?; // a mapped file or a fetched buffer serves as well
//! for plan in &pte.program().plans {
//!     println!("{}: {} inputs", plan.name, plan.inputs.len());
//!     for delegate in &plan.delegates {
//!         if let Some(blob) = pte.graph(delegate.data) {
//!             println!("  {} operators on the GPU", blob.graph.chain.len());
//!         }
//!     }
//! }
//! let bytes = pteron_format::write(&pte.with_data())?; // an equal program
//! # Ok(()) }
//! ```
//!
//! # Guarantees of `read`
//! Every offset, length and alignment; every index; every enumeration; that sizes can be counted and constants are as long as
//! their types and dims say; that planned memory lies in its buffer; that a delegate gets the arguments its graph has. The
//! values of [`Program`], [`vulkan::Graph`], [`xnnpack::Graph`] and [`ExternalData`] need no further checks. The same checks run before anything is written.
//!
//! Memory is bounded by the size of the input ([`Problem::TablesTooLarge`]). Constant data is not read, so the time to open a
//! program depends only on its tables.
//!
//! # Modules and types
//! - [`Pte`]: a `.pte` file; [`Program`] is its content ([`program`])
//! - [`vulkan`], [`xnnpack`]: the graph inside a delegate of that backend
//! - [`PartialFile`]: a file that is loaded in part, as in a browser
//! - [`Ptd`]: external constants; [`ExternalData`] is its content ([`external`])
//! - [`Error`]: a location and a problem; [`EscapedText`]: text from a file in a message
//! - [`adapter`]: low-rank adapters of decoders, which readers of checkpoints create
//! - [`alloc`]: reservations of memory that can fail

#![forbid(unsafe_code)]

// Indices of the format are 32 bits; on a narrower target they could not be positions.
const _: () = assert!(size_of::<usize>() >= size_of::<u32>(), "pointers of at least 32 bits are needed");

pub mod adapter;
pub mod alloc;
mod budget;
mod bytes;
mod constant;
mod dtype;
mod error;
mod escape;
pub mod external;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod header;
mod names;
mod number;
pub mod program;
mod pte;
mod reader;
pub mod vulkan;
pub mod xnnpack;

pub use bytes::{Bytes, BytesError, PartialFile};
pub use dtype::{MAX_RANK, ScalarType, element_count};
pub use error::{Error, Item, Location, Problem, Result, Section};
pub use escape::{EscapedText, escaped_names};
pub use external::is_sha256;
pub use external::{ExternalData, Ptd};
pub use header::{FileLayout, segment_start};
pub use number::Float;
pub use program::{ByteRange, Data, Program};
pub use pte::{Pte, layout, layout_with_min_head, write};
