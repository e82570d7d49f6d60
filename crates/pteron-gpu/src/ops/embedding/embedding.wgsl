// Rows of a table, by index.
// A workgroup writes 256 items (one number, or four that lie together) of the output, a thread one.

//#include grid

struct Params {
    // Items to write, items in a row of the table, and its rows.
    count: u32,
    items: u32,
    rows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> weight: array<T>;
@group(0) @binding(2) var<storage, read> indices: array<i32>;
@group(0) @binding(3) var<storage, read_write> out: array<T>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    let row = min(u32(max(indices[i / params.items], 0)), params.rows - 1u);
    out[i] = weight[row * params.items + i % params.items];
}
