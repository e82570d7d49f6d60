// What a gate lets through of many rows: silu(gate) · up, plus an addend where there is one. A workgroup computes 1,024
// numbers, a thread four that lie together.

//#include grid
//#include silu

struct Params {
    // Vectors of four numbers.
    count: u32,
    has_addend: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> gate: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> up: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> addend: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i < params.count {
        var value = silu(gate[i]) * up[i];
        if params.has_addend == 1u {
            value += addend[i];
        }
        out[i] = value;
    }
}
