// Fused 4-bit linears of few rows with cooperative matrices of 16 × 16: f16 operands, f32 accumulators. A workgroup computes a
// tile of BLOCKS · 16 rows by TILES · 16 columns. Its subgroups share k, in slices of 64, so that a small grid occupies a
// large GPU; their sums are added in workgroup memory at the end. Of each tile of columns a lane loads 16 bytes per slice, one
// slice ahead, and dequantises them to its subgroup's part of workgroup memory: no subgroup waits for another. Rows are loaded as
// matrices, straight from the packed rows, which all workgroups share.

//#include grid
//#include fused_linear_params
//#include fused_linear_store
//#include fused_linear_coop_matrix

alias O = vec4<f32>;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read> factors: array<f32>;
@group(0) @binding(3) var<storage, read> weight: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> scales: array<f32>;
@group(0) @binding(5) var<storage, read> addend: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> out0: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> out1: array<vec4<f32>>;
@group(0) @binding(8) var<storage, read_write> out2: array<vec4<f32>>;

override SUBGROUPS: u32 = 8u;
override THREADS: u32 = SUBGROUPS * LANES;
override COLUMNS: u32 = SUBGROUPS * TILE;
override SUMS: u32 = SUBGROUPS * BLOCK;

// Each subgroup's tile of columns, and its block of sums.
var<workgroup> columns: array<vec4<f16>, COLUMNS>;
var<workgroup> sums: array<vec4<f32>, SUMS>;

// Adds the subgroups' sums of four outputs.
fn total_at(at: u32) -> vec4<f32> {
    var total = vec4<f32>();
    for (var subgroup = 0u; subgroup < SUBGROUPS; subgroup++) {
        total += sums[subgroup * BLOCK + at];
    }
    return total;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    // Workgroups past the last tile compute without storing: cooperative operations need uniform control flow.
    let index = group_index(group, groups);
    let subgroup = thread / LANES;
    let lane = thread % LANES;
    let slices = params.units / 2u;
    let share = (slices + SUBGROUPS - 1u) / SUBGROUPS;
    let begin = subgroup * share;
    let row_blocks = (params.m + 15u) / 16u;
    let row_tiles = (row_blocks + {BLOCKS}u - 1u) / {BLOCKS}u;
    let first_block = index % row_tiles * {BLOCKS}u;
    let first_position = index / row_tiles * {TILES}u;
    let own = subgroup * TILE;
    let stored_at = own / 2u + lane % 16u * (PITCH / 2u) + lane / 16u * 4u;
    //#unroll block {BLOCKS}
    let rows{block} = min(first_block + {block}u, row_blocks - 1u) * slices * SLICE;
    //#unroll tile {TILES}
    var sum{block}_{tile} = coop_mat16x16<f32, C>();
    //#end
    //#end
    let first_slice = min(begin, slices - 1u);
    //#unroll tile {TILES}
    let tile{tile} = tile_at(first_position + {tile}u) * slices * LANES + lane;
    let scales{tile} = scales_of(tile_at(first_position + {tile}u), lane);
    var next_weights{tile} = weight[tile{tile} + first_slice * LANES];
    var next_scale{tile} = scales[scales{tile} + scale_of_slice(first_slice)];
    //#end
    for (var i = 0u; i < share; i++) {
        let slice = min(begin + i, slices - 1u);
        let next = min(begin + i + 1u, slices - 1u);
        //#unroll tile {TILES}
        let weights{tile} = next_weights{tile};
        let scale{tile} = divided(next_scale{tile}, begin + i, lane);
        next_weights{tile} = weight[tile{tile} + next * LANES];
        next_scale{tile} = scales[scales{tile} + scale_of_slice(next)];
        //#end
        //#unroll step 4
        //#unroll block {BLOCKS}
        let rows_at{step}_{block} = rows{block} + slice * SLICE + {step}u * 64u;
        let a{step}_{block} = coopLoadT<coop_mat16x16<f16, A>>(&x[rows_at{step}_{block}], 4u);
        //#end
        //#end
        //#unroll tile {TILES}
        store_unit(stored_at, weights{tile}, scale{tile});
        subgroupBarrier();
        //#unroll step 4
        let columns_at{step}_{tile} = own + {step}u * 4u;
        let b{step}_{tile} = coopLoad<coop_mat16x16<f16, B>>(&columns[columns_at{step}_{tile}], PITCH);
        //#unroll block {BLOCKS}
        sum{block}_{tile} = coopMultiplyAdd(a{step}_{block}, b{step}_{tile}, sum{block}_{tile});
        //#end
        //#end
        subgroupBarrier();
        //#end
    }
    let sums_at = subgroup * BLOCK;
    let stride = 4u;
    var gate = vec4<f32>();
    //#unroll block {BLOCKS}
    //#unroll tile {TILES}
    // Stored matrices have names: naga's SPIR-V backend requires it.
    let stored{block}_{tile} = sum{block}_{tile};
    coopStoreT(stored{block}_{tile}, &sums[sums_at], stride);
    workgroupBarrier();
    if thread < BLOCK {
        let total = total_at(thread);
        let row = (first_block + {block}u) * 16u + thread / 4u;
        if GATED == 0u {
            store_outputs(row, first_position + {tile}u, thread % 4u * 4u, total, vec4<f32>());
        } else if {tile}u % 2u == 0u {
            gate = total;
        } else {
            store_outputs(row, first_position + {tile}u - 1u, thread % 4u * 4u, gate, total);
        }
    }
    workgroupBarrier();
    //#end
    //#end
}
