// Copies new rows of each batch into a cache, from a position on or by index. A workgroup of 256 threads copies 256 words, one per
// thread.

//#include grid

struct Params {
    // Words to copy, and words in a row.
    count: u32,
    row: u32,
    // New rows and rows of the cache, per batch.
    tokens: u32,
    length: u32,
    // Where this operator's words start in the per-step block. The first is the position.
    step_base: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> value: array<u32>;
@group(0) @binding(2) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read> indices: array<i32>;
@group(0) @binding(4) var<storage, read_write> cache: array<u32>;

// 1: rows go where the indices say. 0: from the position on.
override INDEXED: u32 = 0u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    let token = i / params.row;
    var at = step[params.step_base] + token % params.tokens;
    if INDEXED == 1u {
        at = u32(max(indices[token], 0));
    }
    at = min(at, params.length - 1u);
    cache[(token / params.tokens * params.length + at) * params.row + i % params.row] = value[i];
}
