// Rotary embedding of interleaved pairs (x[2i], x[2i + 1]) by complex numbers cos + i·sin (`freqs_cis`). A workgroup of 256
// threads rotates 256 pairs, one per thread.

//#include grid
//#include rotate_pair

struct Params {
    // Pairs of all tokens, and of all batches.
    token_pairs: u32,
    count: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> freqs_cis: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read_write> out: array<vec2<f32>>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i < params.count {
        let angle = freqs_cis[i % params.token_pairs];
        out[i] = rotate_pair(x[i], angle.x, angle.y);
    }
}
