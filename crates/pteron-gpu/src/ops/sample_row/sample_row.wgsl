// First pass of sampling from the last row: argmax, or Gumbel-max sampling (argmax of scaled logits plus Gumbel noise). A
// workgroup of 256 threads scans one block of the row with strided loads, reduces in workgroup memory, and stores its best
// (key, index).

//#include grid
//#include argmax

struct Params {
    // Offset and length of the row, elements per block, and blocks.
    start: u32,
    length: u32,
    block: u32,
    blocks: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
// Inverse temperature as a float, 0 for argmax (greedy); two words of seed; the index of the draw.
@group(0) @binding(2) var<storage, read> sampling: array<u32>;
@group(0) @binding(3) var<storage, read_write> block_best: array<vec2<u32>>;

fn hash(word: u32) -> u32 {
    var x = word;
    x = (x ^ (x >> 16u)) * 0x7feb352du;
    x = (x ^ (x >> 15u)) * 0x846ca68bu;
    return x ^ (x >> 16u);
}

// Gumbel noise: the argmax of logits plus such noise is a sample of their softmax.
fn gumbel_noise(index: u32) -> f32 {
    let bits = hash(sampling[1] ^ hash(sampling[2] ^ hash(sampling[3] ^ hash(index))));
    let uniform_number = (f32(bits >> 8u) + 0.5) / 16777216.0;
    return -log(-log(uniform_number));
}

fn value_of(index: u32) -> f32 {
    let logit = logits[params.start + index];
    let scale = bitcast<f32>(sampling[0]);
    if scale == 0.0 || is_nan(logit) {
        return logit;
    }
    return logit * scale + gumbel_noise(index);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let block = group_index(group, groups);
    let end = min((block + 1u) * params.block, params.length);
    var best = vec2<u32>(0u, 0u);
    for (var index = block * params.block + thread; index < end; index += 256u) {
        best = argmax_of(best, vec2<u32>(key_of(value_of(index)), index));
    }
    best = workgroup_argmax(best, thread);
    if thread == 0u && block < params.blocks {
        block_best[block] = best;
    }
}
