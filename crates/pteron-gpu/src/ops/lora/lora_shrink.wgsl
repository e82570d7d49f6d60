// The first half of low-rank updates: rows times the narrow matrices A of their adapters, before a norm is applied if there is one.
//
// A workgroup of 64 threads computes a part of four columns of a tile: the products of a chunk of its rows with that of four rows of a
// matrix A, which are columns of x · Aᵀ. `lora_expand` adds the chunks up: a step has few rows, and long ones would leave most of a GPU
// idle. Threads share the chunk; each keeps four sums per row in registers. Rows of a tile after its last repeat the first, and nothing reads
// their products.

//#include grid
//#include lora_tiles

struct Params {
    tiles: u32,
    // Vectors in a row of x.
    vectors: u32,
    // Vectors of four columns: of all matrices, and of each.
    columns: u32,
    rank: u32,
    matrices: u32,
    // Vectors of a chunk, and chunks of a row.
    chunk: u32,
    chunks: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> norm: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> a: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<f32>;
@group(0) @binding(5) var<storage, read> tiles: array<i32>;
// Per tile, chunk and row: the columns, then for each matrix a vector with the sum of the row's squares, where there is a norm.
@group(0) @binding(6) var<storage, read_write> shrunk: array<vec4<f32>>;

override NORM: u32 = 0u;

const THREADS: u32 = 64u;
// Threads that add up a row.
const PARTS: u32 = THREADS / {ROWS}u;

var<workgroup> sums: array<vec4<f32>, {ROWS} * THREADS>;
var<workgroup> squares: array<f32, {ROWS} * THREADS>;
var<workgroup> part_sums: array<vec4<f32>, THREADS>;
var<workgroup> part_squares: array<f32, THREADS>;

// The start of a row in x.
fn start_of(tile: u32, index: u32) -> u32 {
    let row = row_of(tile, index);
    return u32(max(select(row, row_of(tile, 0u), row < 0), 0)) * params.vectors;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups);
    let chunk = index % params.chunks;
    let column = index / params.chunks % params.columns;
    let tile = index / params.chunks / params.columns;
    if tile >= params.tiles {
        return;
    }
    let slot = slot_of(tile);
    if slot < 0 || column % params.rank >= rank_vectors(tile) {
        return;
    }
    let matrix = column / params.rank;
    if scales[u32(slot) * params.matrices + matrix] == 0.0 {
        return;
    }
    let first = (u32(slot) * params.columns + column) * 4u * params.vectors;
    let end = min((chunk + 1u) * params.chunk, params.vectors);
//#unroll r {ROWS}
    let row_{r} = start_of(tile, {r}u);
    var sum_{r} = vec4<f32>();
    var square_{r} = 0.0;
//#end
    for (var i = chunk * params.chunk + thread; i < end; i += THREADS) {
        let at = first + i;
        var a_0 = halves(a[at]);
        var a_1 = halves(a[at + params.vectors]);
        var a_2 = halves(a[at + 2u * params.vectors]);
        var a_3 = halves(a[at + 3u * params.vectors]);
        if NORM == 1u {
            // The weights of the norm apply to all rows alike.
            let weight = norm[i];
            a_0 *= weight;
            a_1 *= weight;
            a_2 *= weight;
            a_3 *= weight;
        }
//#unroll r {ROWS}
        let x_{r} = x[row_{r} + i];
        sum_{r} += vec4<f32>(dot(x_{r}, a_0), dot(x_{r}, a_1), dot(x_{r}, a_2), dot(x_{r}, a_3));
        if NORM == 1u {
            square_{r} += dot(x_{r}, x_{r});
        }
//#end
    }
//#unroll r {ROWS}
    sums[{r}u * THREADS + thread] = sum_{r};
    squares[{r}u * THREADS + thread] = square_{r};
//#end
    workgroupBarrier();
    var sum = vec4<f32>();
    var square = 0.0;
    for (var i = 0u; i < THREADS / PARTS; i++) {
        // Neighbouring threads read neighbouring sums.
        let place = thread / PARTS * THREADS + i * PARTS + thread % PARTS;
        sum += sums[place];
        square += squares[place];
    }
    part_sums[thread] = sum;
    part_squares[thread] = square;
    workgroupBarrier();
    if thread < {ROWS}u {
        sum = vec4<f32>();
        square = 0.0;
        for (var i = 0u; i < PARTS; i++) {
            sum += part_sums[thread * PARTS + i];
            square += part_squares[thread * PARTS + i];
        }
        let start = ((tile * params.chunks + chunk) * {ROWS}u + thread) * (params.columns + params.matrices);
        shrunk[start + column] = sum;
        if NORM == 1u && column % params.rank == 0u {
            shrunk[start + params.columns + matrix] = vec4<f32>(square, 0.0, 0.0, 0.0);
        }
    }
}
