// The sum of all rows' losses, in one workgroup of 256 threads.

struct Params {
    rows: u32,
    columns: u32,
    share: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> losses: array<f32>;
@group(0) @binding(2) var<storage, read_write> loss: array<f32>;

const THREADS: u32 = 256u;
var<workgroup> partials: array<f32, THREADS>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32) {
    var sum = 0.0;
    for (var i = thread; i < params.rows; i += THREADS) {
        sum += losses[i];
    }
    partials[thread] = sum;
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if thread < half {
            partials[thread] += partials[thread + half];
        }
    }
    if thread == 0u {
        loss[0] = partials[0];
    }
}
