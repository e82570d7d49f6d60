// Attention of one query and head per workgroup, with an optional mask. 256 threads take 256 keys at a time: each computes the score of
// one key from the query in workgroup memory; the scores' maximum and sum are combined in workgroup memory (online softmax); then each
// thread accumulates up to four elements of the head over the 256 values.

//#include grid

struct Params {
    // Queries of all heads and batches, and queries and heads per batch.
    rows: u32,
    queries: u32,
    heads: u32,
    // Heads that share keys and values.
    sharing: u32,
    dim: u32,
    // Strides of tokens, heads and batches in queries and in keys.
    q_row: u32,
    q_head: u32,
    q_batch: u32,
    k_row: u32,
    k_head: u32,
    k_batch: u32,
    // The length of a row of the mask.
    mask_row: u32,
    causal: u32,
    scale: f32,
    // Where this operator's words start in the per-step block: the position of the first query, and the number of keys.
    step_base: u32,
    // The lowest finite float, below which no maximum is.
    lowest: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<f32>;
@group(0) @binding(2) var<storage, read> k: array<f32>;
@group(0) @binding(3) var<storage, read> v: array<f32>;
@group(0) @binding(4) var<storage, read> mask: array<f32>;
@group(0) @binding(5) var<storage, read> step: array<u32>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;

// 1: the mask is added to the scores.
override MASKED: u32 = 0u;

const THREADS: u32 = 256u;
const LONGEST: u32 = 1024u;
var<workgroup> query: array<f32, LONGEST>;
var<workgroup> weights: array<f32, THREADS>;
var<workgroup> partials: array<f32, THREADS>;
var<workgroup> end_of_keys: u32;

fn workgroup_maximum(thread: u32, own: f32) -> f32 {
    partials[thread] = own;
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if thread < half {
            partials[thread] = max(partials[thread], partials[thread + half]);
        }
    }
    workgroupBarrier();
    let all = partials[0];
    workgroupBarrier();
    return all;
}

fn workgroup_sum(thread: u32, own: f32) -> f32 {
    partials[thread] = own;
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if thread < half {
            partials[thread] += partials[thread + half];
        }
    }
    workgroupBarrier();
    let all = partials[0];
    workgroupBarrier();
    return all;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    // Workgroups past the last row repeat it without storing: barriers need all threads.
    let index = group_index(group, groups);
    let row = min(index, params.rows - 1u);
    let batch = row / (params.queries * params.heads);
    let token = row / params.heads % params.queries;
    let head = row % params.heads;
    let q_first = batch * params.q_batch + token * params.q_row + head * params.q_head;
    let k_first = batch * params.k_batch + head / params.sharing * params.k_head;
    if thread == 0u {
        let keys = step[params.step_base + 1u];
        let seen = step[params.step_base] + token + 1u;
        end_of_keys = select(keys, min(keys, seen), params.causal == 1u);
    }
    for (var d = thread; d < params.dim; d += THREADS) {
        query[d] = q[q_first + d];
    }
    let end = workgroupUniformLoad(&end_of_keys);
    var highest = params.lowest;
    var sum = 0.0;
    var accumulated = vec4<f32>();
    for (var start = 0u; start < end; start += THREADS) {
        let key = start + thread;
        var score = params.lowest;
        if key < end {
            var dot = 0.0;
            let at = k_first + key * params.k_row;
            for (var d = 0u; d < params.dim; d++) {
                dot += query[d] * k[at + d];
            }
            score = dot * params.scale;
            if MASKED == 1u {
                // Minus infinity becomes the lowest float, whose exponential is 0.
                score = max(score + mask[token * params.mask_row + key], params.lowest);
            }
        }
        let high = max(highest, workgroup_maximum(thread, score));
        let weight = select(0.0, exp(score - high), key < end);
        weights[thread] = weight;
        // The barriers of the sum also order the weights.
        let added = workgroup_sum(thread, weight);
        let kept = exp(highest - high);
        sum = sum * kept + added;
        highest = high;
        accumulated *= kept;
        let count = min(THREADS, end - start);
        for (var j = 0u; j < count; j++) {
            let at = k_first + (start + j) * params.k_row;
            for (var part = 0u; part < 4u; part++) {
                let d = thread + part * THREADS;
                if d < params.dim {
                    accumulated[part] += weights[j] * v[at + d];
                }
            }
        }
        workgroupBarrier();
    }
    if index == row {
        for (var part = 0u; part < 4u; part++) {
            let d = thread + part * THREADS;
            if d < params.dim {
                out[q_first + d] = accumulated[part] / sum;
            }
        }
    }
}
