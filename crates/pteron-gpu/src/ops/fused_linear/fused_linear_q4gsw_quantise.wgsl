// Rows quantised to 8 bits and back, for kernels that multiply floats: the exact values of the quantised rows, times their
// scale. A workgroup of 256 threads computes one row, with a norm first if there is one, by the arithmetic of `rms_norm`, so that the
// same values are quantised. Tree reductions in workgroup memory.

//#include grid
//#include fused_linear_quantise

struct Params {
    rows: u32,
    // Vectors in a row.
    vectors: u32,
    eps: f32,
    int8_eps: f32,
    // First row of x.
    x_row: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> norm: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;

override NORM: u32 = 0u;

const THREADS: u32 = 256u;

var<workgroup> sums: array<vec4<f32>, THREADS>;
var<workgroup> bounds: array<vec2<i32>, THREADS>;

// The inverse RMS of a row.
fn inverse_rms(start: u32, thread: u32) -> f32 {
    var sum = vec4<f32>();
    for (var i = thread; i < params.vectors; i += THREADS) {
        let v = x[start + i];
        sum += v * v;
    }
    sums[thread] = sum;
    workgroupBarrier();
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        if thread < half {
            sums[thread] += sums[thread + half];
        }
        workgroupBarrier();
    }
    let total = dot(sums[0], vec4<f32>(1.0));
    return inverseSqrt(total / f32(4u * params.vectors) + params.eps);
}

fn value_at(start: u32, i: u32, factor: f32) -> vec4<f32> {
    if NORM == 1u {
        return x[start + i] * factor * norm[i];
    }
    return x[start + i];
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let row = group_index(group, groups);
    if row < params.rows {
        let start = (params.x_row + row) * params.vectors;
        var factor = 1.0;
        if NORM == 1u {
            factor = inverse_rms(start, thread);
        }
        var own = vec2<i32>();
        for (var i = thread; i < params.vectors; i += THREADS) {
            own = max(own, bounds_of(value_at(start, i, factor)));
        }
        bounds[thread] = own;
        for (var half = THREADS / 2u; half > 0u; half /= 2u) {
            workgroupBarrier();
            if thread < half {
                bounds[thread] = max(bounds[thread], bounds[thread + half]);
            }
        }
        workgroupBarrier();
        let by = quantisation(bounds[0], 1.0, params.int8_eps);
        for (var i = thread; i < params.vectors; i += THREADS) {
            out[row * params.vectors + i] = (quantised(value_at(start, i, factor), by) - by.zero) * by.scale;
        }
    }
}
