//! The flatbuffer tables inside ExecuTorch's files, declared once and verified before the first read.
//!
//! **Internal to Pteron**: the API may change in any release. Use `pteron-format`.
//!
//! - [`program`]: the `.pte` file (`ET12`)
//! - [`vulkan`]: the graph inside a Vulkan delegate (`VK00`)
//! - [`xnnpack`]: the graph inside an XNNPACK delegate (`XN01`)
//! - [`flat_tensor`]: external data, the `.ptd` file (`FT01`)
//!
//! [`root`] runs the verifier of the official `flatbuffers` crate over the whole tree (offsets, alignment, UTF-8, depth,
//! and the size the tree would have if nothing in it were shared) and only then returns the root table. `pteron-format` checks
//! what the numbers *mean*.
//!
//! This crate is the one place in the format layer with `unsafe`: the `flatbuffers` crate reads a verified table through
//! unsafe functions, whether its code is generated or, as here, declared. All of it is in one macro, and [`root`] is the only
//! source of table values.

#![allow(unsafe_code, reason = "flatbuffers reads verified tables through unsafe functions; see the crate's documentation")]

mod macros;

pub mod flat_tensor;
pub mod program;
pub mod vulkan;
pub mod xnnpack;

pub use flatbuffers::{
    ErrorTraceDetail, Follow, ForwardsUOffset, InvalidFlatbuffer, Push, UnionWIPOffset, Vector, Verifiable, VerifierOptions,
    WIPOffset,
};

/// Writes tables back to front, as flatbuffers are written.
pub type Builder<'b> = flatbuffers::FlatBufferBuilder<'b>;

/// Nesting of the deepest schema is six; more is not a program.
const MAX_DEPTH: usize = 16;
/// Shared vtables and strings are counted each time they are reached, so a real tree looks larger than its bytes.
const APPARENT_SIZE_FACTOR: usize = 8;
const APPARENT_SIZE_SLACK: usize = 64 * 1024;
/// The smallest table: a four-byte link to its vtable, reached by a four-byte offset.
const MIN_BYTES_A_TABLE: usize = 4;

/// Verifies `bytes` as a flatbuffer with root table `T` and returns the root.
///
/// Work is bounded by the length of `bytes`: depth, the number of tables and the apparent size all have limits.
///
/// # Errors
/// The defect of the flatbuffer, with the path to it where the defect is in the data.
pub fn root<'a, T>(bytes: &'a [u8]) -> Result<T::Inner, InvalidFlatbuffer>
where
    T: Follow<'a> + Verifiable + 'a,
{
    let options = VerifierOptions {
        max_depth: MAX_DEPTH,
        max_tables: bytes.len() / MIN_BYTES_A_TABLE + 1,
        max_apparent_size: bytes.len().saturating_mul(APPARENT_SIZE_FACTOR).saturating_add(APPARENT_SIZE_SLACK),
        ignore_missing_null_terminator: false,
    };
    flatbuffers::root_with_opts::<T>(&options, bytes)
}

/// Allocates `len` zeros; `None` if memory runs out. The allocator provides the zeros, so pages that are never written need not
/// take memory.
#[must_use]
pub fn zeroed(len: usize) -> Option<Vec<u8>> {
    if len == 0 {
        return Some(Vec::new());
    }
    let layout = std::alloc::Layout::array::<u8>(len).ok()?;
    // SAFETY: the layout is not of size zero.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    // SAFETY: where it is not null, the global allocator gave it for `len` bytes of alignment one, all of them zeros.
    (!start.is_null()).then(|| unsafe { Vec::from_raw_parts(start, len, len) })
}

/// Writes bytes so that the first one lies on a 16-byte boundary, as `Buffer.storage` and inline delegate data must.
pub fn create_aligned_bytes<'b>(b: &mut Builder<'b>, bytes: &[u8]) -> WIPOffset<Vector<'b, u8>> {
    b.start_vector::<AlignedByte>(bytes.len());
    for &byte in bytes.iter().rev() {
        b.push(byte);
    }
    WIPOffset::new(b.end_vector::<AlignedByte>(bytes.len()).value())
}

/// A byte that asks for the alignment of a whole vector.
struct AlignedByte(u8);

impl Push for AlignedByte {
    type Output = u8;
    // SAFETY: the caller promises room for one byte.
    unsafe fn push(&self, dst: &mut [u8], _written_len: usize) {
        dst[0] = self.0;
    }
    fn alignment() -> flatbuffers::PushAlignment {
        flatbuffers::PushAlignment::new(16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_a_vector_like_any_other() {
        let mut zeros = zeroed(3).unwrap();
        zeros.extend([1, 2]);
        assert_eq!(zeros, [0, 0, 0, 1, 2]);
        assert_eq!(zeroed(0), Some(Vec::new()));
        assert_eq!(zeroed(usize::MAX), None);
    }
}
