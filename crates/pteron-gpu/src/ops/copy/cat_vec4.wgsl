// Concatenates tensors along a dimension, where every section is aligned to vectors of four words.
// A workgroup of 256 threads copies 1024 vectors, four per thread.

//#include grid
//#include thread_vectors
//#include sections
//#include cat_inputs

@group(0) @binding(8) var<storage, read_write> out: array<vec4<u32>>;

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
    let a = load_section(sections.x, at.x);
    let b = load_section(sections.y, at.y);
    let c = load_section(sections.z, at.z);
    let d = load_section(sections.w, at.w);
    let to = rows * params.total + columns;
    out[to.x] = a;
    if first + 256u < params.count {
        out[to.y] = b;
    }
    if first + 512u < params.count {
        out[to.z] = c;
    }
    if first + 768u < params.count {
        out[to.w] = d;
    }
}
