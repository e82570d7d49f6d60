// The first half of low-rank updates: rows times the narrow matrices A of their adapters, after a norm if there is one.
//
// A workgroup of 256 threads computes four columns of a tile: the products of its rows with four rows of a matrix A, which are columns of
// x · Aᵀ. Threads share the length of the rows; each keeps four sums per row in registers. The sums of 256 threads do not fit workgroup
// memory, so three quarters of the threads hand theirs to the others first; a tree reduction adds up the rest. Rows of a tile after its last
// repeat the first, and nothing reads their products.

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
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> norm: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> a: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<f32>;
@group(0) @binding(5) var<storage, read> tiles: array<i32>;
@group(0) @binding(6) var<storage, read_write> shrunk: array<vec4<f32>>;

override NORM: u32 = 0u;

const THREADS: u32 = 256u;
// Threads that take part in the tree reduction, and rows that twice as many can hand over at a time.
const LAST: u32 = 64u;
const HALF_ROWS: u32 = {ROWS}u / 2u;

var<workgroup> sums: array<vec4<f32>, {ROWS} * LAST>;
var<workgroup> squares: array<f32, {ROWS} * LAST>;

// The start of a row in x.
fn start_of(tile: u32, index: u32) -> u32 {
    let row = row_of(tile, index);
    return u32(max(select(row, row_of(tile, 0u), row < 0), 0)) * params.vectors;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups);
    let tile = index / params.columns;
    let column = index % params.columns;
    if tile >= params.tiles {
        return;
    }
    let slot = slot_of(tile);
    if slot < 0 || column % params.rank >= rank_vectors(tile) {
        return;
    }
    let scale = scales[u32(slot) * params.matrices + column / params.rank];
    if scale == 0.0 {
        return;
    }
    let first = (u32(slot) * params.columns + column) * 4u * params.vectors;
//#unroll r {ROWS}
    let row_{r} = start_of(tile, {r}u);
    var sum_{r} = vec4<f32>();
    var square_{r} = 0.0;
//#end
    for (var i = thread; i < params.vectors; i += THREADS) {
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
    // From 256 threads to 128, half of the rows at a time.
    for (var part = 0u; part < 2u; part++) {
        if thread >= 2u * LAST {
            let place = thread - 2u * LAST;
//#unroll r {ROWS}
            if {r}u / HALF_ROWS == part {
                sums[({r}u % HALF_ROWS) * 2u * LAST + place] = sum_{r};
                squares[({r}u % HALF_ROWS) * 2u * LAST + place] = square_{r};
            }
//#end
        }
        workgroupBarrier();
        if thread < 2u * LAST {
//#unroll r {ROWS}
            if {r}u / HALF_ROWS == part {
                sum_{r} += sums[({r}u % HALF_ROWS) * 2u * LAST + thread];
                square_{r} += squares[({r}u % HALF_ROWS) * 2u * LAST + thread];
            }
//#end
        }
        workgroupBarrier();
    }
    // From 128 to 64.
    if thread >= LAST && thread < 2u * LAST {
//#unroll r {ROWS}
        sums[{r}u * LAST + thread - LAST] = sum_{r};
        squares[{r}u * LAST + thread - LAST] = square_{r};
//#end
    }
    workgroupBarrier();
    if thread < LAST {
//#unroll r {ROWS}
        sums[{r}u * LAST + thread] += sum_{r};
        squares[{r}u * LAST + thread] += square_{r};
//#end
    }
    for (var half = LAST / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if thread < half {
//#unroll r {ROWS}
            sums[{r}u * LAST + thread] += sums[{r}u * LAST + thread + half];
            squares[{r}u * LAST + thread] += squares[{r}u * LAST + thread + half];
//#end
        }
    }
    workgroupBarrier();
    if thread < {ROWS}u {
        var factor = scale;
        if NORM == 1u {
            factor *= inverseSqrt(squares[thread * LAST] / f32(4u * params.vectors) + params.eps);
        }
        shrunk[(tile * {ROWS}u + thread) * params.columns + column] = sums[thread * LAST] * factor;
    }
}
