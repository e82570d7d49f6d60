// Second pass of sampling: the best of all blocks of a row as an index, −1 if an element was NaN. One workgroup of 256 threads per row,
// with strided loads and a reduction in workgroup memory.

//#include grid
//#include argmax

struct Params {
    // Blocks per row, and rows.
    blocks: u32,
    rows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> block_best: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> out: array<i32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let place = group_index(group, groups);
    let row = min(place, params.rows - 1u);
    var best = vec2<u32>(0u, 0u);
    for (var block = thread; block < params.blocks; block += 256u) {
        best = argmax_of(best, block_best[row * params.blocks + block]);
    }
    best = workgroup_argmax(best, thread);
    if thread == 0u && place < params.rows {
        out[row] = select(i32(best.y), -1, best.x == NAN_KEY);
    }
}
