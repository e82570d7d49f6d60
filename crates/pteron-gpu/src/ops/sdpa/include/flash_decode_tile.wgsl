// Split-KV decode of a tile of query rows; `sdpa_flash_decode_subgroups.wgsl` says how threads share it. The including kernel binds the
// tensors, and defines which rows and caches belong to a sequence.

const THREADS: u32 = {THREADS}u;
const SUBGROUP: u32 = {SUBGROUP}u;
const WHOLE: u32 = {WHOLE}u;
const THREADS_PER_KEY: u32 = {THREADS_PER_KEY}u;
// A thread's loads per key, and vectors per load.
const LOADS: u32 = {LOADS}u;
const KV_VECTORS: u32 = {KV_VECTORS}u;
const VECTORS: u32 = LOADS * KV_VECTORS;
const ROWS: u32 = {ROWS}u;
const UNROLL: u32 = {UNROLL}u;
const SUBGROUPS: u32 = THREADS / SUBGROUP;
const KEY_GROUPS: u32 = THREADS / THREADS_PER_KEY;
const STEP_KEYS: u32 = UNROLL * KEY_GROUPS;

var<workgroup> shared_sums: array<vec4<f32>, SUBGROUPS * ROWS * HEAD_VECTORS>;
// The row_max score and the row_sum of the weights.
var<workgroup> shared_max_sum: array<vec2<f32>, SUBGROUPS * ROWS>;

// A thread's vectors of each row.
var<private> queries: array<vec4<f32>, ROWS * VECTORS>;
var<private> sums: array<vec4<f32>, ROWS * VECTORS>;
var<private> row_max: array<f32, ROWS>;
var<private> row_sum: array<f32, ROWS>;
// A thread's elements of each key and value, as in the caches, of this step and the next.
var<private> keys: array<KV, UNROLL * LOADS>;
var<private> values: array<KV, UNROLL * LOADS>;
var<private> next_keys: array<KV, UNROLL * LOADS>;
var<private> next_values: array<KV, UNROLL * LOADS>;

// Loads the next keys and values of a thread group, from `key` on. Keys after `last` repeat it.
fn load_next(key: u32, last: u32, head: u32, member: u32) {
    for (var u = 0u; u < UNROLL; u++) {
        let at = cache_row(min(key + u * KEY_GROUPS, last), head) * (HEAD_VECTORS / KV_VECTORS) + member * LOADS;
        for (var i = 0u; i < LOADS; i++) {
            next_keys[u * LOADS + i] = k_cache[at + i];
        }
    }
    for (var u = 0u; u < UNROLL; u++) {
        let at = cache_row(min(key + u * KEY_GROUPS, last), head) * (HEAD_VECTORS / KV_VECTORS) + member * LOADS;
        for (var i = 0u; i < LOADS; i++) {
            next_values[u * LOADS + i] = v_cache[at + i];
        }
    }
}

fn load_queries(member: u32, head: u32, first: u32, position: u32) {
    for (var row = 0u; row < ROWS; row++) {
        let clamped_row = min(first + row, end_row() - 1u);
        for (var i = 0u; i < VECTORS; i++) {
            let query = rotated_query(head, clamped_row, member * VECTORS + i, position);
            queries[row * VECTORS + i] = query * (params.scale * LOG2_E);
        }
        row_max[row] = MASKED_SCORE;
    }
}

// Adds a score over the threads that share a key.
fn reduce_score(part: f32) -> f32 {
    var score = part;
    for (var distance = 1u; distance < THREADS_PER_KEY; distance *= 2u) {
        score += subgroupShuffleXor(score, distance);
    }
    return score;
}

// Raises the maximum of a row. Returns what to subtract from its scores: a row that has seen no key yet gets weights of 0.
fn raise_max(row: u32, high: f32) -> f32 {
    let rescale = exp2(row_max[row] - high);
    row_max[row] = high;
    row_sum[row] *= rescale;
    for (var i = 0u; i < VECTORS; i++) {
        sums[row * VECTORS + i] *= rescale;
    }
    return select(high, 0.0, high <= 0.5 * MASKED_SCORE);
}

// Accumulates the loaded keys and values, of which those from `end` on do not count. `key` is the thread group's first. Every row
// sees all of them.
fn accumulate_cached(key: u32, end: u32) {
    // Scores, then weights.
    var weights: array<f32, UNROLL * ROWS>;
    for (var u = 0u; u < UNROLL; u++) {
        for (var i = 0u; i < VECTORS; i++) {
            let vector = widen(keys[u * LOADS + i / KV_VECTORS], i % KV_VECTORS);
            for (var row = 0u; row < ROWS; row++) {
                weights[u * ROWS + row] += dot(queries[row * VECTORS + i], vector);
            }
        }
    }
    for (var row = 0u; row < ROWS; row++) {
        var high = row_max[row];
        for (var u = 0u; u < UNROLL; u++) {
            let score = reduce_score(weights[u * ROWS + row]);
            weights[u * ROWS + row] = select(MASKED_SCORE, score, key + u * KEY_GROUPS < end);
            high = max(high, weights[u * ROWS + row]);
        }
        let shift = raise_max(row, high);
        for (var u = 0u; u < UNROLL; u++) {
            weights[u * ROWS + row] = exp2(weights[u * ROWS + row] - shift);
            row_sum[row] += weights[u * ROWS + row];
        }
    }
    for (var u = 0u; u < UNROLL; u++) {
        for (var i = 0u; i < VECTORS; i++) {
            let vector = widen(values[u * LOADS + i / KV_VECTORS], i % KV_VECTORS);
            for (var row = 0u; row < ROWS; row++) {
                sums[row * VECTORS + i] += weights[u * ROWS + row] * vector;
            }
        }
    }
}

// Accumulates the key and the value of a new token, one per thread group.
fn accumulate_new(token: u32, member: u32, head: u32, first: u32, position: u32) {
    let clamped = min(token, new_tokens() - 1u);
    var scores: array<f32, ROWS>;
    var value: array<vec4<f32>, VECTORS>;
    for (var i = 0u; i < VECTORS; i++) {
        value[i] = new_value(clamped, head, member * VECTORS + i);
        let key = new_key(clamped, head, member * VECTORS + i, position);
        for (var row = 0u; row < ROWS; row++) {
            scores[row] += dot(queries[row * VECTORS + i], key);
        }
    }
    for (var row = 0u; row < ROWS; row++) {
        let last = select(new_tokens() - 1u, min(first + row, end_row() - 1u) / params.group - first_token(), params.causal == 1u);
        let score = select(MASKED_SCORE, reduce_score(scores[row]), token <= last);
        let weight = exp2(score - raise_max(row, max(row_max[row], score)));
        row_sum[row] += weight;
        for (var i = 0u; i < VECTORS; i++) {
            sums[row * VECTORS + i] += weight * value[i];
        }
    }
}

// Appends the new keys and values of a head to the caches.
fn append_new(thread: u32, head: u32, position: u32) {
    for (var i = thread; i < new_tokens() * (HEAD_VECTORS / KV_VECTORS); i += THREADS) {
        let token = i / (HEAD_VECTORS / KV_VECTORS);
        let element = i % (HEAD_VECTORS / KV_VECTORS);
        let at = cache_row(position + token, head) * (HEAD_VECTORS / KV_VECTORS) + element;
        let first = element * KV_VECTORS;
        let last = first + KV_VECTORS - 1u;
        k_cache[at] = narrow(new_key(token, head, first, position), new_key(token, head, last, position));
        v_cache[at] = narrow(new_value(token, head, first), new_value(token, head, last));
    }
}

// Merges a row over the thread groups of each cluster, into workgroup memory.
fn reduce_cluster(row: u32, cluster: u32, lane: u32) {
    var high = row_max[row];
    for (var distance = THREADS_PER_KEY; distance < SUBGROUP; distance *= 2u) {
        high = max(high, subgroupShuffleXor(high, distance));
    }
    let rescale = exp2(row_max[row] - high);
    var all = row_sum[row] * rescale;
    for (var distance = THREADS_PER_KEY; distance < SUBGROUP; distance *= 2u) {
        all += subgroupShuffleXor(all, distance);
    }
    if lane == 0u {
        shared_max_sum[cluster * ROWS + row] = vec2<f32>(high, all);
    }
    for (var i = 0u; i < VECTORS; i++) {
        var sum = sums[row * VECTORS + i] * rescale;
        for (var distance = THREADS_PER_KEY; distance < SUBGROUP; distance *= 2u) {
            sum += subgroupShuffleXor(sum, distance);
        }
        if lane < THREADS_PER_KEY {
            shared_sums[(cluster * ROWS + row) * HEAD_VECTORS + lane * VECTORS + i] = sum;
        }
    }
}

// Merges a vector of a row over the subgroups, and stores it.
fn store_vector(local: u32, lane: u32, head: u32, row: u32, split: u32, splits: u32) {
    var high = MASKED_SCORE;
    for (var i = local; i < SUBGROUPS * ROWS; i += ROWS) {
        high = max(high, shared_max_sum[i].x);
    }
    var sum = vec4<f32>();
    var all = 0.0;
    for (var i = local; i < SUBGROUPS * ROWS; i += ROWS) {
        let max_sum = shared_max_sum[i];
        let weight = exp2(max_sum.x - high);
        sum += weight * shared_sums[i * HEAD_VECTORS + lane];
        all += weight * max_sum.y;
    }
    if splits > 1u {
        let at = (partial_row(head, row) * splits + split) * (HEAD_VECTORS + 1u);
        out[at + lane] = sum;
        if lane == 0u {
            out[at + HEAD_VECTORS] = vec4<f32>(high * LN_2, all, 0.0, 0.0);
        }
    } else {
        out[query_at(head, row) + lane] = sum / all;
    }
}

// Computes the rows of a tile from `first` on, over the cached keys from `begin` to `end`, and with the last split over the new `tokens`. Where no
// key is cached, `free_position` is loaded instead and not used.
fn decode_tile(thread: u32, head: u32, first: u32, split: u32, splits: u32, begin: u32, end: u32, position: u32, free_position: u32,
               tokens: u32, appends: bool) {
    let key_group = thread / THREADS_PER_KEY;
    let member = thread % THREADS_PER_KEY;
    // Unconditionally: after a branch, threads would wait for the loads. Where no key is cached, nothing uses them, and they are of
    // a position that no workgroup appends.
    let last = select(end - 1u, free_position, end == 0u);
    load_next(begin + key_group, last, head, member);
    load_queries(member, head, first, position);
    if split + 1u == splits {
        for (var token = 0u; token < tokens; token += KEY_GROUPS) {
            accumulate_new(token + key_group, member, head, first, position);
        }
    }
    for (var start = begin; start < end; start += STEP_KEYS) {
        keys = next_keys;
        values = next_values;
        if start + STEP_KEYS < end {
            load_next(start + STEP_KEYS + key_group, last, head, member);
        }
        accumulate_cached(start + key_group, end);
    }
    if appends {
        append_new(thread, head, position);
    }
    for (var row = 0u; row < ROWS; row++) {
        reduce_cluster(row, thread / SUBGROUP, thread % SUBGROUP);
    }
    workgroupBarrier();
    for (var i = thread; i < ROWS * HEAD_VECTORS; i += THREADS) {
        let row = first + i / HEAD_VECTORS;
        if row < end_row() {
            store_vector(i / HEAD_VECTORS, i % HEAD_VECTORS, head, row, split, splits);
        }
    }
}
