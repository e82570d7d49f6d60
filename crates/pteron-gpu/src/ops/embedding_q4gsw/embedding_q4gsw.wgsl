// Rows of a table of 4-bit numbers, by index: each number is its nibble less 8, times its group's scale.
// A workgroup computes 256 elements of the output, a thread one. For rows or groups that are not whole words.

//#include grid

struct Params {
    // Elements of the output, elements in a row, rows of the table, elements a scale serves.
    count: u32,
    width: u32,
    rows: u32,
    group_size: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> weight: array<u32>;
@group(0) @binding(2) var<storage, read> scales: array<f32>;
@group(0) @binding(3) var<storage, read> indices: array<i32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

// 1: the high nibble of a byte is the even column; 0: the low one.
override HIGH_FIRST: u32 = 0u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    let column = i % params.width;
    let row = min(u32(max(indices[i / params.width], 0)), params.rows - 1u);
    let byte = row * (params.width / 2u) + column / 2u;
    let nibble = (column % 2u) ^ HIGH_FIRST;
    let value = (weight[byte / 4u] >> (8u * (byte % 4u) + 4u * nibble)) & 15u;
    let scale = scales[row * (params.width / params.group_size) + column / params.group_size];
    out[i] = (f32(value) - 8.0) * scale;
}
