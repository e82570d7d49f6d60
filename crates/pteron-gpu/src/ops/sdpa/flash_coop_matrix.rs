//! Flash attention for prefill with cooperative matrices of 16 × 16 `f16`, accumulated in `f32`.

use super::flash::{HeadConfig, Params};
use super::selection::SplitPolicy;
use super::{INCLUDES, reach};
use crate::kernel::{KernelDef, Variant};
use crate::plan::{COOPERATIVE_MATRIX_MEMORY, Caps};

pub(super) static COOP_MATRIX: KernelDef =
    KernelDef::new("sdpa_flash_coop_matrix", include_str!("sdpa_flash_coop_matrix.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .with_variants(variants)
        .with_cooperative_matrix()
        .proven(reach::flash_coop_matrix);

/// Subgroups per workgroup, and vectors of a row that are staged in workgroup memory at a time.
const SUBGROUPS: u32 = 4;
const CHUNK: u32 = 16;

/// Tile of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    head_vectors: u32,
    /// Blocks of 16 query rows per subgroup.
    blocks: u32,
    keys: u32,
}

/// The tiles by vectors per head: the smallest first, and one with more rows where registers suffice.
const TILES: [(u32, &[Tile]); 2] = [
    (16, &[Tile { head_vectors: 16, blocks: 1, keys: 64 }, Tile { head_vectors: 16, blocks: 2, keys: 64 }]),
    (32, &[Tile { head_vectors: 32, blocks: 1, keys: 32 }]),
];

impl Tile {
    /// The tiles of a device for a head of `head_vectors` vectors; none where other kernels run.
    pub(super) fn of(caps: Caps, head_vectors: u32) -> &'static [Self] {
        let tiles = TILES.iter().find(|(served, _)| caps.cooperative_matrix && *served == head_vectors);
        tiles.map_or(&[], |(_, tiles)| tiles)
    }

    pub(super) fn rows(self) -> u32 {
        SUBGROUPS * self.blocks * 16
    }

    /// When the context is split. Rows are many, so a split must be long enough to pay for the combine dispatch.
    pub(super) const SPLIT: SplitPolicy = SplitPolicy { full_grid: 256, min_keys: 256, unsplit_keys: 256 };

    /// Bytes of workgroup memory: keys, values, scores and weights, with rows padded by two vectors against bank conflicts.
    const fn memory(self) -> u32 {
        let rows = SUBGROUPS * 16 * (CHUNK + 2);
        2 * self.keys * (self.head_vectors + 2) * 8 + rows * (16 + 8)
    }

    pub(super) fn variant(self, heads: HeadConfig) -> Variant {
        heads
            .with_caches(Variant::new(&COOP_MATRIX))
            .with_count("BLOCKS", self.blocks)
            .with_count("CHUNKS", self.head_vectors / CHUNK)
            .with_count("KEYS", self.keys)
            .with_count("TILES", self.keys / 16)
            .with_count("PAIRS", self.keys / 8)
    }
}

/// Every tile fits workgroup memory.
const _: () = {
    let mut i = 0;
    while i < TILES.len() {
        let mut j = 0;
        while j < TILES[i].1.len() {
            assert!(TILES[i].1[j].memory() <= COOPERATIVE_MATRIX_MEMORY, "a tile is larger than workgroup memory");
            j += 1;
        }
        i += 1;
    }
};

fn variants() -> Vec<Variant> {
    let tiles = TILES.iter().flat_map(|(_, tiles)| tiles.iter());
    let heads = |head_vectors| {
        HeadConfig::rotated(head_vectors).into_iter().chain([HeadConfig { head_vectors, rotated: false, f16_cache: false }])
    };
    tiles.flat_map(|tile| heads(tile.head_vectors).map(|heads| tile.variant(heads))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_dims_64_and_128_have_tiles() {
        let caps = Caps { cooperative_matrix: true, ..Caps::PORTABLE };
        assert_eq!(Tile::of(caps, 16).iter().map(|tile| tile.rows()).collect::<Vec<_>>(), [64, 128]);
        assert_eq!(Tile::of(caps, 32).len(), 1);
        for head_vectors in [1, 8, 15, 17, 20, 64] {
            assert!(Tile::of(caps, head_vectors).is_empty(), "{head_vectors} vectors");
        }
        assert!(Tile::of(Caps::PORTABLE, 16).is_empty());
    }

    #[test]
    fn naga_writes_spirv_for_every_tile() {
        use naga::valid::{Capabilities, ValidationFlags, Validator};
        let allowed = Capabilities::SUBGROUP | Capabilities::SHADER_FLOAT16 | Capabilities::COOPERATIVE_MATRIX;
        for variant in variants() {
            let module = naga::front::wgsl::parse_str(&variant.source(crate::kernel::Target::Native)).unwrap();
            let info = Validator::new(ValidationFlags::all(), allowed).validate(&module).unwrap();
            let constants = variant.constants.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect();
            let entry = Some((naga::ShaderStage::Compute, "main"));
            let (module, info) =
                naga::back::pipeline_constants::process_overrides(&module, &info, entry, &constants).unwrap();
            let words = naga::back::spv::write_vec(&module, &info, &naga::back::spv::Options::default(), None).unwrap();
            assert!(words.len() > 1000, "{} words", words.len());
        }
    }
}
