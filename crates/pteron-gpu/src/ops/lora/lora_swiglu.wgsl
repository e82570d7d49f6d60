// SwiGLU of rows without adapters: silu(gate) · up. A workgroup of 256 threads computes 256 elements, one per thread.

//#include grid
//#include lora_silu

struct Params {
    count: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> gate: array<f32>;
@group(0) @binding(2) var<storage, read> up: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i < params.count {
        out[i] = silu(gate[i]) * up[i];
    }
}
