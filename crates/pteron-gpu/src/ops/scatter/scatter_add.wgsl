// Adds source elements to the elements that they name, in order. Pairs of an element and a source element are sorted. A workgroup of
// 256 threads writes 256 elements, a thread one: it finds its first pair by a binary search.

//#include grid
//#include scatter_params

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<T>;
@group(0) @binding(2) var<storage, read> pairs: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read> source: array<T>;
@group(0) @binding(4) var<storage, read_write> out: array<T>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    var low = 0u;
    var high = params.sources;
    while low < high {
        let middle = (low + high) / 2u;
        if pairs[middle].x < i {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    var sum = x[i];
    for (; low < params.sources; low++) {
        let pair = pairs[low];
        if pair.x != i {
            break;
        }
        sum += source[held_element(pair.y)];
    }
    out[i] = sum;
}
