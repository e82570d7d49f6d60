// Rows of signed bytes as floats: each less its row's zero point, times its scale. A workgroup of 256 threads converts 256 elements, one
// per thread.

//#include grid

struct Params {
    // Elements, and elements of a row.
    count: u32,
    dim: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<i32>;
@group(0) @binding(2) var<storage, read> zero_points: array<Z>;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    let row = i / params.dim;
    // A signed word extends the sign of its bytes.
    let value = f32(extractBits(x[i / 4u], 8u * (i % 4u), 8u));
    out[i] = (value - zero_point(row)) * scales[row];
}
