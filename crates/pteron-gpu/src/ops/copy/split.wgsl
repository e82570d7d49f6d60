// A tensor into parts along a dimension, in items of four words that lie together in all of them.
// A workgroup copies 1,024 items, a thread four of them.

//#include grid
//#include items
//#include parts

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> whole: array<vec4<u32>>;
//#include split_parts

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
    let places = rows * params.total + columns;
    let a = whole[places.x];
    let b = whole[places.y];
    let c = whole[places.z];
    let d = whole[places.w];
    put(parts.x, at.x, a);
    if first + 256u < params.count {
        put(parts.y, at.y, b);
    }
    if first + 512u < params.count {
        put(parts.z, at.z, c);
    }
    if first + 768u < params.count {
        put(parts.w, at.w, d);
    }
}
