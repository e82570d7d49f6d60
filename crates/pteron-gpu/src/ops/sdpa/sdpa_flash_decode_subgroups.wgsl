// Split-KV decode with subgroup shuffles within clusters of SUBGROUP threads: subgroups, or parts of them where the driver chooses
// their size (WHOLE = 0). A workgroup of THREADS threads computes ROWS query rows of one KV head over one
// split of the context. THREADS_PER_KEY threads of a subgroup share a key: each holds VECTORS adjacent vectors of ROWS queries in
// registers, loads as many of UNROLL keys and values per step, 16 bytes at once where it can, and reduces scores by subgroup shuffles.
// Every group of threads has its own online softmax state; the states are merged at the end, first within the subgroup, then in
// workgroup memory after one barrier.
//
// The first step is loaded before anything that waits for the queries, and each other step before the arithmetic of the one before: a
// short context takes as long as its loads.
//
// With several splits the output is a partial result per row: the unnormalised sum, then a vector with the row's maximum and
// sum, for `sdpa_split_kv_combine`.
//
// The last split reads new keys and values from the inputs, and with a head's first rows also appends them to the caches. No
// workgroup of the dispatch uses those rows of the caches.

//#include grid
//#include flash_params
//#include flash_rotation
//#include flash_new_kv

//#include flash_decode_tile

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) lane: u32,
        @builtin(subgroup_size) subgroup_size: u32) {
    let index = group_index(group, groups);
    let position = step[params.step_base];
    let splits = step[params.step_base + 2u];
    let split_keys = step[params.step_base + 3u];
    let tiles = (params.rows + ROWS - 1u) / ROWS;
    // Neighbouring workgroups take neighbouring heads, which are adjacent in the caches.
    let head = index % params.heads;
    let first = index / params.heads % tiles * ROWS;
    let split = index / params.heads / tiles;
    if split < splits {
        let thread = subgroup * select(subgroup_size, SUBGROUP, WHOLE == 1u) + lane;
        let begin = split * split_keys;
        let end = min(begin + split_keys, position);
        let appends = first == 0u && split + 1u == splits;
        decode_tile(thread, head, first, split, splits, begin, end, position, params.free_position, params.tokens, appends);
    }
}
