// Distances between rows. A workgroup of 256 threads computes 256 distances, a thread one: it loads two rows.

//#include grid

struct Params {
    // Dims of the distances, innermost first, and the strides of both tensors at their indices.
    dims: array<vec4<u32>, 2>,
    a: array<vec4<u32>, 2>,
    b: array<vec4<u32>, 2>,
    // Distances, dimensions, and the length of a row.
    count: u32,
    rank: u32,
    length: u32,
    // 0 counts differences, 1 adds them, 2 adds squares, 3 takes the largest, 4 adds powers of p.
    norm: u32,
    p: f32,
    inverse: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> y: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

// 1: all pairs of different rows of one tensor, in order. 0: rows of two tensors.
override PAIRS: u32 = 0u;

// The offsets of both rows of a distance.
fn rows_of(index: u32) -> vec2<u32> {
    var rest = index;
    if PAIRS == 1u {
        // Row 0 has all other rows after it, row 1 all but one, and so on.
        var first = 0u;
        var left = params.dims[0].x - 1u;
        while rest >= left {
            rest -= left;
            left -= 1u;
            first++;
        }
        return vec2<u32>(first, first + 1u + rest) * params.length;
    }
    var at = vec2<u32>();
    for (var axis = 0u; axis < params.rank; axis++) {
        let dim = params.dims[axis / 4u][axis % 4u];
        at += rest % dim * vec2<u32>(params.a[axis / 4u][axis % 4u], params.b[axis / 4u][axis % 4u]);
        rest /= dim;
    }
    return at;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    let rows = rows_of(i);
    var sum = 0.0;
    for (var k = 0u; k < params.length; k++) {
        let apart = abs(x[rows.x + k] - y[rows.y + k]);
        switch params.norm {
            case 0u: { sum += select(0.0, 1.0, apart > 0.0); }
            case 1u: { sum += apart; }
            case 2u: { sum += apart * apart; }
            case 3u: { sum = max(sum, apart); }
            default: { sum += pow(apart, params.p); }
        }
    }
    if params.norm == 2u {
        sum = sqrt(sum);
    } else if params.norm == 4u {
        sum = pow(sum, params.inverse);
    }
    out[i] = sum;
}
