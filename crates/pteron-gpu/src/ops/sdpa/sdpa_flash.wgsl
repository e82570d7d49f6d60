// Flash attention. A workgroup of 128 threads computes ROWS query rows of one KV head over one split of the context, in tiles
// of KEYS keys: scores QKᵀ, online softmax, and the weighted sum of values. Queries, scores and row statistics are in
// workgroup memory; the sums are in registers; scores never reach storage buffers.
//
// QKᵀ: a thread computes QUERY_ROWS rows by one or two keys, with one vector load per key and step. Softmax: THREADS / ROWS
// threads share a row, with four barriers per tile. AV: a thread accumulates one vector of the head for VALUE_ROWS rows; where
// threads are left, groups of them take every n-th key and are reduced at the end.
//
// With several splits the output is a partial result per row: the unnormalised sum, then a vector with the row's maximum and
// sum, for `sdpa_split_kv_combine`.
//
// With APPEND_KV, new keys and values are read from the inputs, and the workgroup with a head's first rows and last split
// appends them to the caches. No other workgroup of the dispatch reads those rows of the caches.

//#include grid
//#include flash_params
//#include flash_rotation
//#include flash_new_kv

//#include flash_tile

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups);
    let position = step[params.step_base];
    let context = step[params.step_base + 1u];
    let splits = step[params.step_base + 2u];
    let split_keys = step[params.step_base + 3u];
    let tiles = (params.rows + ROWS - 1u) / ROWS;
    let split = index % splits;
    let first = index / splits % tiles * ROWS;
    let head = index / splits / tiles;
    if head < params.heads {
        let end = min((split + 1u) * split_keys, visible_keys(first + ROWS - 1u, position, context));
        let appends = first == 0u && split + 1u == splits;
        attend_tile(thread, head, first, split, split * split_keys, end, position, context, appends);
    }
}
