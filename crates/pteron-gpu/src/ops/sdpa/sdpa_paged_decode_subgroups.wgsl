// Split-KV decode over a paged cache, with subgroup shuffles. A workgroup computes one tile of the work list, ROWS query rows of one
// sequence, for one KV head and one split of the context, as `sdpa_flash_decode_subgroups` does. Every key's position is looked up in the
// block table.
//
// With several splits the output is a partial result per row, for `sdpa_paged_combine`. The last split reads new keys and values from the
// inputs, and with a sequence's first rows also appends them to the pools.

//#include grid
//#include paged_params
//#include flash_rotation
//#include paged_tile
//#include flash_decode_tile

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) lane: u32,
        @builtin(subgroup_size) subgroup_size: u32) {
    let index = group_index(group, groups);
    let splits = split_count();
    // Neighbouring workgroups take neighbouring heads, which are adjacent in the pools.
    let head = index % params.heads;
    let tile_index = index / params.heads % params.tiles;
    let split = index / params.heads / params.tiles;
    if split < splits {
        let tile = load_tile(tile_index);
        own_tile = tile;
        own_index = tile_index;
        let thread = subgroup * select(subgroup_size, SUBGROUP, WHOLE == 1u) + lane;
        let split_keys = select(tile.position, work[SPLIT_KEYS], params.is_split == 1u);
        let begin = split * split_keys;
        let end = min(begin + split_keys, tile.position);
        let appends = tile.first_row == tile.first_token * params.group && split + 1u == splits;
        decode_tile(thread, head, tile.first_row, split, splits, begin, end, tile.position, 0u, tokens_of(tile), appends);
    }
}
