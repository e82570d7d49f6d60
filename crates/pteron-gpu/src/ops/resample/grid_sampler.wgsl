// Samples images at the points of a grid: bilinearly, the nearest pixel, or bicubically. A workgroup of 256 threads computes 256 output
// pixels, a thread one: it loads a point and the pixels around it.

//#include grid

struct Params {
    height: u32,
    width: u32,
    channels: u32,
    // Points of the grid per image.
    points: u32,
    count: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> points: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

// Points outside of the image: 0 pixels there are 0, 1 they take the nearest pixel, 2 they are mirrored into it.
override PADDING: u32 = 1u;
// 0 bilinear, 1 nearest, 2 bicubic.
override INTERPOLATION: u32 = 0u;
// 1: −1 and 1 are the centres of the outermost pixels. 0: their outer edges.
override ALIGN_CORNERS: u32 = 1u;

fn image_size() -> vec2<f32> {
    return vec2<f32>(f32(params.width), f32(params.height));
}

// Mirrors coordinates at the edges of the image until they are inside.
fn mirrored(at: vec2<f32>) -> vec2<f32> {
    let low = vec2<f32>(select(-0.5, 0.0, ALIGN_CORNERS == 1u));
    let span = image_size() + select(0.0, -1.0, ALIGN_CORNERS == 1u);
    let past = abs(at - low);
    let turns = floor(past / max(span, vec2<f32>(1.0)));
    let rest = past - turns * span;
    let odd = (turns - 2.0 * floor(turns * 0.5)) == vec2<f32>(1.0);
    return select(select(rest, span - rest, odd) + low, vec2<f32>(), span <= vec2<f32>());
}

// Coordinates for a point that may be outside of the image.
fn padded(at: vec2<f32>) -> vec2<f32> {
    if PADDING == 0u {
        return at;
    }
    var inside = at;
    if PADDING == 2u {
        inside = mirrored(at);
    }
    return clamp(inside, vec2<f32>(), image_size() - 1.0);
}

// The pixel, 0 outside the image. Coordinates are whole.
fn pixel(plane: u32, at: vec2<f32>) -> f32 {
    let size = image_size();
    let inside = all(at >= vec2<f32>()) && all(at < size);
    let clamped = vec2<u32>(clamp(at, vec2<f32>(), size - 1.0));
    return select(0.0, x[plane + clamped.y * params.width + clamped.x], inside);
}

fn bilinear(plane: u32, place: vec2<f32>) -> f32 {
    let first = floor(place);
    let share = place - first;
    let above = mix(pixel(plane, first), pixel(plane, first + vec2<f32>(1.0, 0.0)), share.x);
    let below = mix(pixel(plane, first + vec2<f32>(0.0, 1.0)), pixel(plane, first + 1.0), share.x);
    return mix(above, below, share.y);
}

// The weights of four pixels for a share from 0 to 1 between the middle ones: cubic convolution with a slope of −0.75.
fn cubic_weights(share: f32) -> vec4<f32> {
    let near = vec2<f32>(share, 1.0 - share);
    let far = near + 1.0;
    let inner = (1.25 * near - 2.25) * near * near + 1.0;
    let outer = ((-0.75 * far + 3.75) * far - 6.0) * far + 3.0;
    return vec4<f32>(outer.x, inner.x, inner.y, outer.y);
}

fn bicubic(plane: u32, place: vec2<f32>) -> f32 {
    let first = floor(place);
    let across = cubic_weights(place.x - first.x);
    let down = cubic_weights(place.y - first.y);
    var sum = 0.0;
    for (var i = 0u; i < 4u; i++) {
        for (var j = 0u; j < 4u; j++) {
            let at = padded(first + vec2<f32>(f32(j) - 1.0, f32(i) - 1.0));
            sum += pixel(plane, at) * across[j] * down[i];
        }
    }
    return sum;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    let plane = i / params.points;
    let point = points[plane / params.channels * params.points + i % params.points];
    var place = ((point + 1.0) * image_size() - 1.0) * 0.5;
    if ALIGN_CORNERS == 1u {
        place = (point + 1.0) * 0.5 * (image_size() - 1.0);
    }
    let start = plane * params.height * params.width;
    if INTERPOLATION == 2u {
        out[i] = bicubic(start, place);
    } else if INTERPOLATION == 1u {
        out[i] = pixel(start, round(padded(place)));
    } else {
        out[i] = bilinear(start, padded(place));
    }
}
