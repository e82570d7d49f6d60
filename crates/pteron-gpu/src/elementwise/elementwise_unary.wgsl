// Elementwise operators of one tensor.
// A workgroup computes 1024 output elements with 256 threads: each loads one vector of four, applies the expression and stores one.
// A is the input's storage type, X its compute type, R the result's compute type and O its storage type. The operator's table row
// provides `widen_x` (A to X), `apply` (X to R) and `narrow` (R to O).

//#include grid
//#include elementwise_params
//#include float_math
//#include integer_math

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> input_x: array<A>;
@group(0) @binding(2) var<storage, read_write> out: array<O>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    // Buffers are padded to whole vectors. `i * 4u` might wrap in surplus workgroups.
    if i > (params.count - 1u) / 4u {
        return;
    }
    out[i] = narrow(apply(widen_x(input_x[i])));
}
