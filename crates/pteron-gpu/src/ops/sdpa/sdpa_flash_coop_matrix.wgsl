// Flash attention with cooperative matrices of 16 × 16: f16 operands, f32 accumulators. A workgroup of 4 subgroups of 32
// threads computes 4 · BLOCKS · 16 query rows of one KV head over one split of the context, in tiles of KEYS keys that are
// staged as f16 in workgroup memory.
//
// A kernel cannot address elements of a cooperative matrix. Scores go through workgroup memory for the online softmax, and the
// products with values go through it again to be added to the rescaled sums in registers. Two threads share a row: each holds
// every second vector. Arrays of matrices would spill, so loops over matrices are unrolled. Each tile takes two barriers, two
// per block of rows and two per block and chunk of the head.
//
// With several splits the output is a partial result per row: the unnormalised sum, then a vector with the row's maximum and
// sum, for `sdpa_split_kv_combine`.

//#include saturate_f16
//#include flash_params

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> rope_table: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read> step: array<u32>;
@group(0) @binding(4) var<storage, read> k_cache: array<KV>;
@group(0) @binding(5) var<storage, read> v_cache: array<KV>;
@group(0) @binding(6) var<storage, read_write> out: array<vec4<f32>>;

const SUBGROUPS: u32 = 4u;
const BLOCKS: u32 = {BLOCKS}u;
const KEYS: u32 = {KEYS}u;
const THREADS: u32 = SUBGROUPS * 32u;
const ROWS: u32 = SUBGROUPS * BLOCKS * 16u;
// Vectors of a row that are staged in workgroup memory at a time.
const CHUNK: u32 = 16u;
// Row pitch in workgroup memory, in vectors: padded by two against bank conflicts.
const PITCH: u32 = CHUNK + 2u;
override KEY_PITCH: u32 = HEAD_VECTORS + 2u;

var<workgroup> keys: array<vec4<f16>, KEYS * KEY_PITCH>;
var<workgroup> values: array<vec4<f16>, KEYS * KEY_PITCH>;
var<workgroup> scores: array<vec4<f32>, SUBGROUPS * 16u * PITCH>;
var<workgroup> weights: array<vec4<f16>, SUBGROUPS * 16u * PITCH>;

// Pointers have names: naga's SPIR-V backend requires it for cooperative loads and stores.
fn load_a(at: u32) -> coop_mat16x16<f16, A> {
    let pointer = &weights[at];
    let pitch = PITCH;
    let matrix = coopLoadT<coop_mat16x16<f16, A>>(pointer, pitch);
    return matrix;
}

fn load_keys(at: u32) -> coop_mat16x16<f16, B> {
    let pointer = &keys[at];
    let pitch = KEY_PITCH;
    let matrix = coopLoad<coop_mat16x16<f16, B>>(pointer, pitch);
    return matrix;
}

fn load_values(at: u32) -> coop_mat16x16<f16, B> {
    let pointer = &values[at];
    let pitch = KEY_PITCH;
    let matrix = coopLoadT<coop_mat16x16<f16, B>>(pointer, pitch);
    return matrix;
}

fn multiply_add(a: coop_mat16x16<f16, A>, b: coop_mat16x16<f16, B>, c: coop_mat16x16<f32, C>) -> coop_mat16x16<f32, C> {
    let sum = coopMultiplyAdd(a, b, c);
    return sum;
}

fn store_matrix(matrix: coop_mat16x16<f32, C>, at: u32) {
    let pointer = &scores[at];
    let pitch = PITCH;
    coopStoreT(matrix, pointer, pitch);
}

fn load_tile(thread: u32, head: u32, start: u32, end: u32) {
    let pitch = params.heads * HEAD_VECTORS;
    for (var i = thread; i < KEYS * HEAD_VECTORS; i += THREADS) {
        let from_cache = min(start + i / HEAD_VECTORS, end - 1u) * pitch + head * HEAD_VECTORS + i % HEAD_VECTORS;
        let to = i / HEAD_VECTORS * KEY_PITCH + i % HEAD_VECTORS;
        keys[to] = saturate_f16(vec4<f32>(k_cache[from_cache]));
        values[to] = saturate_f16(vec4<f32>(v_cache[from_cache]));
    }
}

fn load_query(at: u32, head: u32, row: u32, lane: u32, position: u32) {
    let clamped_row = min(row, params.rows - 1u);
    var query = q[query_at(head, clamped_row) + lane];
    if ROTATED == 1u {
        let angle = (position + clamped_row / params.group) * HEAD_VECTORS + lane;
        query = rotate_pairs(query, rope_table[angle], rope_table[params.sin_offset + angle]);
    }
    weights[at] = saturate_f16(query * (params.scale * LOG2_E));
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
        let thread = subgroup * 32u + lane;
        let half = lane % 2u;
        let base = subgroup * 16u * PITCH;
        let own = base + lane / 2u * PITCH + half;
        //#unroll block {BLOCKS}
            let row{block} = first + (subgroup * BLOCKS + {block}u) * 16u + lane / 2u;
            var row_max{block} = MASKED_SCORE;
            var row_sum{block} = 0.0;
            //#unroll chunk {CHUNKS}
                //#unroll i 8
                    var sum{block}_{chunk}_{i} = vec4<f32>();
                    load_query(own + 2u * {i}u, head, row{block}, {chunk}u * CHUNK + 2u * {i}u + half, position);
                //#end
                workgroupBarrier();
                //#unroll i 4
                    let query{block}_{chunk}_{i} = load_a(base + 4u * {i}u);
                //#end
                workgroupBarrier();
            //#end
        //#end
        for (var start = split * split_keys; start < end; start += KEYS) {
            load_tile(thread, head, start, end);
            workgroupBarrier();
            //#unroll tile {TILES}
                //#unroll block {BLOCKS}
                    var score{block}_{tile} = coop_mat16x16<f32, C>();
                //#end
                //#unroll chunk {CHUNKS}
                    //#unroll i 4
                        let key{tile}_{chunk}_{i} = load_keys({tile}u * 16u * KEY_PITCH + {chunk}u * CHUNK + 4u * {i}u);
                        //#unroll block {BLOCKS}
                            score{block}_{tile} = multiply_add(query{block}_{chunk}_{i}, key{tile}_{chunk}_{i},
                                                               score{block}_{tile});
                        //#end
                    //#end
                //#end
            //#end
            //#unroll block {BLOCKS}
                //#unroll tile {TILES}
                    store_matrix(score{block}_{tile}, base + 4u * {tile}u);
                //#end
                workgroupBarrier();
                //#unroll pair {PAIRS}
                    var weight{block}_{pair} = scores[own + 2u * {pair}u];
                //#end
                if start + KEYS > unmasked_end {
                    let visible_end = visible_keys(row{block}, position, context);
                    //#unroll pair {PAIRS}
                        weight{block}_{pair} = masked(weight{block}_{pair}, start + 8u * {pair}u + 4u * half, visible_end);
                    //#end
                }
                var four{block} = vec4<f32>(MASKED_SCORE);
                //#unroll pair {PAIRS}
                    four{block} = max(four{block}, weight{block}_{pair});
                //#end
                let largest{block} = max(max(four{block}.x, four{block}.y), max(four{block}.z, four{block}.w));
                let high{block} = max(row_max{block}, max(largest{block}, subgroupShuffleXor(largest{block}, 1u)));
                let rescale{block} = exp2(row_max{block} - high{block});
                row_max{block} = high{block};
                // Rows that have seen no key yet get weights of 0.
                let shift{block} = select(high{block}, 0.0, high{block} <= 0.5 * MASKED_SCORE);
                four{block} = vec4<f32>();
                //#unroll pair {PAIRS}
                    weight{block}_{pair} = exp2(weight{block}_{pair} - shift{block});
                    four{block} += weight{block}_{pair};
                    weights[own + 2u * {pair}u] = vec4<f16>(weight{block}_{pair});
                //#end
                row_sum{block} = row_sum{block} * rescale{block} + four{block}.x + four{block}.y + four{block}.z + four{block}.w;
                workgroupBarrier();
                //#unroll tile {TILES}
                    let row_weights{block}_{tile} = load_a(base + 4u * {tile}u);
                //#end
            //#end
            //#unroll chunk {CHUNKS}
                //#unroll i 4
                    //#unroll block {BLOCKS}
                        var av{block}_{chunk}_{i} = coop_mat16x16<f32, C>();
                    //#end
                    //#unroll tile {TILES}
                        let value{chunk}_{i}_{tile} = load_values({tile}u * 16u * KEY_PITCH + {chunk}u * CHUNK + 4u * {i}u);
                        //#unroll block {BLOCKS}
                            av{block}_{chunk}_{i} = multiply_add(row_weights{block}_{tile}, value{chunk}_{i}_{tile},
                                                                      av{block}_{chunk}_{i});
                        //#end
                    //#end
                //#end
                //#unroll block {BLOCKS}
                    //#unroll i 4
                        store_matrix(av{block}_{chunk}_{i}, base + 4u * {i}u);
                    //#end
                    workgroupBarrier();
                    //#unroll i 8
                        sum{block}_{chunk}_{i} = sum{block}_{chunk}_{i} * rescale{block} + scores[own + 2u * {i}u];
                    //#end
                    workgroupBarrier();
                //#end
            //#end
        }
        //#unroll block {BLOCKS}
            let all{block} = row_sum{block} + subgroupShuffleXor(row_sum{block}, 1u);
            if row{block} < params.rows {
                if splits > 1u {
                    let to = ((head * params.rows + row{block}) * splits + split) * (HEAD_VECTORS + 1u);
                    //#unroll chunk {CHUNKS}
                        //#unroll i 8
                            out[to + {chunk}u * CHUNK + 2u * {i}u + half] = sum{block}_{chunk}_{i};
                        //#end
                    //#end
                    if half == 0u {
                        out[to + HEAD_VECTORS] = vec4<f32>(row_max{block} * LN_2, all{block}, 0.0, 0.0);
                    }
                } else {
                    let to = query_at(head, row{block}) + half;
                    let share = 1.0 / all{block};
                    //#unroll chunk {CHUNKS}
                        //#unroll i 8
                            out[to + {chunk}u * CHUNK + 2u * {i}u] = sum{block}_{chunk}_{i} * share;
                        //#end
                    //#end
                }
            }
        //#end
    }
}
