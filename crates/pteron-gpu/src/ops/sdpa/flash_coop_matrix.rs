//! Many rows on a device that multiplies whole matrices of 16-bit floats.

use super::flash::{Heads, Params};
use super::selection::Spread;
use super::{INCLUDES, reach};
use crate::kernel::{KernelDef, Variant};
use crate::plan::{COOPERATIVE_MATRIX_MEMORY, Caps};

pub(super) static MATRIX: KernelDef =
    KernelDef::new("sdpa_flash_coop_matrix", include_str!("sdpa_flash_coop_matrix.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .with_variants(variants)
        .with_cooperative_matrix()
        .proven(reach::matrix);

/// Subgroups of a workgroup, and vectors of a row that go through workgroup memory at a time.
const SUBGROUPS: u32 = 4;
const CHUNK: u32 = 16;

/// What a workgroup has in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    lanes: u32,
    /// Blocks of 16 rows for each subgroup.
    blocks: u32,
    keys: u32,
}

/// The tiles for heads of so many vectors: the smallest first, and one with more rows where registers hold them.
const TILES: [(u32, &[Tile]); 2] = [
    (16, &[Tile { lanes: 16, blocks: 1, keys: 64 }, Tile { lanes: 16, blocks: 2, keys: 64 }]),
    (32, &[Tile { lanes: 32, blocks: 1, keys: 32 }]),
];

impl Tile {
    /// Those that a device has for a head; none where others must do.
    pub(super) fn of(caps: Caps, lanes: u32) -> &'static [Self] {
        let tiles = TILES.iter().find(|(served, _)| caps.cooperative_matrix && *served == lanes);
        tiles.map_or(&[], |(_, tiles)| tiles)
    }

    pub(super) fn rows(self) -> u32 {
        SUBGROUPS * self.blocks * 16
    }

    /// How workgroups spread over a GPU. Rows are many, so a part has to be worth what `combine` reads.
    pub(super) const SPREAD: Spread = Spread { grid: 256, least: 256, alone: 256 };

    /// Bytes of workgroup memory: keys and values, scores and weights, with two vectors between rows.
    const fn memory(self) -> u32 {
        let rows = SUBGROUPS * 16 * (CHUNK + 2);
        2 * self.keys * (self.lanes + 2) * 8 + rows * (16 + 8)
    }

    pub(super) fn variant(self, heads: Heads) -> Variant {
        heads
            .with_caches(Variant::new(&MATRIX))
            .with_count("BLOCKS", self.blocks)
            .with_count("CHUNKS", self.lanes / CHUNK)
            .with_count("KEYS", self.keys)
            .with_count("TILES", self.keys / 16)
            .with_count("PAIRS", self.keys / 8)
    }
}

/// Every tile fits.
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
    let heads = |lanes| Heads::rotated(lanes).into_iter().chain([Heads { lanes, rotated: false, halves: false }]);
    tiles.flat_map(|tile| heads(tile.lanes).map(|heads| tile.variant(heads))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_whole_chunks_are_served_where_matrices_are() {
        let caps = Caps { cooperative_matrix: true, ..Caps::PORTABLE };
        assert_eq!(Tile::of(caps, 16).iter().map(|tile| tile.rows()).collect::<Vec<_>>(), [64, 128]);
        assert_eq!(Tile::of(caps, 32).len(), 1);
        for lanes in [1, 8, 15, 17, 20, 64] {
            assert!(Tile::of(caps, lanes).is_empty(), "{lanes} vectors");
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
