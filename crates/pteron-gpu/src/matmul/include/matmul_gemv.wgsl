// A few rows of activations times four rows of weights in a workgroup. Its 64 threads share k among them (`gather`, which
// adds into `sums`), and then add up what they have in workgroup memory, pair by pair.

// Rows of activations that a workgroup holds.
override ROWS: u32 = 1u;
const MAX_ROWS: u32 = 8u;
const LANES: u32 = 64u;

// For each row of activations what this thread has of four outputs.
var<private> sums: array<vec4<f32>, MAX_ROWS>;
var<workgroup> parts: array<vec4<f32>, LANES * ROWS>;

// Adds the products of four activations with those of four rows of weights.
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
    // Neighbours read the same weights.
    let index = group_index(group, groups);
    let tiles = (params.m + ROWS - 1u) / ROWS;
    let row = index % tiles * ROWS;
    let column = index / tiles * 4u;
    if column < params.n {
        gather(thread, row, column);
        for (var m = 0u; m < ROWS; m++) {
            parts[m * LANES + thread] = sums[m];
        }
        for (var half = LANES / 2u; half > 0u; half /= 2u) {
            workgroupBarrier();
            if thread < half {
                for (var m = 0u; m < ROWS; m++) {
                    parts[m * LANES + thread] += parts[m * LANES + thread + half];
                }
            }
        }
        workgroupBarrier();
        let m = row + thread / 4u;
        let n = column + thread % 4u;
        if thread < ROWS * 4u && m < params.m && n < params.n {
            finish(m, n, parts[thread / 4u * LANES][thread % 4u]);
        }
    }
}
