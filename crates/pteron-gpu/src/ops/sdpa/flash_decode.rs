//! Split-KV decode with subgroup operations: for one to eight query rows.

use super::flash::{HeadConfig, Params};
use super::selection::SplitPolicy;
use super::{INCLUDES, reach};
use crate::kernel::{KernelDef, Variant};
use crate::plan::{Caps, Lanes};

pub(super) static SUBGROUPS_KERNEL: KernelDef =
    KernelDef::new("sdpa_flash_decode_subgroups", include_str!("sdpa_flash_decode_subgroups.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .with_variants(variants)
        .with_subgroups()
        .proven(reach::flash);

/// The most vectors of a key per thread: with more, the portable kernel is faster.
const MAX_VECTORS: u32 = 4;

/// Vectors of a key per thread where heads allow it: as `f16`, two are a load of 16 bytes, and more take fewer shuffles per row and key.
const WANTED_VECTORS: u32 = 2;

/// Bytes of a head's cached keys up to which a workgroup per query row is faster than one for all rows of a KV head, or several with a
/// second dispatch: more workgroups share the work, and each key is read once per row from the GPU's own cache.
const SHORT_BYTES: u32 = 96 << 10;

/// Tile of a workgroup, and how its threads share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SubgroupTile {
    head_vectors: u32,
    pub(super) rows: u32,
    lanes: Lanes,
    threads: u32,
    /// Threads that share a key.
    threads_per_key: u32,
    /// Bytes of keys, and as many of values, that a thread loads before it uses them.
    bytes_in_flight: u32,
    /// For one row: the longest context for which it is faster than tiles of more rows.
    pub(super) short_context: Option<u32>,
}

impl SubgroupTile {
    /// The tile for these numbers of query rows and vectors per head; `None` where only the portable kernel runs.
    pub(super) fn of(caps: Caps, head_vectors: u32, f16_cache: bool, rows: u32) -> Option<Self> {
        let lanes = caps.lanes()?;
        let most = lanes.count.min((head_vectors / WANTED_VECTORS).max(1));
        let threads_per_key = 1 << head_vectors.trailing_zeros().min(most.ilog2());
        // Rows take registers.
        let bytes_in_flight = if rows == 1 { 128 } else { 256 / rows };
        let key_bytes = head_vectors * if f16_cache { 8 } else { 16 };
        let short_context = (rows == 1).then_some(SHORT_BYTES / key_bytes);
        let with = |threads| Self { head_vectors, rows, lanes, threads, threads_per_key, bytes_in_flight, short_context };
        let fits = |tile: &Self| tile.vectors() <= MAX_VECTORS && tile.memory() <= caps.workgroup_memory;
        [128, 64].into_iter().map(with).find(fits)
    }

    /// The tile of one row, for short contexts. A processor gains nothing by more workgroups, and each loads and converts the same keys
    /// again.
    pub(super) fn one_row(caps: Caps, head_vectors: u32, f16_cache: bool) -> Option<Self> {
        Self::of(caps, head_vectors, f16_cache, 1).filter(|_| !caps.software)
    }

    /// When the context is split.
    pub(super) fn split_policy(self) -> SplitPolicy {
        SplitPolicy { full_grid: 256, min_keys: 64, unsplit_keys: self.short_context.unwrap_or(256) }
    }

    fn vectors(self) -> u32 {
        self.head_vectors / self.threads_per_key
    }

    /// Bytes of workgroup memory: a partial result per row and cluster of lanes.
    fn memory(self) -> u32 {
        self.threads / self.lanes.count * self.rows * (self.head_vectors * 16 + 8)
    }

    pub(super) fn variant(self, heads: HeadConfig) -> Variant {
        self.variant_of(&SUBGROUPS_KERNEL, heads)
    }

    /// The variant of a kernel that computes such tiles.
    pub(super) fn variant_of(self, kernel: &'static KernelDef, heads: HeadConfig) -> Variant {
        let cache = CacheElement::of(heads, self.vectors());
        let loads = self.vectors() / cache.vectors;
        let variant = heads
            .with(Variant::new(kernel))
            .with_count("THREADS", self.threads)
            .with_count("SUBGROUP", self.lanes.count)
            .with_count("WHOLE", self.lanes.are_whole().into())
            .with_count("THREADS_PER_KEY", self.threads_per_key)
            .with_count("LOADS", loads)
            .with_count("KV_VECTORS", cache.vectors)
            .with_count("ROWS", self.rows)
            .with_count("UNROLL", (self.bytes_in_flight / (loads * cache.bytes)).max(1));
        variant.with_type("KV", cache.ty).with_function(WIDEN, cache.widen).with_function(NARROW, cache.narrow)
    }
}

/// The function that converts a vector of a cache's element.
const WIDEN: &str = "fn widen(kv: KV, vector: u32) -> vec4<f32>";

/// The function that converts the first and last vector of an element to the caches' type.
const NARROW: &str = "fn narrow(first: vec4<f32>, last: vec4<f32>) -> KV";

/// The element that the kernel binds caches as.
struct CacheElement {
    ty: &'static str,
    bytes: u32,
    vectors: u32,
    widen: &'static str,
    narrow: &'static str,
}

impl CacheElement {
    const F32: Self = Self { ty: "vec4<f32>", bytes: 16, vectors: 1, widen: "kv", narrow: "first" };
    const F16: Self = Self {
        ty: "vec4<f16>",
        bytes: 8,
        vectors: 1,
        widen: "vec4<f32>(kv)",
        narrow: "vec4<f16>(clamp(first, vec4<f32>(-65504.0), vec4<f32>(65504.0)))",
    };
    /// Two vectors of `f16`, packed.
    const F16_PAIR: Self = Self {
        ty: "vec4<u32>",
        bytes: 16,
        vectors: 2,
        widen: "select(vec4<f32>(unpack2x16float(kv.x), unpack2x16float(kv.y)), \
                vec4<f32>(unpack2x16float(kv.z), unpack2x16float(kv.w)), vector == 1u)",
        narrow: "vec4<u32>(pack2x16float(clamp(first.xy, vec2<f32>(-65504.0), vec2<f32>(65504.0))), \
                 pack2x16float(clamp(first.zw, vec2<f32>(-65504.0), vec2<f32>(65504.0))), \
                 pack2x16float(clamp(last.xy, vec2<f32>(-65504.0), vec2<f32>(65504.0))), \
                 pack2x16float(clamp(last.zw, vec2<f32>(-65504.0), vec2<f32>(65504.0))))",
    };

    /// The element of caches whose threads load this many vectors of a key.
    fn of(heads: HeadConfig, vectors: u32) -> Self {
        match heads.f16_cache {
            true if vectors.is_multiple_of(2) => Self::F16_PAIR,
            true => Self::F16,
            false => Self::F32,
        }
    }
}

fn variants() -> Vec<Variant> {
    let caps = Caps { subgroups: true, subgroup_size: (32, 32), ..Caps::PORTABLE };
    let tiles = [16, 32, 12]
        .into_iter()
        .flat_map(|head_vectors| [1, 4, 8].map(|rows| SubgroupTile::of(caps, head_vectors, true, rows)));
    tiles.flatten().flat_map(|tile| HeadConfig::rotated(tile.head_vectors).map(|heads| tile.variant(heads))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::flash::Rotation;
    use super::*;

    fn caps(subgroup: u32) -> Caps {
        Caps { subgroups: true, subgroup_size: (subgroup, subgroup), workgroup_memory: 32 * 1024, ..Caps::PORTABLE }
    }

    #[test]
    fn threads_per_key_divide_heads_and_subgroups() {
        let tile = |subgroup, head_vectors, rows| {
            SubgroupTile::of(caps(subgroup), head_vectors, false, rows).map(|tile| (tile.threads, tile.threads_per_key))
        };
        assert_eq!(tile(32, 16, 1), Some((128, 8)));
        assert_eq!(tile(32, 16, 4), Some((128, 8)));
        assert_eq!(tile(32, 16, 8), Some((128, 8)));
        assert_eq!(tile(32, 32, 4), Some((128, 16)));
        assert_eq!(tile(32, 12, 8), Some((128, 4)));
        assert_eq!(tile(32, 1, 8), Some((128, 1)));
        assert_eq!(tile(64, 64, 4), Some((128, 32)));
        // Small subgroups leave more partial results than workgroup memory holds.
        assert_eq!(tile(8, 32, 4), Some((64, 8)));
        assert_eq!(tile(8, 64, 8), None);
        // A head of 5 × 4 vectors leaves too many of them per thread.
        assert_eq!(tile(32, 20, 4), None);
    }

    #[test]
    fn threads_load_16_bytes_at_once_where_heads_allow_it() {
        let loads = |head_vectors, f16_cache| {
            let heads = HeadConfig { head_vectors, rotation: Rotation::Interleaved, f16_cache };
            let variant = SubgroupTile::of(caps(32), head_vectors, f16_cache, 4).unwrap().variant(heads);
            let counted = |name| variant.counts.iter().find(|(known, _)| *known == name).unwrap().1;
            (variant.types[0].1, counted("LOADS"), counted("KV_VECTORS"), counted("UNROLL"))
        };
        assert_eq!((loads(16, false), loads(16, true)), (("vec4<f32>", 2, 1, 2), ("vec4<u32>", 1, 2, 4)));
        assert_eq!((loads(12, false), loads(12, true)), (("vec4<f32>", 3, 1, 1), ("vec4<f16>", 3, 1, 2)));
    }

    #[test]
    fn subgroups_of_varying_size_share_as_the_smallest() {
        let tile = |subgroup_size| SubgroupTile::of(Caps { subgroup_size, ..caps(8) }, 16, false, 4).unwrap();
        assert_eq!(tile((8, 32)), SubgroupTile { lanes: Lanes { count: 8, most: 32 }, ..tile((8, 8)) });
        let whole = |tile: SubgroupTile| {
            let heads = HeadConfig { head_vectors: 16, rotation: Rotation::None, f16_cache: false };
            tile.variant(heads).counts.iter().find(|(name, _)| *name == "WHOLE").unwrap().1
        };
        assert_eq!((whole(tile((8, 32))), whole(tile((8, 8)))), (0, 1));
    }

    #[test]
    fn other_subgroups_get_the_portable_kernel() {
        assert_eq!(SubgroupTile::of(Caps { subgroups: false, ..caps(32) }, 16, false, 4), None);
        assert_eq!(SubgroupTile::of(caps(0), 16, false, 4), None);
        assert_eq!(SubgroupTile::of(caps(128), 16, false, 4), None);
    }
}
