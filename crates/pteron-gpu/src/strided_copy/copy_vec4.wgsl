// Copies elements by strides or by index: slices, permutations, flips, repeats, rows of a table.
// A workgroup of 256 threads stores 1024 vectors of four words that are contiguous on both sides; a thread copies four vectors, 256
// apart, and issues all loads before the stores. `source_index` maps strided offsets to vectors of the source.

//#include grid
//#include thread_vectors
//#include copy_params

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> source: array<vec4<u32>>;
// The step block, or indices.
@group(0) @binding(2) var<storage, read> words: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<u32>>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let first = group_index(group, groups) * 1024u + thread;
    if first >= params.count {
        return;
    }
    let vector = thread_vectors(first, params.count);
    let offsets = strided_offsets(vector, 0u);
    let at = source_index(offsets.x, offsets.y);
    let a = source[at.x];
    let b = source[at.y];
    let c = source[at.z];
    let d = source[at.w];
    out[vector.x] = a;
    if first + 256u < params.count {
        out[vector.y] = b;
    }
    if first + 512u < params.count {
        out[vector.z] = c;
    }
    if first + 768u < params.count {
        out[vector.w] = d;
    }
}
