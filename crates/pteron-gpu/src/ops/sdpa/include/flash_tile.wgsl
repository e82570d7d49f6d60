// Flash attention of a tile of query rows; `sdpa_flash.wgsl` says how threads share it. The including kernel binds the tensors, and
// defines which rows and caches belong to a sequence.

// Query rows of a workgroup, a multiple of 4, and keys per tile.
override ROWS: u32 = 4u;
override KEYS: u32 = 128u;
// QKᵀ tile of a thread: 4 or 8 rows, and 1 key, or 2 with 4 rows.
override QUERY_ROWS: u32 = 4u;
override QUERY_KEYS: u32 = 1u;
// Rows per thread in AV, 4 or 8.
override VALUE_ROWS: u32 = 4u;
// 1: the kernel appends new keys and values to the caches; QUERY_KEYS is 1 then.
override APPEND_KV: u32 = 0u;

const THREADS: u32 = 128u;

var<workgroup> queries: array<vec4<f32>, ROWS * HEAD_VECTORS>;
// Scores, then softmax weights: vectors of four rows, by key.
var<workgroup> weights: array<vec4<f32>, ROWS / 4u * KEYS>;
var<workgroup> row_partials: array<f32, THREADS>;
var<workgroup> sums: array<vec4<f32>, THREADS>;
var<workgroup> row_max: array<f32, ROWS>;
var<workgroup> row_sum: array<f32, ROWS>;
// The factor that rescales earlier sums.
var<workgroup> rescales: array<f32, ROWS>;

fn load_queries(thread: u32, head: u32, first: u32, position: u32) {
    for (var i = thread; i < ROWS * HEAD_VECTORS; i += THREADS) {
        let row = min(first + i / HEAD_VECTORS, end_row() - 1u);
        queries[i] = rotated_query(head, row, i % HEAD_VECTORS, position) * params.scale;
    }
    if thread < ROWS {
        row_max[thread] = MASKED_SCORE;
        row_sum[thread] = 0.0;
    }
}

// A vector of the value at a key's position.
fn value_at(at: u32, head: u32, vector: u32, position: u32) -> vec4<f32> {
    if APPEND_KV == 1u && at >= position {
        return new_value(at - position, head, vector);
    }
    return vec4<f32>(v_cache[cache_row(at, head) * HEAD_VECTORS + vector]);
}

// Partial dot products of four rows with one vector of a key.
fn four_scores(row: u32, vector: u32, key: vec4<f32>) -> vec4<f32> {
    let at = row * HEAD_VECTORS + vector;
    return vec4<f32>(dot(queries[at], key), dot(queries[at + HEAD_VECTORS], key),
                     dot(queries[at + 2u * HEAD_VECTORS], key), dot(queries[at + 3u * HEAD_VECTORS], key));
}

// Masks the scores of keys that a row does not see.
fn masked(scores: vec4<f32>, key: u32, row: u32, position: u32, context: u32) -> vec4<f32> {
    let sees = vec4<u32>(visible_keys(row, position, context), visible_keys(row + 1u, position, context),
                         visible_keys(row + 2u, position, context), visible_keys(row + 3u, position, context));
    return select(vec4<f32>(MASKED_SCORE), scores, vec4<u32>(key) < sees);
}

// QKᵀ for the tile of keys from `start` on. `end` is the end of the keys that the last row sees.
fn score(thread: u32, head: u32, first: u32, start: u32, end: u32, position: u32, context: u32) {
    let row_groups = KEYS / QUERY_KEYS;
    let row = thread / row_groups * QUERY_ROWS;
    let key = thread % row_groups;
    let own = min(start + key, end - 1u);
    let at = cache_row(own, head) * HEAD_VECTORS;
    let second_at = cache_row(min(start + key + row_groups, end - 1u), head) * HEAD_VECTORS;
    var scores = vec4<f32>();
    var others = vec4<f32>();
    if APPEND_KV == 1u && own >= position {
        for (var vector = 0u; vector < HEAD_VECTORS; vector++) {
            let key_vector = new_key(own - position, head, vector, position);
            scores += four_scores(row, vector, key_vector);
            if QUERY_ROWS == 8u {
                others += four_scores(row + 4u, vector, key_vector);
            }
        }
    } else {
        for (var vector = 0u; vector < HEAD_VECTORS; vector++) {
            let key_vector = vec4<f32>(k_cache[at + vector]);
            scores += four_scores(row, vector, key_vector);
            if QUERY_ROWS == 8u {
                others += four_scores(row + 4u, vector, key_vector);
            }
            if QUERY_KEYS == 2u {
                others += four_scores(row, vector, vec4<f32>(k_cache[second_at + vector]));
            }
        }
    }
    weights[row / 4u * KEYS + key] = masked(scores, start + key, first + row, position, context);
    if QUERY_ROWS == 8u {
        weights[(row / 4u + 1u) * KEYS + key] = masked(others, start + key, first + row + 4u, position, context);
    }
    if QUERY_KEYS == 2u {
        weights[row / 4u * KEYS + key + row_groups] = masked(others, start + key + row_groups, first + row, position, context);
    }
}

// Online softmax: replaces scores by exp(score − row maximum), and updates maximum, sum and the factor for earlier sums.
fn online_softmax(thread: u32) {
    let threads = THREADS / ROWS;
    let row = thread / threads;
    let own = thread % threads;
    let at = row / 4u * KEYS;
    var high = MASKED_SCORE;
    for (var key = own; key < KEYS; key += threads) {
        high = max(high, weights[at + key][row % 4u]);
    }
    row_partials[thread] = high;
    workgroupBarrier();
    let before = row_max[row];
    high = before;
    for (var i = 0u; i < threads; i++) {
        high = max(high, row_partials[row * threads + i]);
    }
    var sum = 0.0;
    for (var key = own; key < KEYS; key += threads) {
        let score = weights[at + key][row % 4u];
        let weight = select(exp(score - high), 0.0, score <= 0.5 * MASKED_SCORE);
        weights[at + key][row % 4u] = weight;
        sum += weight;
    }
    workgroupBarrier();
    row_partials[thread] = sum;
    workgroupBarrier();
    if own == 0u {
        for (var i = 1u; i < threads; i++) {
            sum += row_partials[thread + i];
        }
        let rescale = exp(before - high);
        rescales[row] = rescale;
        row_sum[row] = row_sum[row] * rescale + sum;
        row_max[row] = high;
    }
    workgroupBarrier();
}

fn rescale_of(row: u32) -> vec4<f32> {
    return vec4<f32>(rescales[row], rescales[row + 1u], rescales[row + 2u], rescales[row + 3u]);
}

// Reduces the sums of threads that share a vector of a row, and stores the result. All threads of the workgroup call it.
fn store_row(thread: u32, sharing: u32, head: u32, first: u32, local: u32, vector: u32, key_group: u32, split: u32, sum: vec4<f32>) {
    sums[thread] = sum;
    workgroupBarrier();
    let row = first + local;
    if key_group == 0u && row < end_row() {
        var all = sum;
        for (var i = thread + sharing; i < THREADS / sharing * sharing; i += sharing) {
            all += sums[i];
        }
        let splits = split_count();
        if splits > 1u {
            let at = (partial_row(head, row) * splits + split) * (HEAD_VECTORS + 1u);
            out[at + vector] = all;
            if vector == 0u {
                out[at + HEAD_VECTORS] = vec4<f32>(row_max[local], row_sum[local], 0.0, 0.0);
            }
        } else {
            out[query_at(head, row) + vector] = all / row_sum[local];
        }
    }
    workgroupBarrier();
}

// Appends the new keys and values of a head to the caches.
fn append_new(thread: u32, head: u32, position: u32) {
    for (var i = thread; i < new_tokens() * HEAD_VECTORS; i += THREADS) {
        let token = i / HEAD_VECTORS;
        let lane = i % HEAD_VECTORS;
        let at = cache_row(position + token, head) * HEAD_VECTORS + lane;
        k_cache[at] = to_cache(new_key(token, head, lane, position));
        v_cache[at] = to_cache(new_value(token, head, lane));
    }
}

// Computes the rows of a tile from `first` on, over the keys from `begin` to `end`. `end` is at most the end of the keys that the last row
// sees. With `appends`, the sequence's new keys and values are appended to the caches.
fn attend_tile(thread: u32, head: u32, first: u32, split: u32, begin: u32, end: u32, position: u32, context: u32, appends: bool) {
    let row_groups = ROWS / VALUE_ROWS;
    let sharing = HEAD_VECTORS * row_groups;
    let vector = thread % HEAD_VECTORS;
    let own = thread / HEAD_VECTORS % row_groups * VALUE_ROWS;
    let key_group = thread / sharing;
    let key_groups = THREADS / sharing;
    var sum0 = vec4<f32>();
    var sum1 = vec4<f32>();
    var sum2 = vec4<f32>();
    var sum3 = vec4<f32>();
    var sum4 = vec4<f32>();
    var sum5 = vec4<f32>();
    var sum6 = vec4<f32>();
    var sum7 = vec4<f32>();
    load_queries(thread, head, first, position);
    workgroupBarrier();
    for (var start = begin; start < end; start += KEYS) {
        score(thread, head, first, start, end, position, context);
        workgroupBarrier();
        online_softmax(thread);
        let by = rescale_of(own);
        sum0 *= by.x;
        sum1 *= by.y;
        sum2 *= by.z;
        sum3 *= by.w;
        if VALUE_ROWS == 8u {
            let second_by = rescale_of(own + 4u);
            sum4 *= second_by.x;
            sum5 *= second_by.y;
            sum6 *= second_by.z;
            sum7 *= second_by.w;
        }
        // Threads beyond the last vector accumulate nothing.
        let keys = select(0u, min(KEYS, end - start), key_group < key_groups);
        for (var key = key_group; key < keys; key += key_groups) {
            let value = value_at(start + key, head, vector, position);
            let weight = weights[own / 4u * KEYS + key];
            sum0 += weight.x * value;
            sum1 += weight.y * value;
            sum2 += weight.z * value;
            sum3 += weight.w * value;
            if VALUE_ROWS == 8u {
                let second = weights[(own / 4u + 1u) * KEYS + key];
                sum4 += second.x * value;
                sum5 += second.y * value;
                sum6 += second.z * value;
                sum7 += second.w * value;
            }
        }
        workgroupBarrier();
    }
    if APPEND_KV == 1u && appends {
        append_new(thread, head, position);
    }
    store_row(thread, sharing, head, first, own, vector, key_group, split, sum0);
    store_row(thread, sharing, head, first, own + 1u, vector, key_group, split, sum1);
    store_row(thread, sharing, head, first, own + 2u, vector, key_group, split, sum2);
    store_row(thread, sharing, head, first, own + 3u, vector, key_group, split, sum3);
    if VALUE_ROWS == 8u {
        store_row(thread, sharing, head, first, own + 4u, vector, key_group, split, sum4);
        store_row(thread, sharing, head, first, own + 5u, vector, key_group, split, sum5);
        store_row(thread, sharing, head, first, own + 6u, vector, key_group, split, sum6);
        store_row(thread, sharing, head, first, own + 7u, vector, key_group, split, sum7);
    }
}
