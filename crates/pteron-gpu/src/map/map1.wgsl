// One tensor to another of the same shape, element by element.
// A workgroup computes 1024 elements of the output, a thread four that lie together.
// A, X, R, O: how the input is stored and computed with, and the same of the output. `widen_x`, `apply` and `narrow` lead from
// one to the next and come from the family's table.

//#include grid
//#include map_params
//#include map_floats
//#include map_integers

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> input_x: array<A>;
@group(0) @binding(2) var<storage, read_write> out: array<O>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    // Buffers are whole vectors long: what lies past the last element is padding. `i * 4u` might wrap in surplus workgroups.
    if i > (params.count - 1u) / 4u {
        return;
    }
    out[i] = narrow(apply(widen_x(input_x[i])));
}
