// Rotary embedding of interleaved pairs (x[2i], x[2i + 1]) in every head of queries and keys (GPT-J and Meta layout). A
// workgroup of 256 threads rotates 256 pairs, one per thread; the keys' pairs follow the queries'.

//#include grid
//#include rotate_pair

struct Params {
    // Pairs in a head, and tokens: the extents of the tables.
    pairs: u32,
    tokens: u32,
    q_heads: u32,
    k_heads: u32,
    // Pairs of the queries, and of both.
    q_count: u32,
    count: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> xq: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> xk: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read> freqs_cos: array<f32>;
@group(0) @binding(4) var<storage, read> freqs_sin: array<f32>;
@group(0) @binding(5) var<storage, read_write> xq_out: array<vec2<f32>>;
@group(0) @binding(6) var<storage, read_write> xk_out: array<vec2<f32>>;

fn rotate(x: vec2<f32>, i: u32, heads: u32) -> vec2<f32> {
    let token = i / params.pairs / heads % params.tokens;
    let at = token * params.pairs + i % params.pairs;
    return rotate_pair(x, freqs_cos[at], freqs_sin[at]);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i < params.q_count {
        xq_out[i] = rotate(xq[i], i, params.q_heads);
    } else if i < params.count {
        let k = i - params.q_count;
        xk_out[k] = rotate(xk[k], k, params.k_heads);
    }
}
