// The same as copy_tile.wgsl in cells of four rows of four words, where those begin vectors on both sides.
// A workgroup moves CELLS cells through workgroup memory: 2^`a_bits` along axis `a`, 2^`b_bits` along axis `b`, and 2^`outer_bits`
// of the indices of the other axes. A thread reads the rows of a cell and turns it by itself. The tile is held in rows of items,
// whose places are mixed by row so that neighbours who write one below the other do not meet in a bank.

//#include tile_cells

alias V = vec4<u32>;
const CELLS = 256u;

fn turned(rows: Cell) -> Cell {
    return Cell(
        V(rows.p.x, rows.q.x, rows.r.x, rows.s.x),
        V(rows.p.y, rows.q.y, rows.r.y, rows.s.y),
        V(rows.p.z, rows.q.z, rows.r.z, rows.s.z),
        V(rows.p.w, rows.q.w, rows.r.w, rows.s.w));
}
