// Transposes 4 × 4 blocks of bytes, where rows are aligned to words on both sides.
// A workgroup of 256 threads moves a tile of BLOCKS blocks through workgroup memory: 2^a_bits along axis `a`, 2^b_bits along axis `b` and
// 2^outer_bits of the other axes. A thread loads the four rows of a block, transposes it in registers and stores it in the tile; after
// one barrier neighbouring threads store along `b`. Rows of the tile are swizzled to avoid bank conflicts.

//#include transpose_blocks

alias V = u32;
const BLOCKS = 512u;

// Swaps bytes within pairs of rows, then pairs of bytes.
fn transposed(rows: Block) -> Block {
    let even = vec2<u32>(rows.p & 0x00ff00ffu, rows.r & 0x00ff00ffu)
        | (vec2<u32>(rows.q & 0x00ff00ffu, rows.s & 0x00ff00ffu) << vec2<u32>(8u));
    let odd = (vec2<u32>(rows.p & 0xff00ff00u, rows.r & 0xff00ff00u) >> vec2<u32>(8u))
        | vec2<u32>(rows.q & 0xff00ff00u, rows.s & 0xff00ff00u);
    return Block(
        (even.x & 0xffffu) | (even.y << 16u),
        (odd.x & 0xffffu) | (odd.y << 16u),
        (even.x >> 16u) | (even.y & 0xffff0000u),
        (odd.x >> 16u) | (odd.y & 0xffff0000u));
}
