// Fused 4-bit linears for prefill with cooperative matrices of 16 × 16: f16 operands, f32 accumulators. A workgroup of SUBGROUPS
// subgroups, one below the other, computes a tile of SUBGROUPS · BLOCKS · 16 rows by TILES · 16 columns, 64 of k at a time.
// Threads load the weights of the next slice into registers, 16 bytes at a time, while the current one is multiplied, and
// dequantise them to f16 on the way to workgroup memory; two barriers per slice. Rows are loaded as matrices, straight from the
// packed rows. For SwiGLU, tiles of 16 columns alternate between the two weights, so that a subgroup has both factors of its
// outputs.

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

override SUBGROUPS: u32 = 4u;
override THREADS: u32 = SUBGROUPS * LANES;
override STAGED: u32 = SUBGROUPS * BLOCK;

var<workgroup> columns: array<vec4<f16>, {TILES}u * TILE>;
// Staging of each subgroup's output block.
var<workgroup> blocks: array<vec4<f32>, STAGED>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    // Workgroups past the last tile compute without storing: cooperative operations need uniform control flow.
    let index = group_index(group, groups);
    let subgroup = thread / LANES;
    let lane = thread % LANES;
    let slices = params.units / 2u;
    let row_blocks = (params.m + 15u) / 16u;
    let row_tiles = (row_blocks + SUBGROUPS * {BLOCKS}u - 1u) / (SUBGROUPS * {BLOCKS}u);
    let first_block = (index % row_tiles * SUBGROUPS + subgroup) * {BLOCKS}u;
    let first_position = index / row_tiles * {TILES}u;
    //#unroll block {BLOCKS}
    let rows{block} = min(first_block + {block}u, row_blocks - 1u) * slices * SLICE;
    //#unroll tile {TILES}
    var sum{block}_{tile} = coop_mat16x16<f32, C>();
    //#end
    //#end
    // Tiles of columns that this subgroup loads.
    //#unroll load {LOADS}
    let local{load} = subgroup + {load}u * SUBGROUPS;
    let tile{load} = tile_at(first_position + local{load}) * slices * LANES + lane;
    let scales{load} = scales_of(tile_at(first_position + local{load}), lane);
    let stored_at{load} = local{load} * (TILE / 2u) + lane % 16u * (PITCH / 2u) + lane / 16u * 4u;
    var next_weights{load} = weight[tile{load}];
    var next_scale{load} = scales[scales{load}];
    //#end
    for (var slice = 0u; slice < slices; slice++) {
        //#unroll load {LOADS}
        store_unit(stored_at{load}, next_weights{load}, divided(next_scale{load}, slice, lane));
        //#end
        workgroupBarrier();
        let next = min(slice + 1u, slices - 1u);
        //#unroll load {LOADS}
        next_weights{load} = weight[tile{load} + next * LANES];
        next_scale{load} = scales[scales{load} + scale_of_slice(next)];
        //#end
        for (var step = 0u; step < 4u; step++) {
            //#unroll block {BLOCKS}
            let rows_at{block} = rows{block} + slice * SLICE + step * 64u;
            let a{block} = coopLoadT<coop_mat16x16<f16, A>>(&x[rows_at{block}], 4u);
            //#end
            //#unroll tile {TILES}
            let columns_at{tile} = {tile}u * TILE + step * 4u;
            let b{tile} = coopLoad<coop_mat16x16<f16, B>>(&columns[columns_at{tile}], PITCH);
            //#end
            //#unroll block {BLOCKS}
            //#unroll tile {TILES}
            sum{block}_{tile} = coopMultiplyAdd(a{block}, b{tile}, sum{block}_{tile});
            //#end
            //#end
        }
        workgroupBarrier();
    }
    let blocks_at = subgroup * BLOCK;
    let stride = 4u;
    let local = lane % 4u * 4u;
    var gate_upper = vec4<f32>();
    var gate_lower = vec4<f32>();
    //#unroll block {BLOCKS}
    //#unroll tile {TILES}
    // Stored matrices have names: naga's SPIR-V backend requires it.
    let stored{block}_{tile} = sum{block}_{tile};
    coopStoreT(stored{block}_{tile}, &blocks[blocks_at], stride);
    workgroupBarrier();
    let upper{block}_{tile} = blocks[blocks_at + lane];
    let lower{block}_{tile} = blocks[blocks_at + LANES + lane];
    workgroupBarrier();
    let row{block}_{tile} = (first_block + {block}u) * 16u + lane / 4u;
    if GATED == 0u {
        store_outputs(row{block}_{tile}, first_position + {tile}u, local, upper{block}_{tile}, vec4<f32>());
        store_outputs(row{block}_{tile} + 8u, first_position + {tile}u, local, lower{block}_{tile}, vec4<f32>());
    } else if {tile}u % 2u == 0u {
        gate_upper = upper{block}_{tile};
        gate_lower = lower{block}_{tile};
    } else {
        store_outputs(row{block}_{tile}, first_position + {tile}u - 1u, local, gate_upper, upper{block}_{tile});
        store_outputs(row{block}_{tile} + 8u, first_position + {tile}u - 1u, local, gate_lower, lower{block}_{tile});
    }
    //#end
    //#end
}
