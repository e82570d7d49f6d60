// Fused 4-bit linears for prefill with cooperative matrices: f16 operands, f32 accumulators. A workgroup of SUBGROUPS subgroups, one
// below the other, computes a tile of SUBGROUPS · BLOCKS · 16 rows by TILES · 16 columns, 64 of k at a time. Threads load the weights
// of the next slice into registers, 16 bytes at a time, while the current one is multiplied, and dequantise them to f16 on the way to
// workgroup memory; two barriers per slice. Rows are loaded as matrices, straight from the packed rows. For SwiGLU, tiles of 16
// columns alternate between the two weights, so that a subgroup has both factors of its outputs.

//#include grid
//#include fused_linear_params
//#include fused_linear_store
//#include fused_linear_coop_matrix

override SUBGROUPS: u32 = 4u;
override THREADS: u32 = SUBGROUPS * LANES;
override STAGED: u32 = SUBGROUPS * BLOCK * PER_VECTOR;
// Units of a slice of all columns.
const UNITS: u32 = {TILES}u * UNITS_PER_SLICE;

var<workgroup> columns: array<E, {TILES}u * TILE * PER_VECTOR>;
// Staging of each subgroup's output block.
var<workgroup> blocks: array<F, STAGED>;

// A vector of staged outputs.
fn staged_vector(at: u32) -> vec4<f32> {
    //#unroll vector {VECTORS}
    return blocks[at];
    //#end
    //#unroll scalar {SCALARS}
    return vec4<f32>(blocks[at * 4u], blocks[at * 4u + 1u], blocks[at * 4u + 2u], blocks[at * 4u + 3u]);
    //#end
}

// Stores four outputs of a block, for lanes that have some.
fn store_item(first_row: u32, position: u32, item: u32, sum: vec4<f32>, up: vec4<f32>) {
    if item < BLOCK {
        store_outputs(first_row + item / 4u, position, item % 4u * 4u, sum, up);
    }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
//#include coop_builtins
        @builtin(local_invocation_index) thread: u32) {
    // Workgroups past the last tile compute without storing: cooperative operations need uniform control flow.
    let index = group_index(group, groups);
//#include coop_subgroups
    let slices = params.units / 2u;
    let row_blocks = (params.m + 15u) / 16u;
    let row_tiles = (row_blocks + SUBGROUPS * {BLOCKS}u - 1u) / (SUBGROUPS * {BLOCKS}u);
    let first_position = index / row_tiles * {TILES}u;
    // The units of each slice that this thread loads. With more threads than units, some repeat the last one and do not store it.
    //#unroll load {LOADS}
    let unit{load} = thread + {load}u * THREADS;
    let local{load} = min(unit{load}, UNITS - 1u) / UNITS_PER_SLICE;
    let item{load} = min(unit{load}, UNITS - 1u) % UNITS_PER_SLICE;
    let tile{load} = tile_at(first_position + local{load}) * slices * UNITS_PER_SLICE + item{load};
    let scales{load} = scales_of(tile_at(first_position + local{load}), item{load});
    let stored_at{load} = local{load} * (TILE / 2u) + staged_at(item{load});
    //#end
    //#unroll fixed {FIXED}
    let turn = 0u;
    //#end
    //#unroll varying {VARYING}
    // Fewer subgroups take their rows in turns.
    for (var turn = 0u; turn < SUBGROUPS; turn += subgroups) {
    //#end
    let first_block = (index % row_tiles * SUBGROUPS + turn + subgroup) * {BLOCKS}u;
    //#unroll block {BLOCKS}
    let rows{block} = min(first_block + {block}u, row_blocks - 1u) * slices * SLICE;
    //#unroll tile {TILES}
    //#unroll i {PARTS}
    //#unroll j {PARTS}
    var sum{block}_{tile}_{i}_{j} = coop_mat{SIDE}x{SIDE}<f32, C>();
    //#end
    //#end
    //#end
    //#end
    //#unroll load {LOADS}
    var next_weights{load} = weight[tile{load}];
    var next_scale{load} = scales[scales{load}];
    //#end
    for (var slice = 0u; slice < slices; slice++) {
        //#unroll load {LOADS}
        if THREADS <= UNITS || unit{load} < UNITS {
            store_unit(stored_at{load}, next_weights{load}, divided(next_scale{load}, slice, item{load}));
        }
        //#end
        workgroupBarrier();
        let next = min(slice + 1u, slices - 1u);
        //#unroll load {LOADS}
        next_weights{load} = weight[tile{load} + next * UNITS_PER_SLICE];
        next_scale{load} = scales[scales{load} + scale_of_slice(next)];
        //#end
        for (var step = 0u; step < 4u; step++) {
            //#unroll block {BLOCKS}
            //#unroll i {PARTS}
            //#unroll l {PARTS}
            let rows_at{block}_{i}_{l} = (rows{block} + slice * SLICE + step * BLOCK + {i}u * BELOW + {l}u * BESIDE) * PER_VECTOR;
            let a{block}_{i}_{l} = coopLoadT<coop_mat{SIDE}x{SIDE}<f16, A>>(&x[rows_at{block}_{i}_{l}], BLOCK_ROW);
            //#end
            //#end
            //#end
            //#unroll tile {TILES}
            //#unroll l {PARTS}
            //#unroll j {PARTS}
            let columns_at{tile}_{l}_{j} = ({tile}u * TILE + step * 4u + {l}u * BESIDE + {j}u * 8u * PITCH) * PER_VECTOR;
            let b{tile}_{l}_{j} = coopLoad<coop_mat{SIDE}x{SIDE}<f16, B>>(&columns[columns_at{tile}_{l}_{j}], PITCH * PER_VECTOR);
            //#end
            //#end
            //#end
            //#unroll block {BLOCKS}
            //#unroll tile {TILES}
            //#unroll i {PARTS}
            //#unroll j {PARTS}
            //#unroll l {PARTS}
            sum{block}_{tile}_{i}_{j} = coopMultiplyAdd(a{block}_{i}_{l}, b{tile}_{l}_{j}, sum{block}_{tile}_{i}_{j});
            //#end
            //#end
            //#end
            //#end
            //#end
        }
        workgroupBarrier();
    }
    let stride = BLOCK_ROW;
    //#unroll vector {OUTPUTS}
    var gate{vector} = vec4<f32>();
    //#end
    //#unroll block {BLOCKS}
    //#unroll tile {TILES}
    //#unroll i {PARTS}
    //#unroll j {PARTS}
    // Stored matrices have names: naga's SPIR-V backend requires it.
    let stored{block}_{tile}_{i}_{j} = sum{block}_{tile}_{i}_{j};
    let blocks_at{block}_{tile}_{i}_{j} = (subgroup * BLOCK + {i}u * BELOW + {j}u * BESIDE) * PER_VECTOR;
    coopStoreT(stored{block}_{tile}_{i}_{j}, &blocks[blocks_at{block}_{tile}_{i}_{j}], stride);
    //#end
    //#end
    workgroupBarrier();
    //#unroll vector {OUTPUTS}
    let output{block}_{tile}_{vector} = staged_vector(subgroup * BLOCK + min(lane + {vector}u * lanes, BLOCK - 1u));
    //#end
    workgroupBarrier();
    let row{block}_{tile} = (first_block + {block}u) * 16u;
    //#unroll vector {OUTPUTS}
    if GATED == 0u {
        store_item(row{block}_{tile}, first_position + {tile}u, lane + {vector}u * lanes, output{block}_{tile}_{vector}, vec4<f32>());
    } else if {tile}u % 2u == 0u {
        gate{vector} = output{block}_{tile}_{vector};
    } else {
        store_item(row{block}_{tile}, first_position + {tile}u - 1u, lane + {vector}u * lanes, gate{vector},
                   output{block}_{tile}_{vector});
    }
    //#end
    //#end
    //#end
    //#unroll varying {VARYING}
    }
    //#end
}
