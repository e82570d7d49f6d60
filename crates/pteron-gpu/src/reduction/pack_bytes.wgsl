// Packs one byte of each word, four per word. A workgroup of 256 threads stores 256 words, one per thread.

//#include grid

struct Params {
    // Words to pack.
    count: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> words: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i > (params.count - 1u) / 4u {
        return;
    }
    var bytes = 0u;
    for (var lane = 0u; lane < min(4u, params.count - 4u * i); lane++) {
        bytes |= (words[4u * i + lane] & 0xffu) << (8u * lane);
    }
    out[i] = bytes;
}
