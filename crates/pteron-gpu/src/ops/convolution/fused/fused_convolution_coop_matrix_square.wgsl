// Convolution as an implicit GEMM with cooperative matrices of 16 × 16: f16 operands, f32 accumulators. A workgroup of eight subgroups, two
// below each other and four beside, computes a tile of 128 pixels by 128 output channels of a group, a subgroup 64 by 32 of it. The workgroup
// steps through taps and input channels, 32 at a time: threads gather the next slice of the input into registers while the current one is
// multiplied, and round it to f16 on the way to one of two slices in workgroup memory; one barrier per slice. A thread looks up its four
// input pixels once per tap. Weights are loaded as matrices, straight from memory, before the barrier.

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

const SUBGROUPS: u32 = 8u;
const DOWN: u32 = 2u;
const ACROSS: u32 = 4u;
// Matrices of 16 pixels, and of 16 channels, per subgroup.
const BLOCKS: u32 = {BLOCKS}u;
const TILES: u32 = {TILES}u;
const LANES: u32 = 32u;
const THREADS: u32 = SUBGROUPS * LANES;
// Vectors of a pixel's slice, and those from one pixel to the next in workgroup memory, padded against bank conflicts.
const SLICE: u32 = 8u;
const PITCH: u32 = 10u;
// Vectors of a matrix of weights, and of a block of sums.
const MATRIX: u32 = 64u;

const STAGED: u32 = DOWN * BLOCKS * 16u * PITCH;

var<workgroup> staged: array<vec4<f16>, 2u * STAGED>;
// Staging of two output blocks of each subgroup.
var<workgroup> blocks: array<vec4<f32>, SUBGROUPS * 2u * MATRIX>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    // Workgroups past the last tile compute without storing: cooperative operations need uniform control flow.
    let index = group_index(group, groups);
    let subgroup = thread / LANES;
    let lane = thread % LANES;
    let tile_pixels = DOWN * BLOCKS * 16u;
    let tiles = (params.pixels + tile_pixels - 1u) / tile_pixels;
    let tiles_across = (params.tiles + ACROSS * TILES - 1u) / (ACROSS * TILES);
    let first_pixel = index % tiles * tile_pixels;
    let first_tile = (index / tiles % tiles_across * ACROSS + subgroup / DOWN) * TILES;
    let split = index / tiles / tiles_across % params.splits;
    let found_group = index / tiles / tiles_across / params.splits;
    let own_group = min(found_group, params.groups - 1u);
    let first_row = split * params.split_rows;
    let end = min(first_row + params.split_rows, params.rows);
    let first_channel = own_group * params.channels_in;
    // This thread's vector of each slice, of some pixels.
    var position = position_of(first_row / 4u + thread % SLICE);
    //#unroll load {LOADS}
    let own_pixel{load} = thread / SLICE + {load}u * (THREADS / SLICE);
    let window{load} = window_of(min(first_pixel + own_pixel{load}, params.pixels - 1u));
    var tap{load} = tap_at(window{load}, position, first_channel);
    var next{load} = tap_vector(tap{load}, position.vector);
    //#end
    //#unroll tile {TILES}
    let tile{tile} = min(first_tile + {tile}u, params.tiles - 1u);
    let weights{tile} = (own_group * params.tiles + tile{tile}) * params.rows * 4u;
    //#end
    //#unroll block {BLOCKS}
    //#unroll tile {TILES}
    var sum{block}_{tile} = coop_mat16x16<f32, C>();
    //#end
    //#end
    var slice_at = 0u;
    for (var row = first_row; row < end; row += 32u) {
        //#unroll step 2
        //#unroll tile {TILES}
        let weights_at{step}_{tile} = weights{tile} + (row + {step}u * 16u) * 4u;
        let b{step}_{tile} = coopLoadT<coop_mat16x16<f16, B>>(&weight[weights_at{step}_{tile}], 4u);
        //#end
        //#end
        //#unroll load {LOADS}
        staged[slice_at + own_pixel{load} * PITCH + thread % SLICE] = to_f16(next{load});
        //#end
        workgroupBarrier();
        let ahead = advanced(position, SLICE);
        if ahead.tap_h != position.tap_h || ahead.tap_w != position.tap_w {
            //#unroll load {LOADS}
            tap{load} = tap_at(window{load}, ahead, first_channel);
            //#end
        }
        position = ahead;
        //#unroll load {LOADS}
        next{load} = tap_vector(tap{load}, position.vector);
        //#end
        //#unroll step 2
        //#unroll block {BLOCKS}
        let pixels_at{step}_{block} = slice_at + (subgroup % DOWN * BLOCKS + {block}u) * 16u * PITCH + {step}u * 4u;
        let a{step}_{block} = coopLoadT<coop_mat16x16<f16, A>>(&staged[pixels_at{step}_{block}], PITCH);
        //#end
        //#unroll block {BLOCKS}
        //#unroll tile {TILES}
        sum{block}_{tile} = coopMultiplyAdd(a{step}_{block}, b{step}_{tile}, sum{block}_{tile});
        //#end
        //#end
        //#end
        slice_at = STAGED - slice_at;
    }
    let blocks_at = subgroup * 2u * MATRIX;
    let second_at = blocks_at + MATRIX;
    let stride = 4u;
    let local = lane % 4u * 4u;
    //#unroll block {BLOCKS}
    let pixel{block} = first_pixel + (subgroup % DOWN * BLOCKS + {block}u) * 16u + lane / 4u;
    // Stored matrices have names: naga's SPIR-V backend requires it.
    let first{block} = sum{block}_0;
    let second{block} = sum{block}_1;
    coopStoreT(first{block}, &blocks[blocks_at], stride);
    coopStoreT(second{block}, &blocks[second_at], stride);
    workgroupBarrier();
    if found_group == own_group {
        //#unroll tile {TILES}
        let channel{block}_{tile} = (first_tile + {tile}u) * 16u + local;
        let from{block}_{tile} = blocks_at + {tile}u * MATRIX + lane;
        store(pixel{block}, own_group, channel{block}_{tile}, split, blocks[from{block}_{tile}]);
        store(pixel{block} + 8u, own_group, channel{block}_{tile}, split, blocks[from{block}_{tile} + LANES]);
        //#end
    }
    workgroupBarrier();
    //#end
}
