// Two tensors to one, element by element, either of them repeated as broadcasting asks.
// A workgroup computes 256 elements of the output, a thread one.

//#include grid

struct Params {
    // Dims of the output, innermost first, and for each the stride in a and in b (0: repeats).
    dims: array<vec4<u32>, 2>,
    a: array<vec4<u32>, 2>,
    b: array<vec4<u32>, 2>,
    count: u32,
    alpha: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> a: array<T>;
@group(0) @binding(2) var<storage, read> b: array<T>;
@group(0) @binding(3) var<storage, read_write> out: array<T>;

// Which row of the family's table this is.
override OPERATION: u32 = 0u;

fn combine(x: T, y: T) -> T {
    switch OPERATION {
        case 0u: { return x + T(params.alpha) * y; }
        default: { return x * y; }
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    var rest = i;
    var at_a = 0u;
    var at_b = 0u;
    for (var axis = 0u; axis < 8u; axis++) {
        let dim = params.dims[axis / 4u][axis % 4u];
        let index = rest % dim;
        rest /= dim;
        at_a += index * params.a[axis / 4u][axis % 4u];
        at_b += index * params.b[axis / 4u][axis % 4u];
    }
    out[i] = combine(a[at_a], b[at_b]);
}
