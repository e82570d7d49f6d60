// SwiGLU after a GEMM: silu(gate) · up, plus an addend. A workgroup of 256 threads computes 256 vectors of four, one per thread.

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
