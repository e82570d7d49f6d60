// Two tensors of the same shape to one, or one tensor and a single number.
// A workgroup computes 1024 elements of the output, a thread four that lie together.

//#include grid

struct Params {
    count: u32,
    alpha: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> a: array<vec4<T>>;
@group(0) @binding(2) var<storage, read> b: array<vec4<T>>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<T>>;

// Which row of the family's table this is.
override OPERATION: u32 = 0u;
// 1: b is a single number.
override REPEAT_B: u32 = 0u;

fn combine(x: vec4<T>, y: vec4<T>) -> vec4<T> {
    switch OPERATION {
        case 0u: { return x + T(params.alpha) * y; }
        default: { return x * y; }
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
    if REPEAT_B == 1u {
        out[i] = combine(a[i], vec4<T>(b[0].x));
    } else {
        out[i] = combine(a[i], b[i]);
    }
}
