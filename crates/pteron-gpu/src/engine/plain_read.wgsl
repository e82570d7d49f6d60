// Reads a buffer, 16 bytes per thread at a time: the upper bound of memory bandwidth for reads. One workgroup reads 64 KiB,
// each thread every 256th vector. Outputs only whether any bit was set, so that no read can be optimised away.

@group(0) @binding(0) var<storage, read> from_here: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> any_bit: array<u32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let start = group.x * 4096u + thread;
    var bits = vec4<u32>(0u);
    for (var step = 0u; step < 16u; step++) {
        bits |= from_here[start + step * 256u];
    }
    if (any(bits != vec4<u32>(0u))) {
        any_bit[0] = 1u;
    }
}
