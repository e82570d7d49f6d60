// Attention of a few rows where all subgroups have one size. TEAM threads of a subgroup have a position together, VECTORS vectors
// of its key and value each, and hold their part of ROWS queries. A workgroup takes ROWS rows of one KV head and one part of the
// context (often all of it), UNROLL positions for each team at a time. Teams meet only at the end: each has its own highest
// scores, totals of weights and sums, which are added up in the subgroup first, then in workgroup memory.
//
// Where the context has several parts, what is written is not the answer but sums, with the highest score and the total of the
// weights behind them, for `combine`.
//
// New keys and values are not in the caches yet. They are read where they come from, and the workgroup of a head that has its
// first rows and its last part writes them; nobody reads those places of a cache before the next dispatch.

//#include grid
//#include flash_params
//#include flash_new_kv

const THREADS: u32 = {THREADS}u;
const SUBGROUP: u32 = {SUBGROUP}u;
const TEAM: u32 = {TEAM}u;
const VECTORS: u32 = {VECTORS}u;
const ROWS: u32 = {ROWS}u;
const UNROLL: u32 = {UNROLL}u;
const SUBGROUPS: u32 = THREADS / SUBGROUP;
const TEAMS: u32 = THREADS / TEAM;

var<workgroup> shared_sums: array<vec4<f32>, SUBGROUPS * ROWS * LANES>;
// The highest score and the total of the weights.
var<workgroup> shared_known: array<vec2<f32>, SUBGROUPS * ROWS>;

// Vectors of each row that a thread holds.
var<private> queries: array<vec4<f32>, ROWS * VECTORS>;
var<private> sums: array<vec4<f32>, ROWS * VECTORS>;
var<private> highest: array<f32, ROWS>;
var<private> total: array<f32, ROWS>;
// How many positions a row sees.
var<private> sees: array<u32, ROWS>;
// Vectors of each position.
var<private> keys: array<vec4<f32>, UNROLL * VECTORS>;
var<private> values: array<vec4<f32>, UNROLL * VECTORS>;

fn load_queries(member: u32, head: u32, first: u32, position: u32, context: u32) {
    for (var row = 0u; row < ROWS; row++) {
        let known = min(first + row, params.rows - 1u);
        for (var i = 0u; i < VECTORS; i++) {
            let lane = member + i * TEAM;
            var query = q[query_at(head, known) + lane];
            if ROTATED == 1u {
                let angle = (position + known / params.group) * LANES + lane;
                query = turned(query, angles[angle], angles[params.sines + angle]);
            }
            queries[row * VECTORS + i] = query * (params.scale * LOG2_E);
        }
        highest[row] = MASKED;
        sees[row] = visible(known, position, context);
    }
}

// The keys and values of a team, of the positions from `start` on. Past the end there is the last.
fn load(team: u32, member: u32, head: u32, start: u32, end: u32, position: u32) {
    if start < position {
        for (var u = 0u; u < UNROLL; u++) {
            let at = (min(start + u * TEAMS + team, position - 1u) * params.heads + head) * LANES + member;
            for (var i = 0u; i < VECTORS; i++) {
                keys[u * VECTORS + i] = vec4<f32>(k_cache[at + i * TEAM]);
                values[u * VECTORS + i] = vec4<f32>(v_cache[at + i * TEAM]);
            }
        }
    }
    if start + UNROLL * TEAMS > position {
        for (var u = 0u; u < UNROLL; u++) {
            let at = min(start + u * TEAMS + team, end - 1u);
            if at >= position {
                for (var i = 0u; i < VECTORS; i++) {
                    keys[u * VECTORS + i] = new_key(at - position, head, member + i * TEAM, position);
                    values[u * VECTORS + i] = new_value(at - position, head, member + i * TEAM);
                }
            }
        }
    }
}

// What is in hand, added to the sums of a row. `at` is the team's first position.
fn add(row: u32, at: u32, end: u32) {
    var scores: array<f32, UNROLL>;
    var high = highest[row];
    for (var u = 0u; u < UNROLL; u++) {
        var score = 0.0;
        for (var i = 0u; i < VECTORS; i++) {
            score += dot(queries[row * VECTORS + i], keys[u * VECTORS + i]);
        }
        for (var apart = 1u; apart < TEAM; apart *= 2u) {
            score += subgroupShuffleXor(score, apart);
        }
        scores[u] = select(MASKED, score, at + u * TEAMS < min(sees[row], end));
        high = max(high, scores[u]);
    }
    let shrink = exp2(highest[row] - high);
    highest[row] = high;
    // A row that has seen nothing yet gets no weight.
    let under = select(high, 0.0, high <= 0.5 * MASKED);
    total[row] *= shrink;
    for (var i = 0u; i < VECTORS; i++) {
        sums[row * VECTORS + i] *= shrink;
    }
    for (var u = 0u; u < UNROLL; u++) {
        let weight = exp2(scores[u] - under);
        total[row] += weight;
        for (var i = 0u; i < VECTORS; i++) {
            sums[row * VECTORS + i] += weight * values[u * VECTORS + i];
        }
    }
}

// Adds up a row over the teams of each subgroup, into workgroup memory.
fn share(row: u32, subgroup: u32, lane: u32) {
    var high = highest[row];
    for (var apart = TEAM; apart < SUBGROUP; apart *= 2u) {
        high = max(high, subgroupShuffleXor(high, apart));
    }
    let shrink = exp2(highest[row] - high);
    var all = total[row] * shrink;
    for (var apart = TEAM; apart < SUBGROUP; apart *= 2u) {
        all += subgroupShuffleXor(all, apart);
    }
    if lane == 0u {
        shared_known[subgroup * ROWS + row] = vec2<f32>(high, all);
    }
    for (var i = 0u; i < VECTORS; i++) {
        var sum = sums[row * VECTORS + i] * shrink;
        for (var apart = TEAM; apart < SUBGROUP; apart *= 2u) {
            sum += subgroupShuffleXor(sum, apart);
        }
        if lane < TEAM {
            shared_sums[(subgroup * ROWS + row) * LANES + lane + i * TEAM] = sum;
        }
    }
}

// Adds up a vector of a row over the subgroups, and writes it.
fn finish(local: u32, lane: u32, head: u32, row: u32, part: u32, count: u32) {
    var high = MASKED;
    for (var i = local; i < SUBGROUPS * ROWS; i += ROWS) {
        high = max(high, shared_known[i].x);
    }
    var sum = vec4<f32>();
    var all = 0.0;
    for (var i = local; i < SUBGROUPS * ROWS; i += ROWS) {
        let known = shared_known[i];
        let weight = exp2(known.x - high);
        sum += weight * shared_sums[i * LANES + lane];
        all += weight * known.y;
    }
    if count > 1u {
        let at = ((head * params.rows + row) * count + part) * (LANES + 1u);
        out[at + lane] = sum;
        if lane == 0u {
            out[at + LANES] = vec4<f32>(high * LN_2, all, 0.0, 0.0);
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
    let count = step[params.step_base + 2u];
    let size = step[params.step_base + 3u];
    let tiles = (params.rows + ROWS - 1u) / ROWS;
    // Neighbours have neighbouring heads, which lie together in the caches.
    let head = index % params.heads;
    let first = index / params.heads % tiles * ROWS;
    let part = index / params.heads / tiles;
    if part < count {
        let thread = subgroup * SUBGROUP + lane;
        let team = thread / TEAM;
        let member = thread % TEAM;
        let end = min((part + 1u) * size, visible(first + ROWS - 1u, position, context));
        load_queries(member, head, first, position, context);
        for (var start = part * size; start < end; start += UNROLL * TEAMS) {
            load(team, member, head, start, end, position);
            for (var row = 0u; row < ROWS; row++) {
                add(row, start + team, end);
            }
        }
        if first == 0u && part + 1u == count {
            write_new(thread, head, position);
        }
        for (var row = 0u; row < ROWS; row++) {
            share(row, subgroup, lane);
        }
        workgroupBarrier();
        for (var i = thread; i < ROWS * LANES; i += THREADS) {
            let row = first + i / LANES;
            if row < params.rows {
                finish(i / LANES, i % LANES, head, row, part, count);
            }
        }
    }
}
