// The lines of a tensor, or the parts they are split into, each folded to one value.
// `lines` says what one workgroup takes and how its threads share it.

//#include lines

@group(0) @binding(2) var<storage, read_write> out: array<O>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let part = part_of(group_index(group, groups), thread);
    let all = meet(thread, part.slice, fold(part.first, part.begin, part.end));
    if part.slice == 0u && part.index < params.parts {
        out[part.index] = answer(all);
    }
}
