// Rows as 16-bit floats, for the units that multiply matrices. A workgroup takes a row: it finds the largest number, divides all
// by the power of two above it, so that nothing overflows and little is lost below, and leaves what undoes that as the row's
// factor. Where there is a norm, its weights are multiplied in, and what else it multiplies by goes into the factor.

//#include grid

struct Params {
    rows: u32,
    // Vectors in a row.
    vectors: u32,
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> norm: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> packed: array<vec4<f16>>;
@group(0) @binding(4) var<storage, read_write> factors: array<f32>;

override NORM: u32 = 0u;

const THREADS: u32 = 256u;
const SUBGROUPS: u32 = 8u;

// Of each subgroup: the largest number, and the sum of squares.
var<workgroup> found: array<vec2<f32>, SUBGROUPS>;

fn item(row: u32, i: u32) -> vec4<f32> {
    var v = x[row * params.vectors + i];
    if NORM == 1u {
        v *= norm[i];
    }
    return v;
}

// The largest number of a row and the sum of its squares before the norm's weights came in.
fn of_row(row: u32, thread: u32, subgroup: u32, lane: u32) -> vec2<f32> {
    var high = 0.0;
    var squares = 0.0;
    for (var i = thread; i < params.vectors; i += THREADS) {
        let v = abs(item(row, i));
        high = max(high, max(max(v.x, v.y), max(v.z, v.w)));
        if NORM == 1u {
            let plain = x[row * params.vectors + i];
            squares += dot(plain, plain);
        }
    }
    let both = vec2<f32>(subgroupMax(high), subgroupAdd(squares));
    if lane == 0u {
        found[subgroup] = both;
    }
    workgroupBarrier();
    var all = found[0];
    for (var i = 1u; i < SUBGROUPS; i++) {
        all = vec2<f32>(max(all.x, found[i].x), all.y + found[i].y);
    }
    return all;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32, @builtin(subgroup_id) subgroup: u32,
        @builtin(subgroup_invocation_id) lane: u32) {
    // Workgroups past the last row repeat it.
    let row = min(group_index(group, groups), params.rows - 1u);
    let all = of_row(row, thread, subgroup, lane);
    // Within what 32 bits can undo.
    let exponent = clamp(frexp(all.x).exp, -100, 100);
    let shrink = ldexp(1.0, -exponent);
    for (var i = thread; i < params.vectors; i += THREADS) {
        packed[row * params.vectors + i] = vec4<f16>(item(row, i) * shrink);
    }
    if thread == 0u {
        var factor = ldexp(1.0, exponent);
        if NORM == 1u {
            factor *= inverseSqrt(all.y / f32(params.vectors * 4u) + params.eps);
        }
        factors[row] = factor;
    }
}
