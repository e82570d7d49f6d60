// The second half of low-rank updates: the columns of x · Aᵀ times the matrices B of the rows' adapters, added to the outputs of the
// linears in place, or to the factors of SwiGLU, which is computed then.
//
// A workgroup of 64 threads computes 64 columns of one output for the rows of a tile, a thread one column. Threads share x · Aᵀ: together they
// add up its chunks and apply the norm and the scale, up to RANKS vectors of four columns at a time. Each loads its own row of B meanwhile.

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
    // Chunks of x · Aᵀ, and the columns and the epsilon of the norm.
    chunks: u32,
    length: u32,
    eps: f32,
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
// 1: x is normalised.
override NORM: u32 = 0u;

const THREADS: u32 = 64u;
const RANKS: u32 = 8u;

// Vectors of the rows of a tile.
var<workgroup> rows: array<vec4<f32>, {ROWS} * RANKS>;

// Adds up `count` vectors of each row, from `first` on.
fn add_chunks(thread: u32, tile: u32, matrix: u32, first: u32, count: u32, scale: f32) {
    for (var item = thread; item < {ROWS}u * count; item += THREADS) {
        let row = item / count;
        let vector = item % count;
        var sum = vec4<f32>();
        var square = 0.0;
        for (var chunk = 0u; chunk < params.chunks; chunk++) {
            let start = ((tile * params.chunks + chunk) * {ROWS}u + row) * (params.columns + params.matrices);
            sum += shrunk[start + matrix * params.rank + first + vector];
            if NORM == 1u {
                square += shrunk[start + params.columns + matrix].x;
            }
        }
        var factor = scale;
        if NORM == 1u {
            factor *= inverseSqrt(square / f32(params.length) + params.eps);
        }
        rows[row * RANKS + vector] = sum * factor;
    }
}

// What the adapter of a tile adds to a column of each row. A column past the last reads another one's row of B.
fn updates(thread: u32, tile: u32, matrix: u32, column: u32) -> array<f32, {ROWS}> {
    var sums = array<f32, {ROWS}>();
    let slot = slot_of(tile);
    if slot < 0 {
        return sums;
    }
    let scale = scales[u32(slot) * params.matrices + matrix];
    if scale == 0.0 {
        return sums;
    }
    let rank = min(rank_vectors(tile), params.rank);
    let row = (u32(slot) * params.width + params.first[matrix] + column) * params.rank;
    for (var first = 0u; first < rank; first += RANKS) {
        let count = min(rank - first, RANKS);
//#unroll i 8
        let factors_{i} = halves(b[row + first + min({i}u, count - 1u)]);
//#end
        add_chunks(thread, tile, matrix, first, count, scale);
        workgroupBarrier();
//#unroll i 8
        if {i}u < count {
//#unroll r {ROWS}
            sums[{r}] += dot(rows[{r}u * RANKS + {i}u], factors_{i});
//#end
        }
//#end
        workgroupBarrier();
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
        let gates = updates(thread, tile, 0u, column);
        let ups = updates(thread, tile, 1u, column);
        if column < width {
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
    if slot < 0 {
        return;
    }
    if scales[u32(slot) * params.matrices + matrix] == 0.0 {
        return;
    }
    let sums = updates(thread, tile, matrix, column);
    if column >= width {
        return;
    }
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
