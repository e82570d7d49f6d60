// First pass of sampling from rows: argmax, or Gumbel-max sampling (argmax of scaled logits plus Gumbel noise). A
// workgroup of 256 threads scans one block of a row with strided loads, reduces in workgroup memory, and stores its best
// (key, index).

//#include grid
//#include argmax

struct Params {
    // Offset of the first row, length of a row, elements per block, blocks per row, and rows.
    start: u32,
    length: u32,
    block: u32,
    blocks: u32,
    rows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
// Per row: inverse temperature as a float, 0 for argmax (greedy); two words of seed; the index of the draw.
@group(0) @binding(2) var<storage, read> sampling: array<u32>;
@group(0) @binding(3) var<storage, read_write> block_best: array<vec2<u32>>;

const SAMPLING_WORDS: u32 = 4u;

fn hash(word: u32) -> u32 {
    var x = word;
    x = (x ^ (x >> 16u)) * 0x7feb352du;
    x = (x ^ (x >> 15u)) * 0x846ca68bu;
    return x ^ (x >> 16u);
}

// Gumbel noise: the argmax of logits plus such noise is a sample of their softmax.
fn gumbel_noise(row: u32, index: u32) -> f32 {
    let at = row * SAMPLING_WORDS;
    let bits = hash(sampling[at + 1u] ^ hash(sampling[at + 2u] ^ hash(sampling[at + 3u] ^ hash(index))));
    let uniform_number = (f32(bits >> 8u) + 0.5) / 16777216.0;
    return -log(-log(uniform_number));
}

fn value_of(row: u32, index: u32) -> f32 {
    let logit = logits[params.start + row * params.length + index];
    let scale = bitcast<f32>(sampling[row * SAMPLING_WORDS]);
    if scale == 0.0 || is_nan(logit) {
        return logit;
    }
    return logit * scale + gumbel_noise(row, index);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let place = group_index(group, groups);
    let row = min(place / params.blocks, params.rows - 1u);
    let block = place % params.blocks;
    let end = min((block + 1u) * params.block, params.length);
    var best = vec2<u32>(0u, 0u);
    for (var index = block * params.block + thread; index < end; index += 256u) {
        best = argmax_of(best, vec2<u32>(key_of(value_of(row, index)), index));
    }
    best = workgroup_argmax(best, thread);
    if thread == 0u && place < params.rows * params.blocks {
        block_best[place] = best;
    }
}
