// Splits a tensor along a dimension, where every section is aligned to vectors of four words.
// A workgroup of 256 threads copies 1024 vectors, four per thread.

//#include grid
//#include thread_vectors
//#include sections

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> whole: array<vec4<u32>>;
//#include split_outputs

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let first = group_index(group, groups) * 1024u + thread;
    if first >= params.count {
        return;
    }
    let vector = thread_vectors(first, params.count);
    let rows = vector / params.width;
    let columns = params.first + vector - rows * params.width;
    let sections = sections_of(columns);
    let at = section_offsets(sections, rows, columns);
    let at_whole = rows * params.total + columns;
    let a = whole[at_whole.x];
    let b = whole[at_whole.y];
    let c = whole[at_whole.z];
    let d = whole[at_whole.w];
    store_section(sections.x, at.x, a);
    if first + 256u < params.count {
        store_section(sections.y, at.y, b);
    }
    if first + 512u < params.count {
        store_section(sections.z, at.z, c);
    }
    if first + 768u < params.count {
        store_section(sections.w, at.w, d);
    }
}
