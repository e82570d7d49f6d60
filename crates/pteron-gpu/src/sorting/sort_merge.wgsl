// Merges sorted runs of pairs two by two. A workgroup of 256 threads moves 256 pairs, a thread one: its place is its place in its run,
// and as many places further as pairs of the other run are less, which a binary search counts. No two pairs are equal.

//#include grid

struct Params {
    rows: u32,
    length: u32,
    // The length of a run.
    run: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> source: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> merged: array<vec2<u32>>;

fn is_less(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.x < b.x || (a.x == b.x && a.y < b.y);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.rows * params.length {
        return;
    }
    let first = i / params.length * params.length;
    let at = i - first;
    let number = at / params.run;
    let base = number / 2u * 2u * params.run;
    let own = source[i];
    // The other run, which may be short or missing at the end of the row.
    var low = min(select(base + params.run, base, number % 2u == 1u), params.length);
    let start = low;
    var high = min(low + params.run, params.length);
    while low < high {
        let middle = (low + high) / 2u;
        if is_less(source[first + middle], own) {
            low = middle + 1u;
        } else {
            high = middle;
        }
    }
    merged[first + base + (at - number * params.run) + (low - start)] = own;
}
