// Flash attention with cooperative matrices: f16 operands, f32 accumulators. A workgroup of SUBGROUPS subgroups of LANES threads
// computes SUBGROUPS · BLOCKS · 16 query rows of one KV head over one split of the context, in tiles of KEYS keys that are staged as
// f16 in workgroup memory.
//
// A kernel cannot address elements of a cooperative matrix. Scores go through workgroup memory for the online softmax, and the
// products with values go through it again to be added to the rescaled sums in registers. PER_ROW threads share a row: each holds
// every so many vectors. Arrays of matrices would spill, so loops over matrices are unrolled. Each tile takes two barriers, two
// per block of rows and two per block and chunk of the head.
//
// With several splits the output is a partial result per row: the unnormalised sum, then a vector with the row's maximum and
// sum, for `sdpa_split_kv_combine`.

//#include coop_matrix
//#include saturate_f16
//#include flash_params
//#include flash_rotation

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> rope_table: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read> step: array<u32>;
@group(0) @binding(4) var<storage, read> k_cache: array<KV>;
@group(0) @binding(5) var<storage, read> v_cache: array<KV>;
@group(0) @binding(6) var<storage, read_write> out: array<vec4<f32>>;

const SUBGROUPS: u32 = {SUBGROUPS}u;
const BLOCKS: u32 = {BLOCKS}u;
const KEYS: u32 = {KEYS}u;
const THREADS: u32 = SUBGROUPS * LANES;
const PER_ROW: u32 = LANES / 16u;
const ROWS: u32 = SUBGROUPS * BLOCKS * 16u;
// Vectors of a row that are staged in workgroup memory at a time.
const CHUNK: u32 = 16u;
// Row pitch in workgroup memory, in vectors: padded by two against bank conflicts.
const PITCH: u32 = CHUNK + 2u;
override KEY_PITCH: u32 = HEAD_VECTORS + 2u;

var<workgroup> keys: array<E, KEYS * KEY_PITCH * PER_VECTOR>;
var<workgroup> values: array<E, KEYS * KEY_PITCH * PER_VECTOR>;
var<workgroup> scores: array<F, SUBGROUPS * 16u * PITCH * PER_VECTOR>;
var<workgroup> weights: array<E, SUBGROUPS * 16u * PITCH * PER_VECTOR>;

fn put_key(at: u32, v: vec4<f16>) {
    //#unroll vector {VECTORS}
    keys[at] = v;
    //#end
    //#unroll scalar {SCALARS}
    keys[at * 4u] = v.x;
    keys[at * 4u + 1u] = v.y;
    keys[at * 4u + 2u] = v.z;
    keys[at * 4u + 3u] = v.w;
    //#end
}

fn put_value(at: u32, v: vec4<f16>) {
    //#unroll vector {VECTORS}
    values[at] = v;
    //#end
    //#unroll scalar {SCALARS}
    values[at * 4u] = v.x;
    values[at * 4u + 1u] = v.y;
    values[at * 4u + 2u] = v.z;
    values[at * 4u + 3u] = v.w;
    //#end
}

fn put_weight(at: u32, v: vec4<f16>) {
    //#unroll vector {VECTORS}
    weights[at] = v;
    //#end
    //#unroll scalar {SCALARS}
    weights[at * 4u] = v.x;
    weights[at * 4u + 1u] = v.y;
    weights[at * 4u + 2u] = v.z;
    weights[at * 4u + 3u] = v.w;
    //#end
}

fn score_at(at: u32) -> vec4<f32> {
    //#unroll vector {VECTORS}
    return scores[at];
    //#end
    //#unroll scalar {SCALARS}
    return vec4<f32>(scores[at * 4u], scores[at * 4u + 1u], scores[at * 4u + 2u], scores[at * 4u + 3u]);
    //#end
}

// Indices and strides have names: naga's SPIR-V backend requires it for cooperative loads and stores.
fn load_a(at: u32) -> coop_mat{SIDE}x{SIDE}<f16, A> {
    let start = at * PER_VECTOR;
    let pitch = PITCH * PER_VECTOR;
    let matrix = coopLoadT<coop_mat{SIDE}x{SIDE}<f16, A>>(&weights[start], pitch);
    return matrix;
}

fn load_keys(at: u32) -> coop_mat{SIDE}x{SIDE}<f16, B> {
    let start = at * PER_VECTOR;
    let pitch = KEY_PITCH * PER_VECTOR;
    let matrix = coopLoad<coop_mat{SIDE}x{SIDE}<f16, B>>(&keys[start], pitch);
    return matrix;
}

fn load_values(at: u32) -> coop_mat{SIDE}x{SIDE}<f16, B> {
    let start = at * PER_VECTOR;
    let pitch = KEY_PITCH * PER_VECTOR;
    let matrix = coopLoadT<coop_mat{SIDE}x{SIDE}<f16, B>>(&values[start], pitch);
    return matrix;
}

fn multiply_add(a: coop_mat{SIDE}x{SIDE}<f16, A>, b: coop_mat{SIDE}x{SIDE}<f16, B>,
                c: coop_mat{SIDE}x{SIDE}<f32, C>) -> coop_mat{SIDE}x{SIDE}<f32, C> {
    let sum = coopMultiplyAdd(a, b, c);
    return sum;
}

fn store_matrix(matrix: coop_mat{SIDE}x{SIDE}<f32, C>, at: u32) {
    let start = at * PER_VECTOR;
    let pitch = PITCH * PER_VECTOR;
    coopStoreT(matrix, &scores[start], pitch);
}

// Reductions over the threads that share a row.
fn max_of_row(v: f32) -> f32 {
    var largest = v;
    //#unroll exchange {EXCHANGES}
    largest = max(largest, subgroupShuffleXor(largest, 1u << {exchange}u));
    //#end
    return largest;
}

fn sum_of_row(v: f32) -> f32 {
    var sum = v;
    //#unroll exchange {EXCHANGES}
    sum += subgroupShuffleXor(sum, 1u << {exchange}u);
    //#end
    return sum;
}

fn load_tile(thread: u32, head: u32, start: u32, end: u32) {
    let pitch = params.heads * HEAD_VECTORS;
    for (var i = thread; i < KEYS * HEAD_VECTORS; i += THREADS) {
        let from_cache = min(start + i / HEAD_VECTORS, end - 1u) * pitch + head * HEAD_VECTORS + i % HEAD_VECTORS;
        let to = i / HEAD_VECTORS * KEY_PITCH + i % HEAD_VECTORS;
        put_key(to, saturate_f16(vec4<f32>(k_cache[from_cache])));
        put_value(to, saturate_f16(vec4<f32>(v_cache[from_cache])));
    }
}

fn load_query(at: u32, head: u32, row: u32, lane: u32, position: u32) {
    let clamped_row = min(row, params.rows - 1u);
    let start = query_at(head, clamped_row);
    var partner = q[start + lane];
    if ROTATED == 2u {
        partner = q[start + partner_lane(lane)];
    }
    let token = clamped_row / params.group;
    let query = rotate_lane(q[start + lane], partner, lane, token, position + token);
    put_weight(at, saturate_f16(query * (params.scale * LOG2_E)));
}

fn masked(score: vec4<f32>, key: u32, visible_end: u32) -> vec4<f32> {
    return select(vec4<f32>(MASKED_SCORE), score, vec4<u32>(key, key + 1u, key + 2u, key + 3u) < vec4<u32>(visible_end));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) lane: u32) {
    // As `group_index`, whose result naga does not know to be uniform.
    let index = group.y * groups.x + group.x;
    let position = step[params.step_base];
    let context = step[params.step_base + 1u];
    let splits = step[params.step_base + 2u];
    let split_keys = step[params.step_base + 3u];
    let tiles = (params.rows + ROWS - 1u) / ROWS;
    let split = index % splits;
    let head = index / splits % params.heads;
    let order = index / splits / params.heads;
    if order < tiles {
        // Tiles that see the most keys go first, so that the grid ends with short ones.
        let first = (tiles - 1u - order) * ROWS;
        let end = min((split + 1u) * split_keys, visible_keys(first + ROWS - 1u, position, context));
        // Before this key, no row is masked.
        let unmasked_end = visible_keys(first, position, context);
        let thread = subgroup * LANES + lane;
        let part = lane % PER_ROW;
        let base = subgroup * 16u * PITCH;
        let own = base + lane / PER_ROW * PITCH + part;
        //#unroll block {BLOCKS}
            let row{block} = first + (subgroup * BLOCKS + {block}u) * 16u + lane / PER_ROW;
            var row_max{block} = MASKED_SCORE;
            var row_sum{block} = 0.0;
            //#unroll chunk {CHUNKS}
                //#unroll i {HELD}
                    var sum{block}_{chunk}_{i} = vec4<f32>();
                    load_query(own + PER_ROW * {i}u, head, row{block}, {chunk}u * CHUNK + PER_ROW * {i}u + part, position);
                //#end
                workgroupBarrier();
                //#unroll i 4
                    //#unroll r {PARTS}
                        //#unroll l {PARTS}
                            let query{block}_{chunk}_{i}_{r}_{l} = load_a(base + 4u * {i}u + {r}u * 8u * PITCH + {l}u * BESIDE);
                        //#end
                    //#end
                //#end
                workgroupBarrier();
            //#end
        //#end
        for (var start = split * split_keys; start < end; start += KEYS) {
            load_tile(thread, head, start, end);
            workgroupBarrier();
            //#unroll tile {TILES}
                //#unroll block {BLOCKS}
                    //#unroll r {PARTS}
                        //#unroll j {PARTS}
                            var score{block}_{tile}_{r}_{j} = coop_mat{SIDE}x{SIDE}<f32, C>();
                        //#end
                    //#end
                //#end
                //#unroll chunk {CHUNKS}
                    //#unroll i 4
                        //#unroll l {PARTS}
                            //#unroll j {PARTS}
                                let key{tile}_{chunk}_{i}_{l}_{j} = load_keys(({tile}u * 16u + {j}u * 8u) * KEY_PITCH
                                                                              + {chunk}u * CHUNK + 4u * {i}u + {l}u * BESIDE);
                                //#unroll block {BLOCKS}
                                    //#unroll r {PARTS}
                                        score{block}_{tile}_{r}_{j} = multiply_add(query{block}_{chunk}_{i}_{r}_{l},
                                                                                   key{tile}_{chunk}_{i}_{l}_{j},
                                                                                   score{block}_{tile}_{r}_{j});
                                    //#end
                                //#end
                            //#end
                        //#end
                    //#end
                //#end
            //#end
            //#unroll block {BLOCKS}
                //#unroll tile {TILES}
                    //#unroll r {PARTS}
                        //#unroll j {PARTS}
                            store_matrix(score{block}_{tile}_{r}_{j}, base + 4u * {tile}u + {r}u * 8u * PITCH + {j}u * BESIDE);
                        //#end
                    //#end
                //#end
                workgroupBarrier();
                //#unroll pair {SCORES}
                    var weight{block}_{pair} = score_at(own + PER_ROW * {pair}u);
                //#end
                if start + KEYS > unmasked_end {
                    let visible_end = visible_keys(row{block}, position, context);
                    //#unroll pair {SCORES}
                        weight{block}_{pair} = masked(weight{block}_{pair}, start + 4u * (PER_ROW * {pair}u + part),
                                                     visible_end);
                    //#end
                }
                var four{block} = vec4<f32>(MASKED_SCORE);
                //#unroll pair {SCORES}
                    four{block} = max(four{block}, weight{block}_{pair});
                //#end
                let largest{block} = max(max(four{block}.x, four{block}.y), max(four{block}.z, four{block}.w));
                let high{block} = max(row_max{block}, max_of_row(largest{block}));
                let rescale{block} = exp2(row_max{block} - high{block});
                row_max{block} = high{block};
                // Rows that have seen no key yet get weights of 0.
                let shift{block} = select(high{block}, 0.0, high{block} <= 0.5 * MASKED_SCORE);
                four{block} = vec4<f32>();
                //#unroll pair {SCORES}
                    weight{block}_{pair} = exp2(weight{block}_{pair} - shift{block});
                    four{block} += weight{block}_{pair};
                    put_weight(own + PER_ROW * {pair}u, vec4<f16>(weight{block}_{pair}));
                //#end
                row_sum{block} = row_sum{block} * rescale{block} + four{block}.x + four{block}.y + four{block}.z + four{block}.w;
                workgroupBarrier();
                //#unroll tile {TILES}
                    //#unroll r {PARTS}
                        //#unroll l {PARTS}
                            let row_weights{block}_{tile}_{r}_{l} = load_a(base + 4u * {tile}u + {r}u * 8u * PITCH + {l}u * BESIDE);
                        //#end
                    //#end
                //#end
            //#end
            //#unroll chunk {CHUNKS}
                //#unroll i 4
                    //#unroll block {BLOCKS}
                        //#unroll r {PARTS}
                            //#unroll j {PARTS}
                                var av{block}_{chunk}_{i}_{r}_{j} = coop_mat{SIDE}x{SIDE}<f32, C>();
                            //#end
                        //#end
                    //#end
                    //#unroll tile {TILES}
                        //#unroll l {PARTS}
                            //#unroll j {PARTS}
                                let value{chunk}_{i}_{tile}_{l}_{j} = load_values(({tile}u * 16u + {l}u * 8u) * KEY_PITCH
                                                                                  + {chunk}u * CHUNK + 4u * {i}u + {j}u * BESIDE);
                                //#unroll block {BLOCKS}
                                    //#unroll r {PARTS}
                                        av{block}_{chunk}_{i}_{r}_{j} = multiply_add(row_weights{block}_{tile}_{r}_{l},
                                                                                     value{chunk}_{i}_{tile}_{l}_{j},
                                                                                     av{block}_{chunk}_{i}_{r}_{j});
                                    //#end
                                //#end
                            //#end
                        //#end
                    //#end
                //#end
                //#unroll block {BLOCKS}
                    //#unroll i 4
                        //#unroll r {PARTS}
                            //#unroll j {PARTS}
                                store_matrix(av{block}_{chunk}_{i}_{r}_{j}, base + 4u * {i}u + {r}u * 8u * PITCH + {j}u * BESIDE);
                            //#end
                        //#end
                    //#end
                    workgroupBarrier();
                    //#unroll i {HELD}
                        sum{block}_{chunk}_{i} = sum{block}_{chunk}_{i} * rescale{block} + score_at(own + PER_ROW * {i}u);
                    //#end
                    workgroupBarrier();
                //#end
            //#end
        }
        //#unroll block {BLOCKS}
            let all{block} = sum_of_row(row_sum{block});
            if row{block} < params.rows {
                if splits > 1u {
                    let to = ((head * params.rows + row{block}) * splits + split) * (HEAD_VECTORS + 1u);
                    //#unroll chunk {CHUNKS}
                        //#unroll i {HELD}
                            out[to + {chunk}u * CHUNK + PER_ROW * {i}u + part] = sum{block}_{chunk}_{i};
                        //#end
                    //#end
                    if part == 0u {
                        out[to + HEAD_VECTORS] = vec4<f32>(row_max{block} * LN_2, all{block}, 0.0, 0.0);
                    }
                } else {
                    let to = query_at(head, row{block}) + part;
                    let share = 1.0 / all{block};
                    //#unroll chunk {CHUNKS}
                        //#unroll i {HELD}
                            out[to + {chunk}u * CHUNK + PER_ROW * {i}u] = sum{block}_{chunk}_{i} * share;
                        //#end
                    //#end
                }
            }
        //#end
    }
}
