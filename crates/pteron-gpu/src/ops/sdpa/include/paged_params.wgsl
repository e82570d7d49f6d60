// Parameters of attention over a paged cache, and the work list of a call.
//
// Rows of a call belong to several sequences. Row r of a KV head's queries is query head r % group of token r / group, tokens of all
// sequences counted together. A pool holds blocks of BLOCK_POSITIONS positions; a sequence names its blocks in a block table.
struct Params {
    // KV heads, query heads per KV head, and tokens of all sequences.
    heads: u32,
    group: u32,
    tokens: u32,
    scale: f32,
    // Always 1: a token sees its own position and those before it.
    causal: u32,
    // Offset of the sines after the cosines, in pairs.
    sin_offset: u32,
    // The index of this dispatch's first tile in the work list, and its tiles.
    first_tile: u32,
    tiles: u32,
    // 1: the context is split as the work list says.
    is_split: u32,
    // Vectors per head that are rotated, where elements of two halves form pairs.
    rotary_vectors: u32,
}

//#include flash_heads

const BLOCK_POSITIONS: u32 = 32u;
// Words of the work list: counts of the two kinds of tiles, splits, keys per split, query rows of the first kind's tiles, and where cache
// slots begin. Tiles begin at a known word: a load that waits for another one takes as long again.
const SPLITS: u32 = 2u;
const SPLIT_KEYS: u32 = 3u;
const SLOTS: u32 = 5u;
const TILES: u32 = 6u;
// Words of a tile: its first row, the end of its sequence's rows, the sequence's first token, its position, and its block table.
const TILE_WORDS: u32 = 5u;
// Words of a cache slot: the slot, and the position.
const SLOT_WORDS: u32 = 2u;
