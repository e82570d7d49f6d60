// One tensor to another of the same shape, element by element.
// A workgroup computes 1024 elements of the output, a thread four that lie together.

//#include grid

struct Params {
    count: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;

// Which row of the family's table this is.
override OPERATION: u32 = 0u;

// The exponential of a number that is never positive cannot overflow.
fn sigmoid(v: vec4<f32>) -> vec4<f32> {
    let e = exp(-abs(v));
    return select(e, vec4<f32>(1.0), v >= vec4<f32>(0.0)) / (1.0 + e);
}

fn apply(v: vec4<f32>) -> vec4<f32> {
    switch OPERATION {
        case 0u: { return sigmoid(v); }
        case 1u: { return max(v, vec4<f32>(0.0)); }
        case 2u: { return abs(v); }
        case 3u: { return -v; }
        case 4u: { return exp(v); }
        case 5u: { return sqrt(v); }
        default: { return inverseSqrt(v); }
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    // Buffers are whole vectors long: what lies past the last element is padding.
    if i * 4u >= params.count {
        return;
    }
    out[i] = apply(x[i]);
}
