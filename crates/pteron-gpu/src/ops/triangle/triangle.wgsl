// Matrices with the elements on one side of a diagonal set to zero.
// A workgroup writes 256 words of the output, a thread one: an element, or four that are bytes.

//#include grid

struct Params {
    // Elements, and the size of a matrix.
    count: u32,
    rows: u32,
    columns: u32,
    // The column of the diagonal in the first row.
    diagonal: i32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

// Elements in a word.
override LANES: u32 = 1u;
// 1: the elements from the diagonal on are kept. 0: those up to it.
override UPPER: u32 = 0u;

fn is_kept(i: u32) -> bool {
    let past = i32(i % params.columns) - i32(i / params.columns % params.rows) - params.diagonal;
    return select(past <= 0, past >= 0, UPPER == 1u);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let word = group_index(group, groups) * 256u + thread;
    if word > (params.count - 1u) / LANES {
        return;
    }
    var mask = 0u;
    for (var lane = 0u; lane < LANES; lane++) {
        if is_kept(word * LANES + lane) {
            mask = insertBits(mask, 0xffffffffu, 8u * lane, 32u / LANES);
        }
    }
    out[word] = x[word] & mask;
}
