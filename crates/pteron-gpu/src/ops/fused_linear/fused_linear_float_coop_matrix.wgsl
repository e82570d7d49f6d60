// Fused linears with 16-bit float weights with cooperative matrices: f16 operands, f32 accumulators. A workgroup computes a tile of
// DOWN · BLOCKS · 16 rows by TILES · 16 columns. Of its subgroups, DOWN share the rows, and SHARES share k evenly, in pairs of blocks, so
// that a small grid occupies a large GPU. Rows come packed in blocks of 16 × 16 (`fused_linear_q4gsw_pack_f16`), columns are stored in
// them: both are loaded straight from storage, and no subgroup waits for another before the sums are added in workgroup memory. For
// SwiGLU, tiles of 16 columns alternate between the two weights.

//#include grid
//#include fused_linear_params
//#include fused_linear_store
//#include fused_linear_coop_store

alias O = vec4<f32>;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<E>;
@group(0) @binding(2) var<storage, read> factors: array<f32>;
@group(0) @binding(3) var<storage, read> weight: array<E>;
@group(0) @binding(4) var<storage, read> scales: array<f32>;
@group(0) @binding(5) var<storage, read> addend: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> out0: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> out1: array<vec4<f32>>;
@group(0) @binding(8) var<storage, read_write> out2: array<vec4<f32>>;

const WEIGHT_FACTOR: f32 = 1.0;

override DOWN: u32 = 1u;
override SHARES: u32 = 8u;
override SUBGROUPS: u32 = DOWN * SHARES;
override THREADS: u32 = SUBGROUPS * LANES;
override SUMS: u32 = SUBGROUPS * BLOCK * PER_VECTOR;

var<workgroup> sums: array<F, SUMS>;

// Adds the sums of the subgroups that share k, of four outputs.
fn total_at(first: u32, shares: u32, at: u32) -> vec4<f32> {
    var total = vec4<f32>();
    for (var part = 0u; part < shares; part++) {
        let from_sums = (first + part) * BLOCK + min(at, BLOCK - 1u);
        //#unroll vector {VECTORS}
        total += sums[from_sums];
        //#end
        //#unroll scalar {SCALARS}
        total += vec4<f32>(sums[from_sums * 4u], sums[from_sums * 4u + 1u], sums[from_sums * 4u + 2u], sums[from_sums * 4u + 3u]);
        //#end
    }
    return total;
}

// Stores four outputs of a block, for threads that have some.
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
    // Subgroups share k if there is one block of rows, else rows.
    let shares = select(1u, subgroups, SHARES > 1u);
    let first_subgroup = subgroup / shares * shares;
    // The outputs of a block that this thread adds and stores: every so many.
    let first_item = (subgroup - first_subgroup) * lanes + lane;
    let items = shares * lanes;
    let share = params.units / shares;
    let begin = subgroup % shares * share;
    let row_blocks = (params.m + 15u) / 16u;
    let row_tiles = (row_blocks + DOWN * {BLOCKS}u - 1u) / (DOWN * {BLOCKS}u);
    let first_position = index / row_tiles * {TILES}u;
    //#unroll tile {TILES}
    let columns{tile} = (tile_at(first_position + {tile}u) * params.units + begin) * BLOCK;
    //#end
    //#unroll fixed {FIXED}
    let turn = 0u;
    //#end
    //#unroll varying {VARYING}
    // Fewer subgroups take their rows in turns.
    for (var turn = 0u; turn < DOWN; turn += select(subgroups, DOWN, SHARES > 1u)) {
    //#end
    let first_block = (index % row_tiles * DOWN + turn + subgroup / shares) * {BLOCKS}u;
    //#unroll block {BLOCKS}
    let rows{block} = (min(first_block + {block}u, row_blocks - 1u) * params.units + begin) * BLOCK;
    //#unroll tile {TILES}
    //#unroll i {PARTS}
    //#unroll j {PARTS}
    var sum{block}_{tile}_{i}_{j} = coop_mat{SIDE}x{SIDE}<f32, C>();
    //#end
    //#end
    //#end
    //#end
    for (var unit = 0u; unit < share; unit += 2u) {
        // The loads of two blocks along k come first.
        //#unroll step 2
        //#unroll block {BLOCKS}
        //#unroll i {PARTS}
        //#unroll l {PARTS}
        let rows_at{step}_{block}_{i}_{l} = (rows{block} + (unit + {step}u) * BLOCK + {i}u * BELOW + {l}u * BESIDE) * PER_VECTOR;
        let a{step}_{block}_{i}_{l} = coopLoadT<coop_mat{SIDE}x{SIDE}<f16, A>>(&x[rows_at{step}_{block}_{i}_{l}], BLOCK_ROW);
        //#end
        //#end
        //#end
        //#unroll tile {TILES}
        //#unroll l {PARTS}
        //#unroll j {PARTS}
        let columns_at{step}_{tile}_{l}_{j} =
            (columns{tile} + (unit + {step}u) * BLOCK + {l}u * BESIDE + {j}u * BELOW) * PER_VECTOR;
        let b{step}_{tile}_{l}_{j} = coopLoad<coop_mat{SIDE}x{SIDE}<f16, B>>(&weight[columns_at{step}_{tile}_{l}_{j}], BLOCK_ROW);
        //#end
        //#end
        //#end
        //#end
        //#unroll step 2
        //#unroll block {BLOCKS}
        //#unroll tile {TILES}
        //#unroll i {PARTS}
        //#unroll j {PARTS}
        //#unroll l {PARTS}
        sum{block}_{tile}_{i}_{j} = coopMultiplyAdd(a{step}_{block}_{i}_{l}, b{step}_{tile}_{l}_{j}, sum{block}_{tile}_{i}_{j});
        //#end
        //#end
        //#end
        //#end
        //#end
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
    let output{block}_{tile}_{vector} = total_at(first_subgroup, shares, first_item + {vector}u * items);
    //#end
    workgroupBarrier();
    let row{block}_{tile} = (first_block + {block}u) * 16u;
    //#unroll vector {OUTPUTS}
    if GATED == 0u {
        store_item(row{block}_{tile}, first_position + {tile}u, first_item + {vector}u * items, output{block}_{tile}_{vector},
                   vec4<f32>());
    } else if {tile}u % 2u == 0u {
        gate{vector} = output{block}_{tile}_{vector};
    } else {
        store_item(row{block}_{tile}, first_position + {tile}u - 1u, first_item + {vector}u * items, gate{vector},
                   output{block}_{tile}_{vector});
    }
    //#end
    //#end
    //#end
    //#unroll varying {VARYING}
    }
    //#end
}
