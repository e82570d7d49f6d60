// Copies a buffer, 16 bytes per thread at a time: the upper bound of memory bandwidth for copies.

@group(0) @binding(0) var<storage, read> from_here: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> to_there: array<vec4<u32>>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    for (var at = group.x * 256u + thread; at < arrayLength(&to_there); at += groups.x * 256u) {
        to_there[at] = from_here[at];
    }
}
