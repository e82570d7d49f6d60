// Split-KV decode with subgroups of one size. A workgroup of THREADS threads computes ROWS query rows of one KV head over one
// split of the context. THREADS_PER_KEY threads of a subgroup share a key: each holds VECTORS vectors of ROWS queries in
// registers, loads as many of UNROLL keys and values per step, and reduces scores by subgroup shuffles. Every group of threads
// has its own online softmax state; the states are merged at the end, first within the subgroup, then in workgroup memory
// after one barrier.
//
// With several splits the output is a partial result per row: the unnormalised sum, then a vector with the row's maximum and
// sum, for `sdpa_split_kv_combine`.
//
// New keys and values are read from the inputs, and the workgroup with a head's first rows and last split appends them to the
// caches. No other workgroup of the dispatch reads those rows of the caches.

//#include grid
//#include flash_params
//#include flash_new_kv

const THREADS: u32 = {THREADS}u;
const SUBGROUP: u32 = {SUBGROUP}u;
const THREADS_PER_KEY: u32 = {THREADS_PER_KEY}u;
const VECTORS: u32 = {VECTORS}u;
const ROWS: u32 = {ROWS}u;
const UNROLL: u32 = {UNROLL}u;
const SUBGROUPS: u32 = THREADS / SUBGROUP;
const KEY_GROUPS: u32 = THREADS / THREADS_PER_KEY;

var<workgroup> shared_sums: array<vec4<f32>, SUBGROUPS * ROWS * HEAD_VECTORS>;
// The row_max score and the row_sum of the weights.
var<workgroup> shared_max_sum: array<vec2<f32>, SUBGROUPS * ROWS>;

// A thread's vectors of each row.
var<private> queries: array<vec4<f32>, ROWS * VECTORS>;
var<private> sums: array<vec4<f32>, ROWS * VECTORS>;
var<private> row_max: array<f32, ROWS>;
var<private> row_sum: array<f32, ROWS>;
// The end of the keys that a row sees.
var<private> visible_end: array<u32, ROWS>;
// A thread's vectors of each key and value.
var<private> keys: array<vec4<f32>, UNROLL * VECTORS>;
var<private> values: array<vec4<f32>, UNROLL * VECTORS>;

fn load_queries(member: u32, head: u32, first: u32, position: u32, context: u32) {
    for (var row = 0u; row < ROWS; row++) {
        let clamped_row = min(first + row, params.rows - 1u);
        for (var i = 0u; i < VECTORS; i++) {
            let lane = member + i * THREADS_PER_KEY;
            var query = q[query_at(head, clamped_row) + lane];
            if ROTATED == 1u {
                let angle = (position + clamped_row / params.group) * HEAD_VECTORS + lane;
                query = rotate_pairs(query, rope_table[angle], rope_table[params.sin_offset + angle]);
            }
            queries[row * VECTORS + i] = query * (params.scale * LOG2_E);
        }
        row_max[row] = MASKED_SCORE;
        visible_end[row] = visible_keys(clamped_row, position, context);
    }
}

// Loads the keys and values of a thread group, from key `start` on. Keys past the end repeat the last.
fn load(key_group: u32, member: u32, head: u32, start: u32, end: u32, position: u32) {
    if start < position {
        for (var u = 0u; u < UNROLL; u++) {
            let at = (min(start + u * KEY_GROUPS + key_group, position - 1u) * params.heads + head) * HEAD_VECTORS + member;
            for (var i = 0u; i < VECTORS; i++) {
                keys[u * VECTORS + i] = vec4<f32>(k_cache[at + i * THREADS_PER_KEY]);
                values[u * VECTORS + i] = vec4<f32>(v_cache[at + i * THREADS_PER_KEY]);
            }
        }
    }
    if start + UNROLL * KEY_GROUPS > position {
        for (var u = 0u; u < UNROLL; u++) {
            let at = min(start + u * KEY_GROUPS + key_group, end - 1u);
            if at >= position {
                for (var i = 0u; i < VECTORS; i++) {
                    keys[u * VECTORS + i] = new_key(at - position, head, member + i * THREADS_PER_KEY, position);
                    values[u * VECTORS + i] = new_value(at - position, head, member + i * THREADS_PER_KEY);
                }
            }
        }
    }
}

// Accumulates the loaded keys and values into a row. `at` is the thread group's first key.
fn accumulate(row: u32, at: u32, end: u32) {
    var scores: array<f32, UNROLL>;
    var high = row_max[row];
    for (var u = 0u; u < UNROLL; u++) {
        var score = 0.0;
        for (var i = 0u; i < VECTORS; i++) {
            score += dot(queries[row * VECTORS + i], keys[u * VECTORS + i]);
        }
        for (var distance = 1u; distance < THREADS_PER_KEY; distance *= 2u) {
            score += subgroupShuffleXor(score, distance);
        }
        scores[u] = select(MASKED_SCORE, score, at + u * KEY_GROUPS < min(visible_end[row], end));
        high = max(high, scores[u]);
    }
    let rescale = exp2(row_max[row] - high);
    row_max[row] = high;
    // A row that has seen no key yet gets weights of 0.
    let shift = select(high, 0.0, high <= 0.5 * MASKED_SCORE);
    row_sum[row] *= rescale;
    for (var i = 0u; i < VECTORS; i++) {
        sums[row * VECTORS + i] *= rescale;
    }
    for (var u = 0u; u < UNROLL; u++) {
        let weight = exp2(scores[u] - shift);
        row_sum[row] += weight;
        for (var i = 0u; i < VECTORS; i++) {
            sums[row * VECTORS + i] += weight * values[u * VECTORS + i];
        }
    }
}

// Merges a row over the thread groups of each subgroup, into workgroup memory.
fn reduce_subgroup(row: u32, subgroup: u32, lane: u32) {
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
        shared_max_sum[subgroup * ROWS + row] = vec2<f32>(high, all);
    }
    for (var i = 0u; i < VECTORS; i++) {
        var sum = sums[row * VECTORS + i] * rescale;
        for (var distance = THREADS_PER_KEY; distance < SUBGROUP; distance *= 2u) {
            sum += subgroupShuffleXor(sum, distance);
        }
        if lane < THREADS_PER_KEY {
            shared_sums[(subgroup * ROWS + row) * HEAD_VECTORS + lane + i * THREADS_PER_KEY] = sum;
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
        let at = ((head * params.rows + row) * splits + split) * (HEAD_VECTORS + 1u);
        out[at + lane] = sum;
        if lane == 0u {
            out[at + HEAD_VECTORS] = vec4<f32>(high * LN_2, all, 0.0, 0.0);
        }
    } else {
        out[query_at(head, row) + lane] = sum / all;
    }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) lane: u32) {
    let index = group_index(group, groups);
    let position = step[params.step_base];
    let context = step[params.step_base + 1u];
    let splits = step[params.step_base + 2u];
    let split_keys = step[params.step_base + 3u];
    let tiles = (params.rows + ROWS - 1u) / ROWS;
    // Neighbouring workgroups take neighbouring heads, which are adjacent in the caches.
    let head = index % params.heads;
    let first = index / params.heads % tiles * ROWS;
    let split = index / params.heads / tiles;
    if split < splits {
        let thread = subgroup * SUBGROUP + lane;
        let key_group = thread / THREADS_PER_KEY;
        let member = thread % THREADS_PER_KEY;
        let end = min((split + 1u) * split_keys, visible_keys(first + ROWS - 1u, position, context));
        load_queries(member, head, first, position, context);
        for (var start = split * split_keys; start < end; start += UNROLL * KEY_GROUPS) {
            load(key_group, member, head, start, end, position);
            for (var row = 0u; row < ROWS; row++) {
                accumulate(row, start + key_group, end);
            }
        }
        if first == 0u && split + 1u == splits {
            append_new(thread, head, position);
        }
        for (var row = 0u; row < ROWS; row++) {
            reduce_subgroup(row, subgroup, lane);
        }
        workgroupBarrier();
        for (var i = thread; i < ROWS * HEAD_VECTORS; i += THREADS) {
            let row = first + i / HEAD_VECTORS;
            if row < params.rows {
                store_vector(i / HEAD_VECTORS, i % HEAD_VECTORS, head, row, split, splits);
            }
        }
    }
}
