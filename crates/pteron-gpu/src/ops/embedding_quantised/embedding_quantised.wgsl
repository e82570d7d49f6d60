// Rows of a table of integers, by index: each integer less its zero point, times its scale.
// A workgroup computes 256 elements of the output, a thread one. `integer` is a column of a byte, `zero_point` that of a group.

//#include grid

struct Params {
    // Elements of the output, columns and rows of the table, groups of columns that have a scale.
    count: u32,
    width: u32,
    rows: u32,
    groups: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> weight: array<u32>;
@group(0) @binding(2) var<storage, read> scales: array<f32>;
@group(0) @binding(3) var<storage, read> zero_points: array<Z>;
@group(0) @binding(4) var<storage, read> indices: array<i32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

// Columns in a byte.
override PER_BYTE: u32 = 1u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    let column = i % params.width;
    let row = min(u32(max(indices[i / params.width], 0)), params.rows - 1u);
    let at = row * (params.width / PER_BYTE) + column / PER_BYTE;
    let byte = extractBits(weight[at / 4u], 8u * (at % 4u), 8u);
    let scaled_by = row * params.groups + column / (params.width / params.groups);
    out[i] = (integer(byte, column) - zero_point(scaled_by)) * scales[scaled_by];
}
