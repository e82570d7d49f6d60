// RMS norm: rows divided by the root of the mean of their squares, times one weight per column. One workgroup computes one
// row. Threads load items (one element, or a vector of four) strided by 256 and sum their squares; a tree reduction in
// workgroup memory adds the threads' sums.

//#include grid

struct Params {
    rows: u32,
    // Items in a row.
    items: u32,
    eps: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<T>;
@group(0) @binding(2) var<storage, read> weight: array<T>;
@group(0) @binding(3) var<storage, read_write> out: array<T>;

var<workgroup> sums: array<T, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let row = group_index(group, groups);
    if row < params.rows {
        let start = row * params.items;
        var sum = T();
        for (var i = thread; i < params.items; i += 256u) {
            let v = x[start + i];
            sum += v * v;
        }
        sums[thread] = sum;
        workgroupBarrier();
        for (var half = 128u; half > 0u; half /= 2u) {
            if thread < half {
                sums[thread] += sums[thread + half];
            }
            workgroupBarrier();
        }
        // A single element is splatted to four lanes and counts four times; so does each item of the row.
        let total = dot(vec4<f32>(sums[0]), vec4<f32>(1.0));
        let scale = inverseSqrt(total / f32(4u * params.items) + params.eps);
        for (var i = thread; i < params.items; i += 256u) {
            out[start + i] = x[start + i] * scale * weight[i];
        }
    }
}
