// Resizes images to another size. A workgroup of 256 threads computes 256 output pixels, a thread one: from the nearest input pixel
// to the left and above, or from the four around it.

//#include grid

struct Params {
    height: u32,
    width: u32,
    out_height: u32,
    out_width: u32,
    // The distance of two output pixels, in input pixels.
    step_y: f32,
    step_x: f32,
    // The offset of a pixel's centre: half a pixel, or 0 where corners are aligned.
    shift: f32,
    count: u32,
    // Channels of a pixel where they are last, else 1.
    inner: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

override BILINEAR: u32 = 0u;

fn bilinear(plane: u32, index: vec2<u32>, last: vec2<u32>) -> f32 {
    let place = max(vec2<f32>(params.step_y, params.step_x) * (vec2<f32>(index) + params.shift) - params.shift, vec2<f32>());
    let first = min(vec2<u32>(place), last);
    let next = min(first + 1u, last);
    let share = place - vec2<f32>(first);
    let above = plane + first.x * params.width * params.inner;
    let below = plane + next.x * params.width * params.inner;
    let columns = vec2<u32>(first.y, next.y) * params.inner;
    let left = mix(x[above + columns.x], x[below + columns.x], share.x);
    let right = mix(x[above + columns.y], x[below + columns.y], share.x);
    return mix(left, right, share.y);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    let pixel = i / params.inner;
    let row = pixel / params.out_width;
    let index = vec2<u32>(row % params.out_height, pixel % params.out_width);
    // The first pixel of the image, and the channel.
    let plane = row / params.out_height * params.height * params.width * params.inner + i % params.inner;
    let last = vec2<u32>(params.height, params.width) - 1u;
    if BILINEAR == 1u {
        out[i] = bilinear(plane, index, last);
    } else {
        let nearest = min(vec2<u32>(floor(vec2<f32>(index) * vec2<f32>(params.step_y, params.step_x))), last);
        out[i] = x[plane + (nearest.x * params.width + nearest.y) * params.inner];
    }
}
