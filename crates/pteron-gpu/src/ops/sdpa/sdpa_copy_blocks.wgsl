// Copies blocks of the pools, for copy-on-write. A workgroup of 64 threads copies 64 vectors of keys and values, one of each per thread.

//#include grid

struct Params {
    // Vectors of a block, and copies.
    block_vectors: u32,
    copies: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// Pairs of source and destination. No destination is a source.
@group(0) @binding(1) var<storage, read> copies: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> k_cache: array<KV>;
@group(0) @binding(3) var<storage, read_write> v_cache: array<KV>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let at = group_index(group, groups) * 64u + thread;
    let copy = at / params.block_vectors;
    if copy < params.copies {
        let blocks = copies[copy];
        let vector = at % params.block_vectors;
        k_cache[blocks.y * params.block_vectors + vector] = k_cache[blocks.x * params.block_vectors + vector];
        v_cache[blocks.y * params.block_vectors + vector] = v_cache[blocks.x * params.block_vectors + vector];
    }
}
