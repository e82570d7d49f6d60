// Moves blocks of channels to blocks of pixels and quantises them anew. A workgroup of 256 threads writes 256 words, a thread one: four
// bytes.

//#include grid

struct Params {
    // Of the input.
    height: u32,
    width: u32,
    factor: u32,
    count: u32,
    scale: f32,
    zero_point: f32,
    out_inverse: f32,
    out_zero: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

// The offset in the input of an element of the output.
fn source(i: u32) -> u32 {
    let wide = params.width * params.factor;
    let row = i / wide;
    let column = i % wide;
    let tall = params.height * params.factor;
    let y = row % tall;
    let plane = (row / tall * params.factor + y % params.factor) * params.factor + column % params.factor;
    return (plane * params.height + y / params.factor) * params.width + column / params.factor;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let word = group_index(group, groups) * 256u + thread;
    if word > (params.count - 1u) / 4u {
        return;
    }
    var values = vec4<f32>();
    for (var lane = 0u; lane < 4u; lane++) {
        let place = source(min(word * 4u + lane, params.count - 1u));
        values[lane] = f32(bitcast<i32>(x[place / 4u] << (24u - 8u * (place % 4u))) >> 24u);
    }
    let real = (values - params.zero_point) * params.scale;
    let steps = clamp(round(real * params.out_inverse) + params.out_zero, vec4<f32>(-128.0), vec4<f32>(127.0));
    let bytes = bitcast<vec4<u32>>(vec4<i32>(steps)) & vec4<u32>(255u);
    out[word] = dot(bytes << vec4<u32>(0u, 8u, 16u, 24u), vec4<u32>(1u));
}
