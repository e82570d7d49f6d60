// Fills a tensor with one number. A workgroup writes 1024 words, four per thread.

//#include grid

struct Params {
    // Vectors of four words to write.
    count: u32,
    step_base: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// One word: the number as an element, repeated four times if it is a byte. A symbolic number changes from call to call.
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<u32>>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    out[i] = vec4<u32>(step[params.step_base]);
}
