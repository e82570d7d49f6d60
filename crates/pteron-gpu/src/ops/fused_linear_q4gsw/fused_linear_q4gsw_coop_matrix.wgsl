// Fused 4-bit linears for prefill with cooperative matrices of 16 × 16: f16 operands, f32 accumulators. A workgroup of DOWN ×
// ACROSS subgroups computes a tile of DOWN · BLOCKS · 16 rows by ACROSS · 32 columns, 64 of k at a time. Double buffered:
// threads load the next slice into registers while the current one is multiplied, and dequantise weights to f16 on the way to
// workgroup memory; two barriers per slice. For SwiGLU, blocks of 16 columns alternate between the two weights, so that a
// subgroup has both factors of its outputs.
//
// Rows come packed (`fused_linear_q4gsw_pack_f16`): divided by a power of two, the row's factor, so that f16 holds them.
// Weights are divided by WEIGHT_FACTOR.

//#include grid
//#include fused_linear_params
//#include fused_linear_store
//#include q4_dequantise
//#include silu

alias O = vec4<f32>;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read> factors: array<f32>;
@group(0) @binding(3) var<storage, read> weight: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<f32>;
@group(0) @binding(5) var<storage, read> addend: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> out0: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> out1: array<vec4<f32>>;
@group(0) @binding(8) var<storage, read_write> out2: array<vec4<f32>>;

// Subgroups along the rows and the columns of the tile, and blocks of 16 rows per subgroup: 1, 2 or 4. Each has two blocks of columns.
override DOWN: u32 = 2u;
override ACROSS: u32 = 4u;
override BLOCKS: u32 = 4u;
override GATED: u32 = 0u;

const LANES: u32 = 32u;
const DEPTH: u32 = 64u;
// Vectors per row of a tile, and the row pitch, padded against bank conflicts.
const VECTORS: u32 = 16u;
const PITCH: u32 = 18u;
const WEIGHT_FACTOR: f32 = 0.015625;
// The largest scale whose weights are finite in f16.
const LARGEST_SCALE: f32 = 8188.0;

override THREADS: u32 = DOWN * ACROSS * LANES;
override ROWS: u32 = DOWN * BLOCKS * 16u;
override COLUMNS: u32 = ACROSS * 32u;
// Vectors of activations and chunks of 16 weights that a thread loads per slice.
override READS: u32 = ROWS * VECTORS / THREADS;
override CHUNKS: u32 = COLUMNS * 4u / THREADS;

var<workgroup> rows: array<vec4<f16>, ROWS * PITCH>;
var<workgroup> columns: array<vec4<f16>, COLUMNS * PITCH>;
// Staging of each subgroup's output block.
var<workgroup> blocks: array<vec4<f32>, DOWN * ACROSS * 64u>;

// The next slice, loaded and not yet in workgroup memory.
var<private> next_x: array<vec4<f16>, 8>;
var<private> next_weights: array<vec2<u32>, 4>;
var<private> next_scales: array<f32, 4>;
// The gate's block of SwiGLU, until the other factor is staged.
var<private> gate_upper: vec4<f32>;
var<private> gate_lower: vec4<f32>;
// Offsets of a thread's loads at k = 0.
var<private> x_at: array<u32, 8>;
var<private> weights_at: array<u32, 4>;
var<private> scales_at: array<u32, 4>;

// Maps a column of the tile to a column of all outputs. Columns past the last repeat it.
fn column_of(first: u32, local: u32) -> u32 {
    if GATED == 1u {
        let column = min(first / 2u + local / 32u * 16u + local % 16u, params.n / 2u - 1u);
        return select(column, column + params.first.y, local / 16u % 2u == 1u);
    }
    return min(first + local, params.n - 1u);
}

fn find_offsets(thread: u32, first_row: u32, first_column: u32) {
    for (var i = 0u; i < READS; i++) {
        let item = thread + i * THREADS;
        x_at[i] = min(first_row + item / VECTORS, params.m - 1u) * (params.k / 4u) + item % VECTORS;
    }
    for (var i = 0u; i < CHUNKS; i++) {
        let item = thread + i * THREADS;
        let column = column_of(first_column, item / 4u);
        let matrix = matrix_of(column);
        let own_column = column - params.first[matrix];
        weights_at[i] = (first_unit(matrix, own_column) + item % 4u / 2u * COLUMNS_PER_TILE) * 2u + item % 2u;
        scales_at[i] = first_scale(matrix, own_column);
    }
}

fn load_slice(thread: u32, k: u32) {
    for (var i = 0u; i < READS; i++) {
        next_x[i] = x[x_at[i] + k / 4u];
    }
    for (var i = 0u; i < CHUNKS; i++) {
        next_weights[i] = weight[weights_at[i] + k * COLUMNS_PER_TILE / 16u];
        next_scales[i] = scales[scales_at[i] + scale_of_unit((k + thread % 4u * 16u) / 32u)];
    }
}

fn store_slice(thread: u32) {
    for (var i = 0u; i < READS; i++) {
        let item = thread + i * THREADS;
        rows[item / VECTORS * PITCH + item % VECTORS] = next_x[i];
    }
    for (var i = 0u; i < CHUNKS; i++) {
        let item = thread + i * THREADS;
        let at = item / 4u * PITCH + item % 4u * 4u;
        let words = next_weights[i];
        let scale = clamp(next_scales[i] / WEIGHT_FACTOR, -LARGEST_SCALE, LARGEST_SCALE);
        columns[at] = vec4<f16>(q4_values(words.x) * scale);
        columns[at + 1u] = vec4<f16>(q4_values(words.x >> 16u) * scale);
        columns[at + 2u] = vec4<f16>(q4_values(words.y) * scale);
        columns[at + 3u] = vec4<f16>(q4_values(words.y >> 16u) * scale);
    }
}

fn with_bias(matrix: u32, column: u32, value: vec4<f32>) -> vec4<f32> {
    let at = params.bias[matrix] + column;
    if params.bias[matrix] == NO_BIAS {
        return value;
    }
    return value + vec4<f32>(scales[at], scales[at + 1u], scales[at + 2u], scales[at + 3u]);
}

// Stores four outputs of a row; `up` is the second factor of SwiGLU.
fn store_outputs(row: u32, n: u32, sum: vec4<f32>, up: vec4<f32>) {
    if row < params.m && n < select(params.n, params.n / 2u, GATED == 1u) {
        let matrix = matrix_of(n);
        let column = n - params.first[matrix];
        let factor = factors[row] * WEIGHT_FACTOR;
        let at = (row * params.width[matrix] + column) / 4u;
        var value = with_bias(matrix, column, sum * factor);
        if GATED == 1u {
            value = silu(value) * with_bias(1u, column, up * factor);
        }
        if params.has_addend == 1u {
            value += addend[at];
        }
        store_output(matrix, at, value);
    }
}

// Stores the block that each subgroup has staged in `blocks`: the first or second of those rows. For SwiGLU the first is kept until
// the second is staged.
fn store_block(at: u32, lane: u32, row: u32, column: u32, side: u32) {
    workgroupBarrier();
    let upper = blocks[at + lane];
    let lower = blocks[at + LANES + lane];
    workgroupBarrier();
    let own_row = row + lane / 4u;
    let own_column = lane % 4u * 4u;
    if GATED == 0u {
        store_outputs(own_row, column + side * 16u + own_column, upper, vec4<f32>());
        store_outputs(own_row + 8u, column + side * 16u + own_column, lower, vec4<f32>());
    } else if side == 0u {
        gate_upper = upper;
        gate_lower = lower;
    } else {
        store_outputs(own_row, column / 2u + own_column, gate_upper, upper);
        store_outputs(own_row + 8u, column / 2u + own_column, gate_lower, lower);
    }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    // Workgroups past the last tile compute without storing: cooperative operations need uniform control flow.
    let index = group_index(group, groups);
    let tiles = (params.m + ROWS - 1u) / ROWS;
    let first_row = index % tiles * ROWS;
    let first_column = index / tiles * COLUMNS;
    let subgroup = thread / LANES;
    let own_row = subgroup % DOWN * BLOCKS * 16u;
    let own_column = subgroup / DOWN * 32u;
    var sum00 = coop_mat16x16<f32, C>();
    var sum01 = coop_mat16x16<f32, C>();
    var sum10 = coop_mat16x16<f32, C>();
    var sum11 = coop_mat16x16<f32, C>();
    var sum20 = coop_mat16x16<f32, C>();
    var sum21 = coop_mat16x16<f32, C>();
    var sum30 = coop_mat16x16<f32, C>();
    var sum31 = coop_mat16x16<f32, C>();
    find_offsets(thread, first_row, first_column);
    load_slice(thread, 0u);
    for (var k = 0u; k < params.k; k += DEPTH) {
        store_slice(thread);
        workgroupBarrier();
        load_slice(thread, min(k + DEPTH, params.k - DEPTH));
        for (var step = 0u; step < VECTORS; step += 4u) {
            let right = own_column * PITCH + step;
            let left = own_row * PITCH + step;
            let b0 = coopLoad<coop_mat16x16<f16, B>>(&columns[right], PITCH);
            let b1 = coopLoad<coop_mat16x16<f16, B>>(&columns[right + 16u * PITCH], PITCH);
            let a0 = coopLoadT<coop_mat16x16<f16, A>>(&rows[left], PITCH);
            sum00 = coopMultiplyAdd(a0, b0, sum00);
            sum01 = coopMultiplyAdd(a0, b1, sum01);
            if BLOCKS > 1u {
                let a1 = coopLoadT<coop_mat16x16<f16, A>>(&rows[left + 16u * PITCH], PITCH);
                sum10 = coopMultiplyAdd(a1, b0, sum10);
                sum11 = coopMultiplyAdd(a1, b1, sum11);
            }
            if BLOCKS > 2u {
                let a2 = coopLoadT<coop_mat16x16<f16, A>>(&rows[left + 32u * PITCH], PITCH);
                sum20 = coopMultiplyAdd(a2, b0, sum20);
                sum21 = coopMultiplyAdd(a2, b1, sum21);
                let a3 = coopLoadT<coop_mat16x16<f16, A>>(&rows[left + 48u * PITCH], PITCH);
                sum30 = coopMultiplyAdd(a3, b0, sum30);
                sum31 = coopMultiplyAdd(a3, b1, sum31);
            }
        }
        workgroupBarrier();
    }
    let lane = thread % LANES;
    let row = first_row + own_row;
    let column = first_column + own_column;
    // Stored matrices have names: naga's SPIR-V backend requires it.
    let at = subgroup * 2u * LANES;
    let stride = 4u;
    let block00 = sum00;
    coopStoreT(block00, &blocks[at], stride);
    store_block(at, lane, row, column, 0u);
    let block01 = sum01;
    coopStoreT(block01, &blocks[at], stride);
    store_block(at, lane, row, column, 1u);
    if BLOCKS > 1u {
        let block10 = sum10;
        coopStoreT(block10, &blocks[at], stride);
        store_block(at, lane, row + 16u, column, 0u);
        let block11 = sum11;
        coopStoreT(block11, &blocks[at], stride);
        store_block(at, lane, row + 16u, column, 1u);
    }
    if BLOCKS > 2u {
        let block20 = sum20;
        coopStoreT(block20, &blocks[at], stride);
        store_block(at, lane, row + 32u, column, 0u);
        let block21 = sum21;
        coopStoreT(block21, &blocks[at], stride);
        store_block(at, lane, row + 32u, column, 1u);
        let block30 = sum30;
        coopStoreT(block30, &blocks[at], stride);
        store_block(at, lane, row + 48u, column, 0u);
        let block31 = sum31;
        coopStoreT(block31, &blocks[at], stride);
        store_block(at, lane, row + 48u, column, 1u);
    }
}
