// The second half of low-rank updates: the columns of x · Aᵀ times the matrices B of the rows' adapters, added to the outputs of the
// linears in place, or to the factors of SwiGLU, which is computed then.
//
// A workgroup of 64 threads computes 64 columns of one output for the rows of a tile, a thread one column. All threads read the same
// columns of x · Aᵀ, and each its own row of B.

//#include grid
//#include lora_tiles
//#include lora_silu

struct Params {
    tiles: u32,
    // Blocks of 64 columns: of all outputs.
    blocks: u32,
    // Vectors of four columns of x · Aᵀ: of all matrices, and of each.
    columns: u32,
    rank: u32,
    // Columns of all outputs, and matrices.
    width: u32,
    matrices: u32,
    // The first block and the first column of each output, and its columns. Blocks of absent outputs are past the last.
    first_block: vec4<u32>,
    first: vec4<u32>,
    widths: vec4<u32>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> shrunk: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> b: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read> tiles: array<i32>;
@group(0) @binding(5) var<storage, read_write> out_0: array<f32>;
@group(0) @binding(6) var<storage, read_write> out_1: array<f32>;
@group(0) @binding(7) var<storage, read_write> out_2: array<f32>;

// 1: the first two outputs are the factors of SwiGLU, and the third is its result.
override SWIGLU: u32 = 0u;

const THREADS: u32 = 64u;

// What the adapter of a tile adds to a column of each row.
fn updates(tile: u32, matrix: u32, column: u32) -> array<f32, {ROWS}> {
    var sums = array<f32, {ROWS}>();
    let slot = slot_of(tile);
    if slot < 0 {
        return sums;
    }
    if scales[u32(slot) * params.matrices + matrix] == 0.0 {
        return sums;
    }
    let row = (u32(slot) * params.width + params.first[matrix] + column) * params.rank;
    let start = tile * {ROWS}u * params.columns + matrix * params.rank;
    for (var i = 0u; i < min(rank_vectors(tile), params.rank); i++) {
        let factors = halves(b[row + i]);
//#unroll r {ROWS}
        sums[{r}] += dot(shrunk[start + {r}u * params.columns + i], factors);
//#end
    }
    return sums;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups);
    let tile = index / params.blocks;
    let block = index % params.blocks;
    if tile >= params.tiles {
        return;
    }
    if SWIGLU == 1u {
        let column = block * THREADS + thread;
        let width = params.widths.x;
        if column < width {
            let gates = updates(tile, 0u, column);
            let ups = updates(tile, 1u, column);
//#unroll r {ROWS}
            let row_{r} = row_of(tile, {r}u);
            if row_{r} >= 0 {
                let at = u32(row_{r}) * width + column;
                out_2[at] = silu(out_0[at] + gates[{r}]) * (out_1[at] + ups[{r}]);
            }
//#end
        }
        return;
    }
    let matrix = u32(block >= params.first_block.y) + u32(block >= params.first_block.z);
    let column = (block - params.first_block[matrix]) * THREADS + thread;
    let width = params.widths[matrix];
    let slot = slot_of(tile);
    if slot < 0 || column >= width {
        return;
    }
    if scales[u32(slot) * params.matrices + matrix] == 0.0 {
        return;
    }
    let sums = updates(tile, matrix, column);
//#unroll r {ROWS}
    let row_{r} = row_of(tile, {r}u);
    if row_{r} >= 0 {
        let at = u32(row_{r}) * width + column;
        switch matrix {
            case 0u: { out_0[at] += sums[{r}]; }
            case 1u: { out_1[at] += sums[{r}]; }
            default: { out_2[at] += sums[{r}]; }
        }
    }
//#end
}
