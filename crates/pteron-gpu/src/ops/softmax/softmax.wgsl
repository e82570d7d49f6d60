// Softmax along the lines of a tensor, or its logarithm.
// `lines` says which lines, or parts of lines, a workgroup takes and how its threads share them. The threads fold a line,
// then each writes the items of its share. `source` is the tensor itself, or, where lines are split, what their parts were
// folded to before.

//#include lines

@group(0) @binding(2) var<storage, read> x: array<T>;
@group(0) @binding(3) var<storage, read_write> out: array<T>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let part = part_of(group_index(group, groups), thread);
    let all = meet(thread, part.slice, fold_line(part));
    for (var k = part.begin; k < part.end; k += params.slices) {
        let at = part.first + k * params.inner;
        // `extra` is NaN: what a line without an answer gets.
        out[at] = select(finish(x[at], all.x, all.y), T(params.extra), all.y <= 0.0);
    }
}
