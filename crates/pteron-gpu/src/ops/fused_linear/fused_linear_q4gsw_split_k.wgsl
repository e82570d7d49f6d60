// Fused 4-bit linears of few rows with cooperative matrices: f16 operands, f32 accumulators. A workgroup computes a tile of
// BLOCKS · 16 rows by TILES · 16 columns. Its subgroups share k, in slices of 64, so that a small grid occupies a large GPU; their
// sums are added in workgroup memory at the end. Of each tile of columns a lane loads 16 bytes or more per slice, one slice ahead, and
// dequantises them to its subgroup's part of workgroup memory. Where a barrier of a subgroup orders that memory, no subgroup waits for
// another. Rows are loaded as matrices, straight from the packed rows, which all workgroups share.

//#include grid
//#include fused_linear_params
//#include fused_linear_store
//#include fused_linear_coop_matrix

override SUBGROUPS: u32 = 8u;
override THREADS: u32 = SUBGROUPS * LANES;
// Whether every lane has as many units of a slice.
const EVEN_LOADS: bool = LANES * {LOADS}u == UNITS_PER_SLICE && {FIXED}u == 1u;
override COLUMNS: u32 = SUBGROUPS * TILE * PER_VECTOR;
override SUMS: u32 = SUBGROUPS * BLOCK * PER_VECTOR;

// Each subgroup's tile of columns, and its block of sums.
var<workgroup> columns: array<E, COLUMNS>;
var<workgroup> sums: array<F, SUMS>;

// Adds the subgroups' sums of four outputs.
fn total_at(subgroups: u32, at: u32) -> vec4<f32> {
    var total = vec4<f32>();
    for (var subgroup = 0u; subgroup < subgroups; subgroup++) {
        let from_sums = subgroup * BLOCK + at;
        //#unroll vector {VECTORS}
        total += sums[from_sums];
        //#end
        //#unroll scalar {SCALARS}
        total += vec4<f32>(sums[from_sums * 4u], sums[from_sums * 4u + 1u], sums[from_sums * 4u + 2u], sums[from_sums * 4u + 3u]);
        //#end
    }
    return total;
}

// Orders what the lanes of a subgroup stage and load.
fn staging_barrier() {
    //#unroll own {OWN_BARRIER}
    subgroupBarrier();
    //#end
    //#unroll shared_by_all {SHARED_BARRIER}
    workgroupBarrier();
    //#end
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
//#include coop_builtins
        @builtin(local_invocation_index) thread: u32) {
    // Workgroups past the last tile compute without storing: cooperative operations need uniform control flow.
    let index = group_index(group, groups);
//#include coop_subgroups
    let slices = params.units / 2u;
    let share = (slices + subgroups - 1u) / subgroups;
    let begin = subgroup * share;
    let row_blocks = (params.m + 15u) / 16u;
    let row_tiles = (row_blocks + {BLOCKS}u - 1u) / {BLOCKS}u;
    let first_block = index % row_tiles * {BLOCKS}u;
    let first_position = index / row_tiles * {TILES}u;
    let own = subgroup * TILE;
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
    let first_slice = min(begin, slices - 1u);
    // The units of a slice that this lane loads. With more lanes than units, some repeat the last one and do not store it.
    //#unroll load {LOADS}
    let unit{load} = lane + {load}u * lanes;
    let item{load} = min(unit{load}, UNITS_PER_SLICE - 1u);
    let stored_at{load} = own / 2u + staged_at(item{load});
    //#unroll tile {TILES}
    let tile{tile}_{load} = tile_at(first_position + {tile}u) * slices * UNITS_PER_SLICE + item{load};
    let scales{tile}_{load} = scales_of(tile_at(first_position + {tile}u), item{load});
    var next_weights{tile}_{load} = weight[tile{tile}_{load} + first_slice * UNITS_PER_SLICE];
    var next_scale{tile}_{load} = scales[scales{tile}_{load} + scale_of_slice(first_slice)];
    //#end
    //#end
    for (var offset = 0u; offset < share; offset++) {
        let slice = min(begin + offset, slices - 1u);
        let next = min(begin + offset + 1u, slices - 1u);
        //#unroll tile {TILES}
        //#unroll load {LOADS}
        let weights{tile}_{load} = next_weights{tile}_{load};
        let scale{tile}_{load} = divided(next_scale{tile}_{load}, begin + offset, item{load});
        next_weights{tile}_{load} = weight[tile{tile}_{load} + next * UNITS_PER_SLICE];
        next_scale{tile}_{load} = scales[scales{tile}_{load} + scale_of_slice(next)];
        //#end
        //#end
        //#unroll step 4
        //#unroll block {BLOCKS}
        //#unroll i {PARTS}
        //#unroll l {PARTS}
        let rows_at{step}_{block}_{i}_{l} =
            (rows{block} + slice * SLICE + {step}u * BLOCK + {i}u * BELOW + {l}u * BESIDE) * PER_VECTOR;
        let a{step}_{block}_{i}_{l} = coopLoadT<coop_mat{SIDE}x{SIDE}<f16, A>>(&x[rows_at{step}_{block}_{i}_{l}], BLOCK_ROW);
        //#end
        //#end
        //#end
        //#end
        //#unroll tile {TILES}
        //#unroll load {LOADS}
        if EVEN_LOADS || unit{load} < UNITS_PER_SLICE {
            store_unit(stored_at{load}, weights{tile}_{load}, scale{tile}_{load});
        }
        //#end
        staging_barrier();
        //#unroll step 4
        //#unroll l {PARTS}
        //#unroll j {PARTS}
        let columns_at{step}_{tile}_{l}_{j} = (own + {step}u * 4u + {l}u * BESIDE + {j}u * 8u * PITCH) * PER_VECTOR;
        let b{step}_{tile}_{l}_{j} =
            coopLoad<coop_mat{SIDE}x{SIDE}<f16, B>>(&columns[columns_at{step}_{tile}_{l}_{j}], PITCH * PER_VECTOR);
        //#unroll block {BLOCKS}
        //#unroll i {PARTS}
        sum{block}_{tile}_{i}_{j} = coopMultiplyAdd(a{step}_{block}_{i}_{l}, b{step}_{tile}_{l}_{j}, sum{block}_{tile}_{i}_{j});
        //#end
        //#end
        //#end
        //#end
        //#end
        staging_barrier();
        //#end
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
    let sums_at{block}_{tile}_{i}_{j} = (subgroup * BLOCK + {i}u * BELOW + {j}u * BESIDE) * PER_VECTOR;
    coopStoreT(stored{block}_{tile}_{i}_{j}, &sums[sums_at{block}_{tile}_{i}_{j}], stride);
    //#end
    //#end
    workgroupBarrier();
    //#unroll vector {OUTPUTS}
    if thread + {vector}u * THREADS < BLOCK {
        let at = thread + {vector}u * THREADS;
        let total = total_at(subgroups, at);
        let row = (first_block + {block}u) * 16u + at / 4u;
        if GATED == 0u {
            store_outputs(row, first_position + {tile}u, at % 4u * 4u, total, vec4<f32>());
        } else if {tile}u % 2u == 0u {
            gate{vector} = total;
        } else {
            store_outputs(row, first_position + {tile}u - 1u, at % 4u * 4u, gate{vector}, total);
        }
    }
    //#end
    workgroupBarrier();
    //#end
    //#end
}
