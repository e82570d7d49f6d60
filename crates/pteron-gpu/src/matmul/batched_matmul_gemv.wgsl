// Batched matmul, few rows: split-K GEMV. A workgroup of 256 threads computes up to eight rows by 4 · lanes columns of one
// batch. Threads form `lanes` lanes of four columns; the threads of a lane share k in 4 × 4 blocks of the weight. Adjacent
// threads load adjacent memory: lanes for a weight [k, n], threads of a lane for [n, k]. A tree reduction in workgroup memory
// adds the sums of a lane, row by row.

//#include grid
//#include batched_matmul

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read> weight: array<W>;
@group(0) @binding(3) var<storage, read> addend: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

// Rows per workgroup, up to eight.
override ROWS: u32 = 1u;
const THREADS: u32 = 256u;

var<workgroup> partials: array<vec4<f32>, THREADS>;

// A row times two blocks of the weight.
fn products(m: u32, k: u32, block: mat4x4<f32>, next_k: u32, next: mat4x4<f32>) -> vec4<f32> {
    return block * activations(m, k) + next * activations(m, next_k);
}

// Reduces the sums of each lane for a row, and stores them.
fn reduce_row(thread: u32, slot: u32, sum: vec4<f32>, m: u32, column: u32) {
    partials[slot] = sum;
    workgroupBarrier();
    for (var half = THREADS / 2u; half >= params.lanes; half /= 2u) {
        if thread < half {
            partials[thread] += partials[thread + half];
        }
        workgroupBarrier();
    }
    for (var i = thread; i < 4u * params.lanes; i += THREADS) {
        if m < params.m && column + i < params.n {
            finish(m, column + i, partials[i / 4u][i % 4u]);
        }
    }
    workgroupBarrier();
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let lanes = params.lanes;
    let splits = THREADS / lanes;
    var lane = thread % lanes;
    var split = thread / lanes;
    if TRANSPOSED == 1u {
        lane = thread / splits;
        split = thread % splits;
    }
    // Neighbouring workgroups read the same weights.
    let index = group_index(group, groups);
    let tiles = (params.m + ROWS - 1u) / ROWS;
    let tiles_across = (params.n + 4u * lanes - 1u) / (4u * lanes);
    let m = index % tiles * ROWS;
    let column = index / tiles % tiles_across * 4u * lanes;
    if enter_batch(index / tiles / tiles_across) {
        // Not an array: arrays spill to memory.
        var sum0 = vec4<f32>();
        var sum1 = vec4<f32>();
        var sum2 = vec4<f32>();
        var sum3 = vec4<f32>();
        var sum4 = vec4<f32>();
        var sum5 = vec4<f32>();
        var sum6 = vec4<f32>();
        var sum7 = vec4<f32>();
        // Two blocks at a time, for more loads in flight.
        for (var k = split * 4u; k < params.k; k += splits * 8u) {
            let next_k = k + splits * 4u;
            let block = weight_block(column + lane * 4u, k);
            let next = weight_block(column + lane * 4u, next_k);
            sum0 += products(m, k, block, next_k, next);
            if ROWS > 1u {
                sum1 += products(m + 1u, k, block, next_k, next);
            }
            if ROWS > 2u {
                sum2 += products(m + 2u, k, block, next_k, next);
                sum3 += products(m + 3u, k, block, next_k, next);
            }
            if ROWS > 4u {
                sum4 += products(m + 4u, k, block, next_k, next);
                sum5 += products(m + 5u, k, block, next_k, next);
                sum6 += products(m + 6u, k, block, next_k, next);
                sum7 += products(m + 7u, k, block, next_k, next);
            }
        }
        let slot = split * lanes + lane;
        reduce_row(thread, slot, sum0, m, column);
        if ROWS > 1u {
            reduce_row(thread, slot, sum1, m + 1u, column);
        }
        if ROWS > 2u {
            reduce_row(thread, slot, sum2, m + 2u, column);
            reduce_row(thread, slot, sum3, m + 3u, column);
        }
        if ROWS > 4u {
            reduce_row(thread, slot, sum4, m + 4u, column);
            reduce_row(thread, slot, sum5, m + 5u, column);
            reduce_row(thread, slot, sum6, m + 6u, column);
            reduce_row(thread, slot, sum7, m + 7u, column);
        }
    }
}
