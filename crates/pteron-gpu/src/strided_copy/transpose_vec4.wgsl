// Transposes 4 × 4 blocks of words, where rows are aligned to vectors on both sides.
// A workgroup of 256 threads moves a tile of BLOCKS blocks through workgroup memory: 2^a_bits along axis `a`, 2^b_bits along axis `b` and
// 2^outer_bits of the other axes. A thread loads the four rows of a block, transposes it in registers and stores it in the tile; after
// one barrier neighbouring threads store along `b`. Rows of the tile are swizzled to avoid bank conflicts.

//#include transpose_blocks

alias V = vec4<u32>;
const BLOCKS = 256u;

fn transposed(rows: Block) -> Block {
    return Block(
        V(rows.p.x, rows.q.x, rows.r.x, rows.s.x),
        V(rows.p.y, rows.q.y, rows.r.y, rows.s.y),
        V(rows.p.z, rows.q.z, rows.r.z, rows.s.z),
        V(rows.p.w, rows.q.w, rows.r.w, rows.s.w));
}
