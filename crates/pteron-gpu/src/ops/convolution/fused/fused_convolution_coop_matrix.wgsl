// Convolution as an implicit GEMM with cooperative matrices of 16 × 16: f16 operands, f32 accumulators. A workgroup of four subgroups,
// one below the other, computes a tile of 64 · BLOCKS pixels by 16 · TILES output channels of a group. The workgroup steps through taps
// and input channels, 32 at a time: threads gather the next slice of the input into registers while the current one is multiplied, and
// round it to f16 on the way to workgroup memory; two barriers per slice. Weights are loaded as matrices, straight from memory.

//#include grid
//#include fused_convolution_params
//#include fused_convolution_gather
//#include fused_convolution_f16
//#include fused_convolution_store

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<L>;
@group(0) @binding(2) var<storage, read> weight: array<vec4<f16>>;
@group(0) @binding(3) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> addend: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> out: array<vec4<f32>>;

const SUBGROUPS: u32 = 4u;
const LANES: u32 = 32u;
const THREADS: u32 = SUBGROUPS * LANES;
// Vectors of a pixel's slice, and those from one pixel to the next in workgroup memory, padded against bank conflicts.
const SLICE: u32 = 8u;
const PITCH: u32 = 10u;
// Vectors of a matrix of weights, and of a block of sums.
const MATRIX: u32 = 64u;

var<workgroup> staged: array<vec4<f16>, SUBGROUPS * {BLOCKS}u * 16u * PITCH>;
// Staging of each subgroup's output block.
var<workgroup> blocks: array<vec4<f32>, SUBGROUPS * MATRIX>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    // Workgroups past the last tile compute without storing: cooperative operations need uniform control flow.
    let index = group_index(group, groups);
    let subgroup = thread / LANES;
    let lane = thread % LANES;
    let tile_pixels = SUBGROUPS * {BLOCKS}u * 16u;
    let tiles = (params.pixels + tile_pixels - 1u) / tile_pixels;
    let tiles_across = (params.tiles + {TILES}u - 1u) / {TILES}u;
    let first_pixel = index % tiles * tile_pixels;
    let first_tile = index / tiles % tiles_across * {TILES}u;
    let split = index / tiles / tiles_across % params.splits;
    let found_group = index / tiles / tiles_across / params.splits;
    let own_group = min(found_group, params.groups - 1u);
    let first_row = split * params.split_rows;
    let end = min(first_row + params.split_rows, params.rows);
    let first_channel = own_group * params.channels_in;
    // This thread's vector of each slice, of every sixteenth pixel.
    var position = position_of(first_row / 4u + thread % SLICE);
    //#unroll load {LOADS}
    let own_pixel{load} = thread / SLICE + {load}u * (THREADS / SLICE);
    let window{load} = window_of(min(first_pixel + own_pixel{load}, params.pixels - 1u));
    var next{load} = gathered(window{load}, position, first_channel);
    //#end
    //#unroll tile {TILES}
    let weights{tile} = (own_group * params.tiles + min(first_tile + {tile}u, params.tiles - 1u)) * params.rows * 4u;
    //#end
    //#unroll block {BLOCKS}
    //#unroll tile {TILES}
    var sum{block}_{tile} = coop_mat16x16<f32, C>();
    //#end
    //#end
    for (var row = first_row; row < end; row += 32u) {
        //#unroll load {LOADS}
        staged[own_pixel{load} * PITCH + thread % SLICE] = to_f16(next{load});
        //#end
        workgroupBarrier();
        position = advanced(position, SLICE);
        //#unroll load {LOADS}
        next{load} = gathered(window{load}, position, first_channel);
        //#end
        for (var step = 0u; step < 2u; step++) {
            //#unroll block {BLOCKS}
            let pixels_at{block} = (subgroup * {BLOCKS}u + {block}u) * 16u * PITCH + step * 4u;
            let a{block} = coopLoadT<coop_mat16x16<f16, A>>(&staged[pixels_at{block}], PITCH);
            //#end
            //#unroll tile {TILES}
            let weights_at{tile} = weights{tile} + (row + step * 16u) * 4u;
            let b{tile} = coopLoadT<coop_mat16x16<f16, B>>(&weight[weights_at{tile}], 4u);
            //#end
            //#unroll block {BLOCKS}
            //#unroll tile {TILES}
            sum{block}_{tile} = coopMultiplyAdd(a{block}, b{tile}, sum{block}_{tile});
            //#end
            //#end
        }
        workgroupBarrier();
    }
    let blocks_at = subgroup * MATRIX;
    let stride = 4u;
    let local = lane % 4u * 4u;
    //#unroll block {BLOCKS}
    //#unroll tile {TILES}
    // Stored matrices have names: naga's SPIR-V backend requires it.
    let stored{block}_{tile} = sum{block}_{tile};
    coopStoreT(stored{block}_{tile}, &blocks[blocks_at], stride);
    workgroupBarrier();
    let upper{block}_{tile} = blocks[blocks_at + lane];
    let lower{block}_{tile} = blocks[blocks_at + LANES + lane];
    workgroupBarrier();
    let pixel{block}_{tile} = first_pixel + (subgroup * {BLOCKS}u + {block}u) * 16u + lane / 4u;
    if found_group == own_group {
        store(pixel{block}_{tile}, own_group, (first_tile + {tile}u) * 16u + local, split, upper{block}_{tile});
        store(pixel{block}_{tile} + 8u, own_group, (first_tile + {tile}u) * 16u + local, split, lower{block}_{tile});
    }
    //#end
    //#end
}
