// Pooling of images [depth, height, width] to a given size. A workgroup of 256 threads computes 256 outputs, a thread one.

//#include grid

struct Params {
    // Outputs.
    count: u32,
    // Of maxima: minus infinity, which WGSL has no name for.
    lowest: f32,
    // Depth, height and width of images.
    input: vec4<u32>,
    output: vec4<u32>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

// A window: its first and last position in each direction, and the offset of its image.
struct Window {
    begin: vec3<u32>,
    end: vec3<u32>,
    first: u32,
}

fn window_of(index: u32) -> Window {
    let to = params.output.xyz;
    let pixel = index % (to.x * to.y * to.z);
    let place = vec3<u32>(pixel / to.z / to.y, pixel / to.z % to.y, pixel % to.z);
    let begin = place * params.input.xyz / to;
    let end = ((place + 1u) * params.input.xyz + to - 1u) / to;
    return Window(begin, end, index / (to.x * to.y * to.z) * params.input.x * params.input.y * params.input.z);
}
