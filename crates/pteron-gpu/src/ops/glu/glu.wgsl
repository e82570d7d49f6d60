// The first half of each row times the sigmoid of the second. A workgroup of 256 threads computes 256 outputs, one per thread.

//#include grid

struct Params {
    // Outputs, and outputs of a row.
    count: u32,
    half: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    // The row of the output is twice as long in the input.
    let at = i + i / params.half * params.half;
    let gate = x[at + params.half];
    // exp of a non-positive argument cannot overflow.
    let e = exp(-abs(gate));
    out[i] = x[at] * select(e, 1.0, gate >= 0.0) / (1.0 + e);
}
