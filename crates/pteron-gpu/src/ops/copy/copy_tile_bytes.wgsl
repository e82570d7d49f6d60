// The same as copy_tile.wgsl in cells of four rows of four bytes, where those begin words on both sides.
// A workgroup moves CELLS cells through workgroup memory: 2^`a_bits` along axis `a`, 2^`b_bits` along axis `b`, and 2^`outer_bits`
// of the indices of the other axes. A thread reads the rows of a cell and turns it by itself. The tile is held in rows of items,
// whose places are mixed by row so that neighbours who write one below the other do not meet in a bank.

//#include tile_cells

alias V = u32;
const CELLS = 512u;

// First pairs of bytes, then pairs of pairs.
fn turned(rows: Cell) -> Cell {
    let even = vec2<u32>(rows.p & 0x00ff00ffu, rows.r & 0x00ff00ffu)
        | (vec2<u32>(rows.q & 0x00ff00ffu, rows.s & 0x00ff00ffu) << vec2<u32>(8u));
    let odd = (vec2<u32>(rows.p & 0xff00ff00u, rows.r & 0xff00ff00u) >> vec2<u32>(8u))
        | vec2<u32>(rows.q & 0xff00ff00u, rows.s & 0xff00ff00u);
    return Cell(
        (even.x & 0xffffu) | (even.y << 16u),
        (odd.x & 0xffffu) | (odd.y << 16u),
        (even.x >> 16u) | (even.y & 0xffff0000u),
        (odd.x >> 16u) | (odd.y & 0xffff0000u));
}
