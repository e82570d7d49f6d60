// GEMV: a workgroup of 64 threads computes ROWS rows by four columns. Threads share k (`accumulate`, which adds to `sums`),
// then a tree reduction in workgroup memory adds their sums.

// Rows of activations per workgroup.
override ROWS: u32 = 1u;
const MAX_ROWS: u32 = 8u;
const THREADS: u32 = 64u;

// A thread's sums of four outputs per row of activations.
var<private> sums: array<vec4<f32>, MAX_ROWS>;
var<workgroup> partials: array<vec4<f32>, THREADS * ROWS>;

// Adds the products of four activations with the weights of four columns.
fn add_products(sum: vec4<f32>, x: vec4<f32>, w0: vec4<f32>, w1: vec4<f32>, w2: vec4<f32>, w3: vec4<f32>) -> vec4<f32> {
    var total = sum;
    total += x.x * vec4<f32>(w0.x, w1.x, w2.x, w3.x);
    total += x.y * vec4<f32>(w0.y, w1.y, w2.y, w3.y);
    total += x.z * vec4<f32>(w0.z, w1.z, w2.z, w3.z);
    total += x.w * vec4<f32>(w0.w, w1.w, w2.w, w3.w);
    return total;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    // Neighbouring workgroups read the same weights.
    let index = group_index(group, groups);
    let tiles = (params.m + ROWS - 1u) / ROWS;
    let row = index % tiles * ROWS;
    let column = index / tiles * 4u;
    if column < params.n {
        accumulate(thread, row, column);
        for (var m = 0u; m < ROWS; m++) {
            partials[m * THREADS + thread] = sums[m];
        }
        for (var half = THREADS / 2u; half > 0u; half /= 2u) {
            workgroupBarrier();
            if thread < half {
                for (var m = 0u; m < ROWS; m++) {
                    partials[m * THREADS + thread] += partials[m * THREADS + thread + half];
                }
            }
        }
        workgroupBarrier();
        let m = row + thread / 4u;
        let n = column + thread % 4u;
        if thread < ROWS * 4u && m < params.m && n < params.n {
            finish(m, n, partials[thread / 4u * THREADS][thread % 4u]);
        }
    }
}
