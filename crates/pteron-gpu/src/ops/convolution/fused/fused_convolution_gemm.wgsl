// Convolution as an implicit GEMM: a workgroup computes 64 pixels by 64 output channels of a group, a thread 4 × 4 of it in registers.
// The workgroup steps through taps and input channels, 16 at a time: each thread stages one vector of four input channels and one of
// four weights in workgroup memory, with two barriers per slice. Nothing is unfolded in memory: a thread gathers from the input, and
// its position among taps and channels advances without divisions.

//#include grid
//#include fused_convolution_params
//#include fused_convolution_gather
//#include fused_convolution_store

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<L>;
@group(0) @binding(2) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> addend: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> out: array<vec4<f32>>;

const SIDE: u32 = 64u;
const DEPTH: u32 = 16u;
// Vectors of four pixels or channels of the tile.
const VECTORS: u32 = 16u;

var<workgroup> pixels: array<vec4<f32>, DEPTH * VECTORS>;
var<workgroup> channels: array<vec4<f32>, DEPTH * VECTORS>;

// Index of the vector of four pixels at a row of the slice. Swizzled against bank conflicts.
fn swizzled(row: u32, vector: u32) -> u32 {
    return row * VECTORS + (vector ^ (row / 4u));
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    // Neighbouring workgroups read the same weights.
    let index = group_index(group, groups);
    let tiles = (params.pixels + SIDE - 1u) / SIDE;
    let tiles_across = (params.channels_out + SIDE - 1u) / SIDE;
    let first_pixel = index % tiles * SIDE;
    let first_tile = index / tiles % tiles_across * 4u;
    let split = index / tiles / tiles_across % params.splits;
    let own_group = index / tiles / tiles_across / params.splits;
    if own_group < params.groups {
        let first_row = split * params.split_rows;
        let end = min(first_row + params.split_rows, params.rows);
        // This thread's share of a slice: a pixel's vector of channels, and a row's vector of weights.
        let own_pixel = thread / 4u;
        let window = window_of(min(first_pixel + own_pixel, params.pixels - 1u));
        let first_channel = own_group * params.channels_in;
        var position = position_of(first_row / 4u + thread % 4u);
        let own_row = thread / VECTORS;
        let own_vector = thread % VECTORS;
        let tile = own_group * params.tiles + min(first_tile + own_vector / 4u, params.tiles - 1u);
        var weight_at = (tile * params.rows + first_row + own_row) * 4u + own_vector % 4u;
        var sum0 = vec4<f32>();
        var sum1 = vec4<f32>();
        var sum2 = vec4<f32>();
        var sum3 = vec4<f32>();
        for (var row = first_row; row < end; row += DEPTH) {
            let values = gathered(window, position, first_channel);
            position = advanced(position, DEPTH / 4u);
            let staged = thread % 4u * 4u;
            pixels[swizzled(staged, own_pixel / 4u)][own_pixel % 4u] = values.x;
            pixels[swizzled(staged + 1u, own_pixel / 4u)][own_pixel % 4u] = values.y;
            pixels[swizzled(staged + 2u, own_pixel / 4u)][own_pixel % 4u] = values.z;
            pixels[swizzled(staged + 3u, own_pixel / 4u)][own_pixel % 4u] = values.w;
            channels[own_row * VECTORS + own_vector] = weight[weight_at];
            weight_at += DEPTH * 4u;
            workgroupBarrier();
            for (var k = 0u; k < DEPTH; k++) {
                let a = pixels[swizzled(k, thread / VECTORS)];
                let b = channels[k * VECTORS + own_vector];
                sum0 += a.x * b;
                sum1 += a.y * b;
                sum2 += a.z * b;
                sum3 += a.w * b;
            }
            workgroupBarrier();
        }
        let pixel = first_pixel + thread / VECTORS * 4u;
        let channel = first_tile * 16u + own_vector * 4u;
        store(pixel, own_group, channel, split, sum0);
        store(pixel + 1u, own_group, channel, split, sum1);
        store(pixel + 2u, own_group, channel, split, sum2);
        store(pixel + 3u, own_group, channel, split, sum3);
    }
}
