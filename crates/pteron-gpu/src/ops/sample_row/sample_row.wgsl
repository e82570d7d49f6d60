// The best of some thousand logits, the last row of them: the greatest, or the greatest after noise that makes it a sample.
// A workgroup looks through one part of the row, its threads side by side, and writes what it found.

//#include grid
//#include argmax

struct Params {
    // Where the row starts, how long it is, and how much of it is one part.
    start: u32,
    length: u32,
    part: u32,
    parts: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
// One over the temperature, as a float, 0 for the greatest alone; a seed of two words; a number that differs from draw to draw.
@group(0) @binding(2) var<storage, read> sampling: array<u32>;
@group(0) @binding(3) var<storage, read_write> found: array<vec2<u32>>;

fn mixed(word: u32) -> u32 {
    var x = word;
    x = (x ^ (x >> 16u)) * 0x7feb352du;
    x = (x ^ (x >> 15u)) * 0x846ca68bu;
    return x ^ (x >> 16u);
}

// The greatest of logits with such noise added is a sample from their softmax.
fn noise(token: u32) -> f32 {
    let bits = mixed(sampling[1] ^ mixed(sampling[2] ^ mixed(sampling[3] ^ mixed(token))));
    let uniform_number = (f32(bits >> 8u) + 0.5) / 16777216.0;
    return -log(-log(uniform_number));
}

fn value_of(token: u32) -> f32 {
    let logit = logits[params.start + token];
    let scale = bitcast<f32>(sampling[0]);
    if scale == 0.0 || is_nan(logit) {
        return logit;
    }
    return logit * scale + noise(token);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let part = group_index(group, groups);
    let end = min((part + 1u) * params.part, params.length);
    var best = vec2<u32>(0u, 0u);
    for (var token = part * params.part + thread; token < end; token += 256u) {
        best = better(best, vec2<u32>(key_of(value_of(token)), token));
    }
    best = best_of_workgroup(best, thread);
    if thread == 0u && part < params.parts {
        found[part] = best;
    }
}
