//! Cooperative matrices on a device: their size, how subgroups hold them, and what kernels are specialised on. Kernels work in blocks of
//! 16 × 16, whatever the size of a matrix. The WGSL side is `include/coop_*.wgsl`.

#[cfg(test)]
pub(crate) mod emulation;

use crate::includes;
use crate::kernel::{Include, Variant};
use crate::plan::{Caps, Lanes, MatrixSide};

/// WGSL that kernels with cooperative matrices share.
pub(crate) const INCLUDES: &[Include] = includes!["coop_builtins", "coop_matrix", "coop_subgroups"];

/// Rows and columns of a block.
pub(crate) const SIDE: u32 = 16;
/// The fewest subgroups that kernels have in a workgroup.
pub(crate) const LEAST_SUBGROUPS: u32 = 2;
/// Vectors of four in a block.
pub(crate) const BLOCK_VECTORS: u32 = 64;

/// How matrices are expressed on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matrices {
    pub(crate) side: MatrixSide,
    pub(crate) lanes: Lanes,
    /// Whether a barrier of a subgroup orders its workgroup memory.
    subgroup_barrier: bool,
}

impl Matrices {
    /// Kinds for tests that cover every kernel: those that costs were measured with, 16 × 16 by 32 lanes, and the opposite.
    pub(crate) const SAMPLES: [Self; 2] = [
        Self { side: MatrixSide::Sixteen, lanes: Lanes { count: 32, most: 32 }, subgroup_barrier: true },
        Self { side: MatrixSide::Eight, lanes: Lanes { count: 16, most: 32 }, subgroup_barrier: false },
    ];

    /// The matrices of a device, if it has any. A workgroup has twice the smallest subgroup's lanes or more: where the largest subgroup
    /// has more than that, it would not be full.
    pub(crate) fn of(caps: Caps) -> Option<Self> {
        let Caps { matrix_side: side, subgroup_barrier, .. } = caps;
        let lanes = caps.matrix_lanes().filter(|lanes| lanes.most <= LEAST_SUBGROUPS * lanes.count);
        lanes.map(|lanes| Self { side, lanes, subgroup_barrier })
    }

    /// The same if all subgroups have one size of at least a lane per row of a block.
    pub(crate) fn by_rows(caps: Caps) -> Option<Self> {
        Self::of(caps).filter(|matrices| matrices.lanes.are_whole() && matrices.lanes.count >= SIDE)
    }

    /// Whether they are 16 × 16, by subgroups of 32.
    pub(crate) fn are_usual(self) -> bool {
        (self.side, self.lanes) == (MatrixSide::Sixteen, Lanes { count: 32, most: 32 })
    }

    /// Shares of items among threads: each has at least one, and the last may have none.
    pub(crate) fn shares(items: u32, threads: u32) -> u32 {
        items.div_ceil(threads)
    }

    /// Shares of a block's vectors among the lanes of a subgroup.
    pub(crate) fn vectors_per_lane(self) -> u32 {
        Self::shares(BLOCK_VECTORS, self.lanes.count)
    }

    /// A variant of a kernel for these matrices.
    pub(crate) fn with(self, variant: Variant) -> Variant {
        let varying = !self.lanes.are_whole();
        let (elements, scalars) = match self.side {
            MatrixSide::Sixteen => (["vec4<f16>", "vec4<f32>"], false),
            MatrixSide::Eight => (["f16", "f32"], true),
        };
        variant
            .with_count("SIDE", self.side.rows())
            .with_count("PARTS", SIDE / self.side.rows())
            .with_count("VECTORS", (!scalars).into())
            .with_count("SCALARS", scalars.into())
            .with_count("LANES", self.lanes.count)
            .with_count("FIXED", (!varying).into())
            .with_count("VARYING", varying.into())
            .with_type("E", elements[0])
            .with_type("F", elements[1])
    }

    /// The same for a kernel whose subgroups stage factors for themselves: they wait for one another where a barrier of a subgroup
    /// does not order workgroup memory.
    pub(crate) fn with_own_staging(self, variant: Variant) -> Variant {
        let own = self.subgroup_barrier && self.lanes.are_whole();
        self.with(variant).with_count("OWN_BARRIER", own.into()).with_count("SHARED_BARRIER", (!own).into())
    }
}

/// Every kind of device that kernels are written for.
#[cfg(test)]
pub(crate) fn every() -> Vec<Matrices> {
    let sizes = [(32, 32), (8, 8), (16, 16), (64, 64), (32, 64), (16, 32), (4, 8)];
    let sides = [MatrixSide::Sixteen, MatrixSide::Eight];
    let both =
        |side| sizes.map(|(count, most)| Matrices { side, lanes: Lanes { count, most }, subgroup_barrier: most == 32 });
    sides.into_iter().flat_map(both).collect()
}

/// Checks that naga validates a kernel with cooperative matrices, and writes SPIR-V for it and, with 8 × 8, MSL: no adapter at hand compiles
/// every kind.
#[cfg(test)]
pub(crate) fn check_shaders(matrices: Matrices, variant: &Variant) {
    use naga::valid::Capabilities;
    let subgroups = Capabilities::SUBGROUP | Capabilities::SUBGROUP_BARRIER;
    let f16 = Capabilities::SHADER_FLOAT16 | Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    let allowed = subgroups | f16 | Capabilities::COOPERATIVE_MATRIX;
    crate::testing::check_spirv(variant, allowed);
    if matrices.side == MatrixSide::Eight {
        crate::testing::check_msl(variant, allowed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subgroups_of_the_smallest_workgroup_are_full() {
        let served = |sizes| Matrices::of(Caps { cooperative_matrix: true, matrix_subgroup_size: sizes, ..Caps::PORTABLE });
        for (sizes, full) in [((8, 8), true), ((64, 64), true), ((32, 64), true), ((8, 32), false), ((16, 64), false)] {
            assert_eq!(served(sizes).is_some(), full, "{sizes:?}");
        }
    }
}
