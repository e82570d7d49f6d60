// Combines the partial results of the splits of a row of a paged attention tile. A workgroup of 256 threads computes one row of one KV
// head, as `sdpa_split_kv_combine` does.

//#include grid
//#include paged_params

// Query rows of a tile.
override ROWS: u32 = 4u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> partials: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> work: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;

//#include flash_combine

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups);
    let tile = index / (params.heads * ROWS);
    if tile < params.tiles {
        let at = TILES + (params.first_tile + tile) * TILE_WORDS;
        let row = work[at] + index % ROWS;
        let head = index / ROWS % params.heads;
        if row < work[at + 1u] {
            combine_row(thread, index, work[SPLITS], query_at(head, row));
        }
    }
}
