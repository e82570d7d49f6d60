// Rows of a table of 16-bit floats, by index, as 32-bit floats.
// A workgroup computes 256 elements of the output, a thread one. `float` is an element in the low half of a word.

//#include grid

struct Params {
    // Elements of the output, columns and rows of the table.
    count: u32,
    width: u32,
    rows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> weight: array<u32>;
@group(0) @binding(2) var<storage, read> indices: array<i32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    let row = min(u32(max(indices[i / params.width], 0)), params.rows - 1u);
    let at = row * params.width + i % params.width;
    out[i] = float(extractBits(weight[at / 2u], 16u * (at % 2u), 16u));
}
