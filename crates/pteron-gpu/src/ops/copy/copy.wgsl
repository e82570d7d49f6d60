// A tensor whose elements come from elsewhere, by strides or by index: slices, permutes, flips, repeats, rows of a table.
// An item is four words that lie together on both sides. A workgroup writes 1,024 items, a thread four of them. `place` says
// where items are, from where strides lead.

//#include grid
//#include items
//#include copy_places

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
    let item = own_items(first, params.count);
    let strided = walk(item, 0u);
    let at = place(strided.x, strided.y);
    let a = source[at.x];
    let b = source[at.y];
    let c = source[at.z];
    let d = source[at.w];
    out[item.x] = a;
    if first + 256u < params.count {
        out[item.y] = b;
    }
    if first + 512u < params.count {
        out[item.z] = c;
    }
    if first + 768u < params.count {
        out[item.w] = d;
    }
}
