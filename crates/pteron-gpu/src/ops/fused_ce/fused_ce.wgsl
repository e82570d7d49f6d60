// Cross entropy of a row of logits with its label, and the gradient. A workgroup of 256 threads computes one row: a maximum and a sum of
// exponentials by tree reductions in workgroup memory, then the threads store the gradient. The row's share of the loss goes to `losses`.

//#include grid

struct Params {
    rows: u32,
    columns: u32,
    // The reciprocal of the number of valid rows.
    share: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read> labels: array<i32>;
@group(0) @binding(3) var<storage, read_write> losses: array<f32>;
@group(0) @binding(4) var<storage, read_write> gradient: array<f32>;

const THREADS: u32 = 256u;
var<workgroup> partials: array<f32, THREADS>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let row = group_index(group, groups);
    if row < params.rows {
        let start = row * params.columns;
        var largest = logits[start + min(thread, params.columns - 1u)];
        for (var i = thread; i < params.columns; i += THREADS) {
            largest = max(largest, logits[start + i]);
        }
        partials[thread] = largest;
        for (var half = THREADS / 2u; half > 0u; half /= 2u) {
            workgroupBarrier();
            if thread < half {
                partials[thread] = max(partials[thread], partials[thread + half]);
            }
        }
        workgroupBarrier();
        largest = partials[0];
        workgroupBarrier();
        var sum = 0.0;
        for (var i = thread; i < params.columns; i += THREADS) {
            sum += exp(logits[start + i] - largest);
        }
        partials[thread] = sum;
        for (var half = THREADS / 2u; half > 0u; half /= 2u) {
            workgroupBarrier();
            if thread < half {
                partials[thread] += partials[thread + half];
            }
        }
        workgroupBarrier();
        sum = partials[0];
        let valid = labels[row] >= 0;
        let label = min(u32(max(labels[row], 0)), params.columns - 1u);
        let share = select(0.0, params.share, valid);
        for (var i = thread; i < params.columns; i += THREADS) {
            let probability = exp(logits[start + i] - largest) / sum;
            gradient[start + i] = (probability - select(0.0, 1.0, i == label)) * share;
        }
        if thread == 0u {
            losses[row] = (largest + log(sum) - logits[start + label]) * share;
        }
    }
}
