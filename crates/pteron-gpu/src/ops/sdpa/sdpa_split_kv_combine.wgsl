// Combines the partial results of the splits of a row. A workgroup of 256 threads computes one row: a thread merges every n-th
// split of one vector, rescaled to the running maximum, then one thread per vector merges those in workgroup memory after one
// barrier.

//#include grid
//#include flash_params

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> partials: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;

//#include flash_combine

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let row = group_index(group, groups);
    if row < params.heads * params.rows {
        combine_row(thread, row, step[params.step_base + 2u], query_at(row / params.rows, row % params.rows));
    }
}
