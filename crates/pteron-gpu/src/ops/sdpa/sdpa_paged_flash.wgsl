// Flash attention over a paged cache. A workgroup of 128 threads computes one tile of the work list, ROWS query rows of one sequence,
// for one KV head and one split of the context, as `sdpa_flash` does. Every key's position is looked up in the block table.
//
// With several splits the output is a partial result per row, for `sdpa_paged_combine`. With APPEND_KV, new keys and values are read from
// the inputs, and the workgroup with a sequence's first rows and last split appends them to the pools. No other workgroup of the dispatch
// reads those slots.

//#include grid
//#include paged_params
//#include flash_rotation
//#include paged_tile
//#include flash_tile

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups);
    let splits = split_count();
    let split = index % splits;
    let tile_index = index / splits % params.tiles;
    let head = index / splits / params.tiles;
    if head < params.heads {
        let tile = load_tile(tile_index);
        own_tile = tile;
        own_index = tile_index;
        let last = min(tile.first_row + ROWS, tile.end_row) - 1u;
        let visible = tile.position + last / params.group - tile.first_token + 1u;
        let split_keys = select(visible, work[SPLIT_KEYS], params.is_split == 1u);
        let end = min((split + 1u) * split_keys, visible);
        let appends = tile.first_row == tile.first_token * params.group && split + 1u == splits;
        attend_tile(thread, head, tile.first_row, split, split * split_keys, end, tile.position, 0u, appends);
    }
}
