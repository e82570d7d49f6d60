// Tiled product with int8 weights: a workgroup computes a TILE × TILE tile of the output, a thread 4 × 4 of it. The workgroup steps
// through k, 32 at a time: threads stage a slice of both factors in workgroup memory, with two barriers per slice. V is four values of a
// factor along k: a word of bytes, or a vector of floats; Q is V of four rows, S four sums. `fast_block(row, k)` and `slow_block(row, k)`
// return Q: 0 past the end of k, anything past the last row. FAST_ALONG_K and SLOW_ALONG_K are 1 where adjacent memory is along k.
// BATCH_INSIDE is 1 where the output is [slow, batches, fast], else it is [batches, slow, fast]. `result(sums, channels, slow)` returns
// what is stored.

//#include int8_store

override TILE: u32 = 64u;
override VECTORS: u32 = TILE / 4u;
override THREADS: u32 = VECTORS * VECTORS;
// Words of k per slice.
const DEPTH: u32 = 8u;

// Slices of the fast factor, then of the slow one.
var<workgroup> slices: array<Q, 2u * DEPTH * VECTORS>;

// The batch that the workgroup computes.
var<private> batch: u32;

// The vector of rows and the depth that an index of a slice's blocks is for.
fn block_place(block: u32, along_k: bool) -> vec2<u32> {
    return select(vec2<u32>(block % VECTORS, block / VECTORS), vec2<u32>(block / DEPTH, block % DEPTH), along_k);
}

fn load_block(block: u32, fast: u32, slow: u32, k: u32) {
    if block < DEPTH * VECTORS {
        let place = block_place(block, FAST_ALONG_K == 1u);
        slices[place.y * VECTORS + place.x] = fast_block(fast + place.x * 4u, k + place.y * 4u);
    } else {
        let place = block_place(block - DEPTH * VECTORS, SLOW_ALONG_K == 1u);
        slices[(DEPTH + place.y) * VECTORS + place.x] = slow_block(slow + place.x * 4u, k + place.y * 4u);
    }
}

fn finish(fast: u32, slow: u32, sums: S) {
    if slow < params.slow && fast < params.fast {
        let row = select(batch * params.slow + slow, slow * params.batches + batch, BATCH_INSIDE == 1u);
        store(row * params.fast + fast, min(4u, params.fast - fast), result(sums, channels_of(fast, slow), slow));
    }
}

fn sums_of_weights(c: vec4<u32>) -> vec4<i32> {
    return vec4<i32>(weight_sums[c.x], weight_sums[c.y], weight_sums[c.z], weight_sums[c.w]);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    // Neighbouring workgroups read the same rows of the slow factor.
    let index = group_index(group, groups);
    let across = (params.fast + TILE - 1u) / TILE;
    let down = (params.slow + TILE - 1u) / TILE;
    let fast = index % across * TILE;
    let slow = index / across % down * TILE;
    batch = index / across / down;
    let own_fast = thread % VECTORS;
    let own_slow = thread / VECTORS;
    if index / across / down < params.batches {
        var sums0 = S();
        var sums1 = S();
        var sums2 = S();
        var sums3 = S();
        for (var k = 0u; k < params.k; k += DEPTH * 4u) {
            for (var block = thread; block < 2u * DEPTH * VECTORS; block += THREADS) {
                load_block(block, fast, slow, k);
            }
            workgroupBarrier();
            for (var depth = 0u; depth < DEPTH; depth++) {
                let a = slices[depth * VECTORS + own_fast];
                let b = slices[(DEPTH + depth) * VECTORS + own_slow];
                sums0 = added(sums0, a, b[0]);
                sums1 = added(sums1, a, b[1]);
                sums2 = added(sums2, a, b[2]);
                sums3 = added(sums3, a, b[3]);
            }
            workgroupBarrier();
        }
        let m = fast + own_fast * 4u;
        let n = slow + own_slow * 4u;
        finish(m, n, sums0);
        finish(m, n + 1u, sums1);
        finish(m, n + 2u, sums2);
        finish(m, n + 3u, sums3);
    }
}
