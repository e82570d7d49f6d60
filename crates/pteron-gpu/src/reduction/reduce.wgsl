// Reduces each row of a tensor, or each segment of split rows, to one value.
// `reduction` describes the segments of a workgroup and the work of its threads.

//#include reduction

@group(0) @binding(2) var<storage, read_write> out: array<O>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let segment = segment_of(group_index(group, groups), thread);
    let all = reduce_workgroup(thread, segment.lane, reduce_range(segment.first, segment.begin, segment.end));
    if segment.lane == 0u && segment.index < params.segments {
        out[segment.index] = finalize(all);
    }
}
