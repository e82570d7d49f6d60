// Sorts the tiles of rows of pairs in place, by key and then by index. A workgroup of 256 threads sorts a tile of 1024 pairs in
// workgroup memory with a bitonic network: each thread loads and stores four pairs, and exchanges two times two pairs per step.

//#include grid

struct Params {
    rows: u32,
    length: u32,
    run: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> pairs: array<vec2<u32>>;

const THREADS: u32 = 256u;
const TILE: u32 = 1024u;
var<workgroup> tile: array<vec2<u32>, TILE>;

fn is_less(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.x < b.x || (a.x == b.x && a.y < b.y);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let tiles = (params.length + TILE - 1u) / TILE;
    let index = group_index(group, groups);
    let row = index / tiles;
    let start = index % tiles * TILE;
    // Workgroups past the last row sort nothing, past the end of a row are pairs greater than all others.
    let end = select(0u, params.length, row < params.rows);
    for (var i = thread; i < TILE; i += THREADS) {
        var pair = vec2<u32>(0xffffffffu);
        if start + i < end {
            pair = pairs[row * params.length + start + i];
        }
        tile[i] = pair;
    }
    workgroupBarrier();
    for (var size = 2u; size <= TILE; size *= 2u) {
        for (var distance = size / 2u; distance > 0u; distance /= 2u) {
            for (var i = thread; i < TILE / 2u; i += THREADS) {
                let low = i / distance * distance * 2u + i % distance;
                let high = low + distance;
                let a = tile[low];
                let b = tile[high];
                let ascending = (low & size) == 0u;
                if is_less(b, a) == ascending {
                    tile[low] = b;
                    tile[high] = a;
                }
            }
            workgroupBarrier();
        }
    }
    for (var i = thread; i < TILE; i += THREADS) {
        if start + i < end {
            pairs[row * params.length + start + i] = tile[i];
        }
    }
}
