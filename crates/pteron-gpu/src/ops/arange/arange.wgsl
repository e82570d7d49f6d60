// Evenly spaced numbers: first + i · step. A workgroup writes 256 elements, one per thread.

//#include grid

struct Params {
    count: u32,
    step_base: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// Two words: the first number and the step, as elements. Symbolic ones change from call to call.
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<T>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    out[i] = bitcast<T>(step[params.step_base]) + T(i) * bitcast<T>(step[params.step_base + 1u]);
}
