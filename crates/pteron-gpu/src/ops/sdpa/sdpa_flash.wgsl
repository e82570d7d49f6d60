// Attention in one sweep over the context. A workgroup takes ROWS rows of one KV head and one part of the context (often all of
// it), KEYS positions at a time: scores of the rows against those keys, their exponentials below the highest score so far, and
// the values summed with them as weights. When a higher score comes, what was summed before is scaled down. Scores exist in
// workgroup memory alone.
//
// Its 128 threads share the work in three ways. Scores: a thread has QUERY_ROWS rows and one or two keys. Exponentials: some
// threads share a row. Values: a thread has a vector of the head for VALUE_ROWS rows, and where threads are left over they take
// every second, third, … position, and add up at the end.
//
// Where the context has several parts, what is written is not the answer but sums, with the highest score and the total of the
// weights behind them, for `combine`.
//
// With WRITES, new keys and values are not in the caches yet. They are read where they come from, and the workgroup of a head
// that has its first rows and its last part writes them; nobody reads those places of a cache before the next dispatch.

//#include grid
//#include flash_params
//#include flash_new_kv

// Rows of a workgroup, a multiple of 4, and positions of the context it has in hand at a time.
override ROWS: u32 = 4u;
override KEYS: u32 = 128u;
// Rows that a thread scores, 4 or 8, and positions it scores them at: 1, or 2 where it has 4 rows.
override QUERY_ROWS: u32 = 4u;
override QUERY_KEYS: u32 = 1u;
// Rows for which a thread sums values, 4 or 8.
override VALUE_ROWS: u32 = 4u;
// 1: new keys and values are written on the way; a thread then scores one position.
override WRITES: u32 = 0u;

const THREADS: u32 = 128u;

var<workgroup> queries: array<vec4<f32>, ROWS * LANES>;
// Scores, then weights: four rows together, position by position.
var<workgroup> weights: array<vec4<f32>, ROWS / 4u * KEYS>;
var<workgroup> shared_by_row: array<f32, THREADS>;
var<workgroup> sums: array<vec4<f32>, THREADS>;
var<workgroup> highest: array<f32, ROWS>;
var<workgroup> total: array<f32, ROWS>;
// What earlier sums are scaled by.
var<workgroup> shrunk: array<f32, ROWS>;

fn load_queries(thread: u32, head: u32, first: u32, position: u32) {
    for (var i = thread; i < ROWS * LANES; i += THREADS) {
        let row = min(first + i / LANES, params.rows - 1u);
        var query = q[query_at(head, row) + i % LANES];
        if ROTATED == 1u {
            let angle = (position + row / params.group) * LANES + i % LANES;
            query = turned(query, angles[angle], angles[params.sines + angle]);
        }
        queries[i] = query * params.scale;
    }
    if thread < ROWS {
        highest[thread] = MASKED;
        total[thread] = 0.0;
    }
}

// A vector of the value at a position.
fn value_at(at: u32, head: u32, lane: u32, position: u32) -> vec4<f32> {
    if WRITES == 1u && at >= position {
        return new_value(at - position, head, lane);
    }
    return vec4<f32>(v_cache[(at * params.heads + head) * LANES + lane]);
}

// Four rows against one vector of a key.
fn four_scores(row: u32, lane: u32, key: vec4<f32>) -> vec4<f32> {
    let at = row * LANES + lane;
    return vec4<f32>(dot(queries[at], key), dot(queries[at + LANES], key),
                     dot(queries[at + 2u * LANES], key), dot(queries[at + 3u * LANES], key));
}

// A score counts only where the row sees the position.
fn masked(scores: vec4<f32>, key: u32, row: u32, position: u32, context: u32) -> vec4<f32> {
    let sees = vec4<u32>(visible(row, position, context), visible(row + 1u, position, context),
                         visible(row + 2u, position, context), visible(row + 3u, position, context));
    return select(vec4<f32>(MASKED), scores, vec4<u32>(key) < sees);
}

// Scores of all rows at the positions from `start` on. `end` is where the last row's sight ends.
fn score(thread: u32, head: u32, first: u32, start: u32, end: u32, position: u32, context: u32) {
    let teams = KEYS / QUERY_KEYS;
    let row = thread / teams * QUERY_ROWS;
    let key = thread % teams;
    let pitch = params.heads * LANES;
    let own = min(start + key, end - 1u);
    let at = own * pitch + head * LANES;
    let also_at = min(start + key + teams, end - 1u) * pitch + head * LANES;
    var scores = vec4<f32>();
    var others = vec4<f32>();
    if WRITES == 1u && own >= position {
        for (var lane = 0u; lane < LANES; lane++) {
            let vector = new_key(own - position, head, lane, position);
            scores += four_scores(row, lane, vector);
            if QUERY_ROWS == 8u {
                others += four_scores(row + 4u, lane, vector);
            }
        }
    } else {
        for (var lane = 0u; lane < LANES; lane++) {
            let vector = vec4<f32>(k_cache[at + lane]);
            scores += four_scores(row, lane, vector);
            if QUERY_ROWS == 8u {
                others += four_scores(row + 4u, lane, vector);
            }
            if QUERY_KEYS == 2u {
                others += four_scores(row, lane, vec4<f32>(k_cache[also_at + lane]));
            }
        }
    }
    weights[row / 4u * KEYS + key] = masked(scores, start + key, first + row, position, context);
    if QUERY_ROWS == 8u {
        weights[(row / 4u + 1u) * KEYS + key] = masked(others, start + key, first + row + 4u, position, context);
    }
    if QUERY_KEYS == 2u {
        weights[row / 4u * KEYS + key + teams] = masked(others, start + key + teams, first + row, position, context);
    }
}

// Scores become weights: exponentials of how far they are below the highest so far.
fn weigh(thread: u32) {
    let threads = THREADS / ROWS;
    let row = thread / threads;
    let own = thread % threads;
    let at = row / 4u * KEYS;
    var high = MASKED;
    for (var key = own; key < KEYS; key += threads) {
        high = max(high, weights[at + key][row % 4u]);
    }
    shared_by_row[thread] = high;
    workgroupBarrier();
    let before = highest[row];
    high = before;
    for (var i = 0u; i < threads; i++) {
        high = max(high, shared_by_row[row * threads + i]);
    }
    var sum = 0.0;
    for (var key = own; key < KEYS; key += threads) {
        let score = weights[at + key][row % 4u];
        let weight = select(exp(score - high), 0.0, score <= 0.5 * MASKED);
        weights[at + key][row % 4u] = weight;
        sum += weight;
    }
    workgroupBarrier();
    shared_by_row[thread] = sum;
    workgroupBarrier();
    if own == 0u {
        for (var i = 1u; i < threads; i++) {
            sum += shared_by_row[thread + i];
        }
        let shrink = exp(before - high);
        shrunk[row] = shrink;
        total[row] = total[row] * shrink + sum;
        highest[row] = high;
    }
    workgroupBarrier();
}

fn shrink_by(row: u32) -> vec4<f32> {
    return vec4<f32>(shrunk[row], shrunk[row + 1u], shrunk[row + 2u], shrunk[row + 3u]);
}

// Adds up what the threads have that share a vector of a row, and writes it. All threads of the workgroup call it.
fn finish(thread: u32, sharing: u32, head: u32, first: u32, local: u32, lane: u32, subset: u32, part: u32, sum: vec4<f32>) {
    sums[thread] = sum;
    workgroupBarrier();
    let row = first + local;
    if subset == 0u && row < params.rows {
        var all = sum;
        for (var i = thread + sharing; i < THREADS / sharing * sharing; i += sharing) {
            all += sums[i];
        }
        let count = step[params.step_base + 2u];
        if count > 1u {
            let at = ((head * params.rows + row) * count + part) * (LANES + 1u);
            out[at + lane] = all;
            if lane == 0u {
                out[at + LANES] = vec4<f32>(highest[local], total[local], 0.0, 0.0);
            }
        } else {
            out[query_at(head, row) + lane] = all / total[local];
        }
    }
    workgroupBarrier();
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups);
    let position = step[params.step_base];
    let context = step[params.step_base + 1u];
    let count = step[params.step_base + 2u];
    let size = step[params.step_base + 3u];
    let tiles = (params.rows + ROWS - 1u) / ROWS;
    let part = index % count;
    let first = index / count % tiles * ROWS;
    let head = index / count / tiles;
    if head < params.heads {
        let end = min((part + 1u) * size, visible(first + ROWS - 1u, position, context));
        let teams = ROWS / VALUE_ROWS;
        let sharing = LANES * teams;
        let lane = thread % LANES;
        let own = thread / LANES % teams * VALUE_ROWS;
        let subset = thread / sharing;
        let subsets = THREADS / sharing;
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
        for (var start = part * size; start < end; start += KEYS) {
            score(thread, head, first, start, end, position, context);
            workgroupBarrier();
            weigh(thread);
            let by = shrink_by(own);
            sum0 *= by.x;
            sum1 *= by.y;
            sum2 *= by.z;
            sum3 *= by.w;
            if VALUE_ROWS == 8u {
                let also_by = shrink_by(own + 4u);
                sum4 *= also_by.x;
                sum5 *= also_by.y;
                sum6 *= also_by.z;
                sum7 *= also_by.w;
            }
            // Threads that no vector is left for sum nothing.
            let keys = select(0u, min(KEYS, end - start), subset < subsets);
            for (var key = subset; key < keys; key += subsets) {
                let value = value_at(start + key, head, lane, position);
                let weight = weights[own / 4u * KEYS + key];
                sum0 += weight.x * value;
                sum1 += weight.y * value;
                sum2 += weight.z * value;
                sum3 += weight.w * value;
                if VALUE_ROWS == 8u {
                    let also = weights[(own / 4u + 1u) * KEYS + key];
                    sum4 += also.x * value;
                    sum5 += also.y * value;
                    sum6 += also.z * value;
                    sum7 += also.w * value;
                }
            }
            workgroupBarrier();
        }
        if WRITES == 1u && first == 0u && part + 1u == count {
            write_new(thread, head, position);
        }
        finish(thread, sharing, head, first, own, lane, subset, part, sum0);
        finish(thread, sharing, head, first, own + 1u, lane, subset, part, sum1);
        finish(thread, sharing, head, first, own + 2u, lane, subset, part, sum2);
        finish(thread, sharing, head, first, own + 3u, lane, subset, part, sum3);
        if VALUE_ROWS == 8u {
            finish(thread, sharing, head, first, own + 4u, lane, subset, part, sum4);
            finish(thread, sharing, head, first, own + 5u, lane, subset, part, sum5);
            finish(thread, sharing, head, first, own + 6u, lane, subset, part, sum6);
            finish(thread, sharing, head, first, own + 7u, lane, subset, part, sum7);
        }
    }
}
