// Batched matmul: out [m, n] = alpha · x · weight + beta · addend. A kernel that
// includes this declares `params`, `x: array<X>`, `weight: array<W>`, `addend: array<f32>` and `out: array<f32>`.
struct Params {
    m: u32,
    n: u32,
    k: u32,
    // Batches of this dispatch, and the first of them.
    batches: u32,
    first_batch: u32,
    // Number of batch dims.
    rank: u32,
    // Offset of x, and its strides by row, column and batch.
    x_base: u32,
    x_row: u32,
    x_column: u32,
    x_batch: u32,
    // The same for the output.
    out_base: u32,
    out_row: u32,
    out_column: u32,
    out_batch: u32,
    // The same for the optional addend.
    has_addend: u32,
    addend_base: u32,
    addend_row: u32,
    addend_column: u32,
    alpha: f32,
    beta: f32,
    // Lanes of a GEMV workgroup.
    lanes: u32,
    // Batch dims, innermost first, and their strides in x, weight and addend (0: broadcast).
    dims: array<vec4<u32>, 2>,
    x_strides: array<vec4<u32>, 2>,
    weight_strides: array<vec4<u32>, 2>,
    addend_strides: array<vec4<u32>, 2>,
}

// 1: X is vec4<f32>, whose rows are whole vectors. 0: X is f32.
override WIDE: u32 = 0u;
// The same for W.
override WIDE_WEIGHT: u32 = 0u;
// 1: the weight is [n, k]. 0: it is [k, n].
override TRANSPOSED: u32 = 0u;

// Offsets of this workgroup's batch.
var<private> x_at: u32;
var<private> weight_at: u32;
var<private> addend_at: u32;
var<private> out_at: u32;

// Adds the offsets along one batch dim; returns the remaining index.
fn along(rest: u32, dim: u32, x_stride: u32, weight_stride: u32, addend_stride: u32) -> u32 {
    let index = rest % dim;
    x_at += index * x_stride;
    weight_at += index * weight_stride;
    addend_at += index * addend_stride;
    return rest / dim;
}

// Unrolled: with a loop, tiles ran a tenth slower on a large GPU.
fn enter_batch(batch: u32) -> bool {
    x_at = params.x_base + batch * params.x_batch;
    weight_at = 0u;
    addend_at = params.addend_base;
    out_at = params.out_base + batch * params.out_batch;
    if params.rank > 0u {
        let d = params.dims;
        let x = params.x_strides;
        let w = params.weight_strides;
        let a = params.addend_strides;
        var rest = params.first_batch + batch;
        rest = along(rest, d[0].x, x[0].x, w[0].x, a[0].x);
        rest = along(rest, d[0].y, x[0].y, w[0].y, a[0].y);
        if params.rank > 2u {
            rest = along(rest, d[0].z, x[0].z, w[0].z, a[0].z);
            rest = along(rest, d[0].w, x[0].w, w[0].w, a[0].w);
            rest = along(rest, d[1].x, x[1].x, w[1].x, a[1].x);
            rest = along(rest, d[1].y, x[1].y, w[1].y, a[1].y);
        }
    }
    return batch < params.batches;
}

// Loads past the end read the last element instead. Only values past the end of k must be set to 0.

fn before_end(k: u32) -> vec4<bool> {
    return vec4<u32>(k, k + 1u, k + 2u, k + 3u) < vec4<u32>(params.k);
}

fn x1(at: u32) -> f32 {
    return vec4<f32>(x[at]).x;
}

fn x4(row: u32, k: u32) -> vec4<f32> {
    if WIDE == 1u {
        return vec4<f32>(x[row / 4u + min(k, params.k - 1u) / 4u]);
    }
    let first = row + k * params.x_column;
    let last = row + (params.k - 1u) * params.x_column;
    let offsets = min(vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u) * params.x_column, vec4<u32>(last));
    return vec4<f32>(x1(offsets.x), x1(offsets.y), x1(offsets.z), x1(offsets.w));
}

// x[m, k..k + 4], for k a multiple of 4; 0 past the end of the row. A row past the last reads the last one.
fn activations(m: u32, k: u32) -> vec4<f32> {
    let values = x4(x_at + min(m, params.m - 1u) * params.x_row, k);
    if k + 4u <= params.k {
        return values;
    }
    return select(vec4<f32>(), values, before_end(k));
}

fn weight1(at: u32) -> f32 {
    return vec4<f32>(weight[at]).x;
}

// Four of a row of the weight that starts at `row` and has `end` elements.
fn weight4(row: u32, column: u32, end: u32) -> vec4<f32> {
    if WIDE_WEIGHT == 1u {
        return vec4<f32>(weight[row / 4u + min(column, end - 1u) / 4u]);
    }
    let offsets = min(vec4<u32>(row + column) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(row + end - 1u));
    return vec4<f32>(weight1(offsets.x), weight1(offsets.y), weight1(offsets.z), weight1(offsets.w));
}

// weight[n, k..k + 4] of a weight [n, k].
fn along_k(n: u32, k: u32) -> vec4<f32> {
    return weight4(weight_at + min(n, params.n - 1u) * params.k, k, params.k);
}

// weight[k, n..n + 4] of a weight [k, n].
fn along_n(n: u32, k: u32) -> vec4<f32> {
    return weight4(weight_at + min(k, params.k - 1u) * params.n, n, params.n);
}

fn stored_block(n: u32, k: u32) -> mat4x4<f32> {
    if TRANSPOSED == 1u {
        return transpose(mat4x4<f32>(along_k(n, k), along_k(n + 1u, k), along_k(n + 2u, k), along_k(n + 3u, k)));
    }
    return mat4x4<f32>(along_n(n, k), along_n(n, k + 1u), along_n(n, k + 2u), along_n(n, k + 3u));
}

// The weight at k..k + 4, four vectors along n; 0 past the end of k.
fn weight_block(n: u32, k: u32) -> mat4x4<f32> {
    let block = stored_block(n, k);
    if k + 4u <= params.k {
        return block;
    }
    let kept = before_end(k);
    return mat4x4<f32>(select(vec4<f32>(), block[0], kept.x), select(vec4<f32>(), block[1], kept.y),
                       select(vec4<f32>(), block[2], kept.z), select(vec4<f32>(), block[3], kept.w));
}

// Stores one element of the output. Without an addend another buffer is bound in its place and never read.
fn finish(m: u32, n: u32, product: f32) {
    var value = params.alpha * product;
    if params.has_addend == 1u {
        value += params.beta * addend[addend_at + m * params.addend_row + n * params.addend_column];
    }
    out[out_at + m * params.out_row + n * params.out_column] = value;
}
