// Copies new rows into a cache, from a position on. A workgroup of 256 threads copies 256 elements of T, one per thread.

//#include grid

struct Params {
    // The number of elements to copy, and a cache row's length, both counted in T.
    count: u32,
    row: u32,
    // Where this operator's words start in the per-step block. The first is the position.
    step_base: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> value: array<T>;
@group(0) @binding(2) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read_write> cache: array<T>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i < params.count {
        cache[step[params.step_base] * params.row + i] = value[i];
    }
}
