// The points of a feature map in pixels of the image. A workgroup of 256 threads writes 256 points, a thread one.

//#include grid

struct Params {
    points: u32,
    width: u32,
    stride: f32,
    offset: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> out: array<vec2<f32>>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i < params.points {
        let index = vec2<f32>(vec2<u32>(i % params.width, i / params.width));
        out[i] = (index + params.offset) * params.stride;
    }
}
