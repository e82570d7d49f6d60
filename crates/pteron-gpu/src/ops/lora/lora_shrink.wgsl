// The first half of low-rank updates: rows times the narrow matrices A of their adapters, after a norm if there is one.
//
// A workgroup of 64 threads computes four columns of a tile: the products of its rows with four rows of a matrix A, which are columns of
// x · Aᵀ. Threads share the length of the rows; each keeps four sums per row in registers. A tree reduction in workgroup memory adds
// them up. Rows of a tile after its last repeat the first, and nothing reads their products.

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

const THREADS: u32 = 64u;

var<workgroup> sums: array<vec4<f32>, {ROWS} * 64>;
var<workgroup> squares: array<f32, {ROWS} * 64>;

// The start of a row in x.
fn start_of(tile: u32, index: u32) -> u32 {
    let row = row_of(tile, index);
    return u32(max(select(row, row_of(tile, 0u), row < 0), 0)) * params.vectors;
}

@compute @workgroup_size(64)
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
//#unroll r {ROWS}
    sums[{r}u * THREADS + thread] = sum_{r};
    squares[{r}u * THREADS + thread] = square_{r};
//#end
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if thread < half {
//#unroll r {ROWS}
            sums[{r}u * THREADS + thread] += sums[{r}u * THREADS + thread + half];
            squares[{r}u * THREADS + thread] += squares[{r}u * THREADS + thread + half];
//#end
        }
    }
    workgroupBarrier();
    if thread < {ROWS}u {
        var factor = scale;
        if NORM == 1u {
            factor *= inverseSqrt(squares[thread * THREADS] / f32(4u * params.vectors) + params.eps);
        }
        shrunk[(tile * {ROWS}u + thread) * params.columns + column] = sums[thread * THREADS] * factor;
    }
}
