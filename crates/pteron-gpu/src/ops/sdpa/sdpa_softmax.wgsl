// Softmax of scores in place. A workgroup of 256 threads computes one row: a thread takes every 256th vector, and tree
// reductions in workgroup memory give the row's maximum and the sum of exponentials. The padding of the last vector is masked
// already.

//#include grid
//#include materialised_params

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> scores: array<vec4<f32>>;

var<workgroup> shared_max: array<f32, 256>;
var<workgroup> shared_sum: array<f32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let s = slice();
    let row = group_index(group, groups);
    let vectors = s.stride / 4u;
    let start = row * vectors;
    // Workgroups past the last row take part in the barriers alone.
    let end = select(0u, vectors, row < s.heads * s.rows);
    var largest = MASKED_SCORE;
    for (var i = thread; i < end; i += 256u) {
        let x = scores[start + i];
        largest = max(largest, max(max(x.x, x.y), max(x.z, x.w)));
    }
    shared_max[thread] = largest;
    workgroupBarrier();
    for (var width = 128u; width > 0u; width /= 2u) {
        if thread < width {
            shared_max[thread] = max(shared_max[thread], shared_max[thread + width]);
        }
        workgroupBarrier();
    }
    largest = shared_max[0];
    var sum = 0.0;
    for (var i = thread; i < end; i += 256u) {
        let x = exp(scores[start + i] - largest);
        scores[start + i] = x;
        sum += x.x + x.y + x.z + x.w;
    }
    shared_sum[thread] = sum;
    workgroupBarrier();
    for (var width = 128u; width > 0u; width /= 2u) {
        if thread < width {
            shared_sum[thread] += shared_sum[thread + width];
        }
        workgroupBarrier();
    }
    // A thread scales only its own stores, so no barrier is needed.
    let scale = 1.0 / shared_sum[0];
    for (var i = thread; i < end; i += 256u) {
        scores[start + i] *= scale;
    }
}
