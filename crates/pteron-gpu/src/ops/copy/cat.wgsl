// Tensors one after the other along a dimension, in items of four words that lie together in all of them.
// A workgroup writes 1,024 items, a thread four of them.

//#include grid
//#include items
//#include parts
//#include cat_sources

@group(0) @binding(8) var<storage, read_write> out: array<vec4<u32>>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let first = group_index(group, groups) * 1024u + thread;
    if first >= params.count {
        return;
    }
    let item = own_items(first, params.count);
    let rows = item / params.width;
    let columns = params.first + item - rows * params.width;
    let parts = parts_of(columns);
    let at = places_in(parts, rows, columns);
    let a = part_at(parts.x, at.x);
    let b = part_at(parts.y, at.y);
    let c = part_at(parts.z, at.z);
    let d = part_at(parts.w, at.w);
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
