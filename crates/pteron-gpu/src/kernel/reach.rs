//! Proof that kernels without bounds checks stay within their buffers.
//!
//! A kernel is compiled without bounds checks only if its definition declares a [`Reach`]: a pure function from the parameters that are
//! uploaded, the constants and types of the variant, the grid and the step words to the bytes that the largest index touches in
//! each binding. [`Planned`](crate::resize::Planned) calls it for every dispatch of every plan before the plan is committed, and
//! rejects the plan if a reach is longer than the buffer that the recipe binds. So an unchecked access relies on these facts
//! only:
//!
//! 1. **No index follows from data.** Indices are formed from parameters, step words, override constants and the position in the grid.
//!    All of these are known when a call is planned. Kernels that gather by data keep their checks.
//! 2. **The reach function covers every access**, also those whose result is discarded: whole vectors of four at the end of a row,
//!    rows of a tile past the last (the shaders clamp them to the last row), and workgroups past the last one of a folded
//!    [`Grid`]. It is written from the shader beside it, and a change to one is a change to both.
//! 3. **Indices do not wrap.** They are sums and products of unsigned numbers, so no part of one is larger than the whole; `Counts`
//!    are computed in 64 bits, saturate, and are rejected where 32 bits would not hold the largest index. A comparison in a shader
//!    that guards an access compares before it multiplies.
//! 4. **Lengths are those of the allocation.** `Lengths` computes, from the graph and its bounds, the size of the buffer that the
//!    engine allocates for each tensor: the buffer of the tensor it aliases, of the input as it is bounded at load, of the
//!    constant that is shared. The engine compares them with its buffers when it creates bind groups.
//! 5. **Arrays in workgroup and private memory** are indexed by thread, lane and loop counters below override constants that come from
//!    tables in this crate; tests of the tables hold them within the arrays.
//!
//! Divisions keep their checks in every kernel, and loops are bounded by the same parameters.

mod lengths;
mod sizes;

pub(crate) use lengths::{BoundLengths, Lengths};
pub(crate) use sizes::{Counts, count};

use super::Variant;
use crate::plan::Grid;

/// The bytes that a dispatch reaches; `None` for parameters that no plan produces.
pub type Reach = fn(&DispatchView<'_>) -> Option<Reached>;

/// The most storage bindings of a kernel.
pub(crate) const BINDINGS: usize = 8;

/// A dispatch as a reach function sees it.
#[derive(Clone, Copy, Debug)]
pub struct DispatchView<'a> {
    /// The uploaded parameters.
    pub params: &'a [u8],
    /// The kernel with its constants and types.
    pub variant: &'a Variant,
    /// The workgroups.
    pub grid: Grid,
    /// Where the operator's words start in the step block, and the words.
    pub step_base: u32,
    /// The operator's step words.
    pub step_words: &'a [u32],
}

impl DispatchView<'_> {
    /// The parameters as the host's struct.
    pub(crate) fn params<P: bytemuck::AnyBitPattern>(&self) -> Option<P> {
        bytemuck::try_pod_read_unaligned(self.params.get(..size_of::<P>())?).ok()
    }

    /// The value of an override constant that the variant sets.
    pub(crate) fn constant(&self, name: &str) -> Option<u32> {
        self.variant.constants.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
    }

    /// Whether an override constant is set to 1; it is 0 if the variant does not set it.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.constant(name) == Some(1)
    }

    /// Bytes of an element of a type that the source leaves open.
    pub(crate) fn type_bytes(&self, name: &str) -> Option<u64> {
        let (_, ty) = self.variant.types.iter().find(|(known, _)| *known == name)?;
        Some(match *ty {
            "f16" => 2,
            "f32" | "i32" | "u32" => 4,
            "vec2<f32>" | "vec4<f16>" => 8,
            "vec4<f32>" | "vec4<i32>" | "vec4<u32>" => 16,
            _ => return None,
        })
    }

    /// The operator's step words from `base` on, if `base` is their offset and there are `N` of them.
    pub(crate) fn step<const N: usize>(&self, base: u32) -> Option<[Counts; N]> {
        let words: &[u32] = self.step_words.get(..N).filter(|_| base == self.step_base)?;
        let words: [u32; N] = words.try_into().ok()?;
        Some(words.map(count))
    }
}

/// The bytes that a dispatch reaches in each storage binding, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    bytes: [u64; BINDINGS],
    bindings: usize,
}

impl Reached {
    /// Creates a reach without bindings.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a binding: an array of elements of this size, the first `elements` of which may be touched. A count that 32 bits
    /// cannot index is unbounded.
    #[must_use]
    pub(crate) fn array(mut self, elements: Counts, element_bytes: u64) -> Self {
        let bytes = if elements.get() > 1 << 32 { u64::MAX } else { elements.get().saturating_mul(element_bytes) };
        if let Some(slot) = self.bytes.get_mut(self.bindings) {
            *slot = bytes;
        }
        self.bindings += 1;
        self
    }

    /// Adds a binding: elements that are indexed one by one, and stored in vectors of four of this size.
    #[must_use]
    pub(crate) fn fours(self, elements: Counts, four_bytes: u64) -> Self {
        // Checks the count first: 32 bits must hold the index of an element.
        let fours = if elements.get() > 1 << 32 { elements } else { elements.div_ceil(4) };
        self.array(fours, four_bytes)
    }

    /// Adds a binding that is bound and not touched, unless `touched`.
    #[must_use]
    pub(crate) fn array_if(self, touched: bool, elements: Counts, element_bytes: u64) -> Self {
        self.array(if touched { elements } else { count(0) }, element_bytes)
    }

    /// Adds the step block, of which `words` from `base` on are read.
    #[must_use]
    pub(crate) fn step(self, base: u32, words: u32) -> Self {
        self.array(count(base) + count(words), 4)
    }

    /// Bytes of each binding.
    #[must_use]
    pub fn bytes(&self) -> &[u64] {
        &self.bytes[..self.bindings.min(BINDINGS)]
    }

    /// The number of bindings.
    #[must_use]
    pub fn bindings(&self) -> usize {
        self.bindings
    }
}
