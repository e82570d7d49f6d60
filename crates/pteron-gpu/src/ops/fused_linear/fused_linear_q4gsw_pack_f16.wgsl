// Packs rows as f16 for cooperative matrices: blocks of 16 rows, and in them matrices of 16 × 16, row by row, in the
// order along k of `fused_linear_coop_matrix.wgsl`, or in their own. A workgroup of 256 threads packs one row: it finds the largest magnitude,
// divides the row by the power of two above it, so that nothing overflows, and stores that factor. With a norm, its weights
// are multiplied in and the inverse RMS goes into the factor. Reductions over clusters of lanes, then one barrier.
//
// Rows that the program quantises to 8 bits are packed as the whole numbers that remain when the zero point is subtracted, which f16
// holds; the factor is the row's scale.

//#include grid
//#include lanes
//#include fused_linear_quantise

struct Params {
    rows: u32,
    // Vectors in a row.
    vectors: u32,
    eps: f32,
    // Vectors in a packed row: zeros follow the row's own.
    packed_vectors: u32,
    // The smallest scale of quantised rows.
    int8_eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> norm: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> packed: array<vec4<f16>>;
@group(0) @binding(4) var<storage, read_write> factors: array<f32>;

override NORM: u32 = 0u;
// 1: rows are quantised.
override INT8: u32 = 0u;
// 1: values keep their order along k, for float weights.
override ORDERED: u32 = 0u;

const THREADS: u32 = 256u;
override CLUSTERS: u32 = THREADS / LANES;

// Largest magnitude and sum of squares of each cluster.
var<workgroup> cluster_statistics: array<vec2<f32>, CLUSTERS>;
// Bounds of each cluster, for rows that are quantised.
var<workgroup> cluster_bounds: array<vec2<i32>, CLUSTERS>;

struct Statistics {
    largest: f32,
    squares: f32,
    bounds: vec2<i32>,
}

fn weighted(row: u32, i: u32) -> vec4<f32> {
    var v = x[row * params.vectors + i];
    if NORM == 1u {
        v *= norm[i];
    }
    return v;
}

// The largest magnitude and the bounds of a row, with the norm's weights, and the sum of squares without them.
fn row_statistics(row: u32, thread: u32) -> Statistics {
    var high = 0.0;
    var squares = 0.0;
    var bounds = vec2<i32>();
    for (var i = thread; i < params.vectors; i += THREADS) {
        let v = weighted(row, i);
        if INT8 == 1u {
            bounds = max(bounds, bounds_of(v));
        } else {
            let magnitude = abs(v);
            high = max(high, max(max(magnitude.x, magnitude.y), max(magnitude.z, magnitude.w)));
        }
        if NORM == 1u {
            let plain = x[row * params.vectors + i];
            squares += dot(plain, plain);
        }
    }
    let both = vec2<f32>(max_lanes(high), sum_lanes(squares));
    let bounds_of_all = max_pair_lanes(bounds);
    if thread % LANES == 0u {
        cluster_statistics[thread / LANES] = both;
        cluster_bounds[thread / LANES] = bounds_of_all;
    }
    workgroupBarrier();
    var all = Statistics(cluster_statistics[0].x, cluster_statistics[0].y, cluster_bounds[0]);
    for (var i = 1u; i < CLUSTERS; i++) {
        all.largest = max(all.largest, cluster_statistics[i].x);
        all.squares += cluster_statistics[i].y;
        all.bounds = max(all.bounds, cluster_bounds[i]);
    }
    return all;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) lane: u32,
        @builtin(subgroup_size) subgroup_size: u32) {
    let thread = thread_of(subgroup, lane, subgroup_size);
    // Workgroups past the last row repeat it.
    let row = min(group_index(group, groups), params.rows - 1u);
    let all = row_statistics(row, thread);
    var rms = 1.0;
    if NORM == 1u {
        rms = inverseSqrt(all.squares / f32(params.vectors * 4u) + params.eps);
    }
    let by = quantisation(all.bounds, rms, params.int8_eps);
    // Within the range of f32 factors.
    let exponent = clamp(frexp(all.largest).exp, -100, 100);
    let shrink = ldexp(1.0, -exponent);
    for (var i = thread; i < params.packed_vectors / 2u; i += THREADS) {
        var a = vec4<f32>();
        var b = vec4<f32>();
        if 2u * i < params.vectors {
            a = weighted(row, 2u * i);
            b = weighted(row, 2u * i + 1u);
            if INT8 == 1u {
                a = quantised(a, by) - by.zero;
                b = quantised(b, by) - by.zero;
            } else {
                a *= shrink;
                b *= shrink;
            }
        }
        let at = row / 16u * 16u * params.packed_vectors + (i / 2u * 16u + row % 16u) * 4u + i % 2u * 2u;
        if ORDERED == 1u {
            packed[at] = vec4<f16>(a);
            packed[at + 1u] = vec4<f16>(b);
        } else {
            packed[at] = vec4<f16>(vec4<f32>(a.x, b.x, a.y, b.y));
            packed[at + 1u] = vec4<f16>(vec4<f32>(a.z, b.z, a.w, b.w));
        }
    }
    if thread == 0u {
        factors[row] = select(ldexp(1.0, exponent) * rms, by.scale, INT8 == 1u);
    }
}
