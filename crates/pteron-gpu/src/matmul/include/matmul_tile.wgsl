// Tiled GEMM: a workgroup computes a TILE × TILE tile of the output, a thread 4 × 4 of it in registers. The workgroup steps
// through k, 32 at a time: threads stage a slice of activations and one of weights in workgroup memory, as 4 × 4 blocks of
// vectors along m and n, with two barriers per slice. `enter_batch(batch)` finds the matrices of a batch and returns whether
// it exists. `activations(m, k)` returns four values along k, `weight_block(n, k)` four vectors along n, one per k: 0 past the
// end of k, anything past the last row or column. TRANSPOSED is 1 where adjacent weights are along k, 0 where they are along
// n.

// Rows and columns of the tile: 64, or 32 where tiles of 64 would be too few.
override TILE: u32 = 64u;
override VECTORS: u32 = TILE / 4u;
override THREADS: u32 = VECTORS * VECTORS;
const DEPTH: u32 = 32u;
const DEPTH_BLOCKS: u32 = DEPTH / 4u;

// Slices of the activations, then of the weights.
var<workgroup> slices: array<vec4<f32>, 2u * DEPTH * VECTORS>;

// Index of the vector of four rows at k. Swizzled along k against bank conflicts.
fn swizzled(k: u32, vector: u32) -> u32 {
    return k * VECTORS + (vector ^ (k / 4u));
}

// Stores a block: one vector per k.
fn store_block(tile: u32, vector: u32, k: u32, block: mat4x4<f32>) {
    slices[tile + swizzled(k, vector)] = block[0];
    slices[tile + swizzled(k + 1u, vector)] = block[1];
    slices[tile + swizzled(k + 2u, vector)] = block[2];
    slices[tile + swizzled(k + 3u, vector)] = block[3];
}

fn activation_block(m: u32, k: u32) -> mat4x4<f32> {
    return transpose(mat4x4<f32>(activations(m, k), activations(m + 1u, k), activations(m + 2u, k), activations(m + 3u, k)));
}

// Stages one block of the slice at k: activations first, then weights. Adjacent threads load adjacent memory.
fn load_block(block: u32, row: u32, column: u32, k: u32) {
    if block < VECTORS * DEPTH_BLOCKS {
        let depth = block % DEPTH_BLOCKS * 4u;
        let vector = block / DEPTH_BLOCKS;
        store_block(0u, vector, depth, activation_block(row + vector * 4u, k + depth));
    } else {
        let weight = block - VECTORS * DEPTH_BLOCKS;
        var depth = weight / VECTORS * 4u;
        var vector = weight % VECTORS;
        if TRANSPOSED == 1u {
            depth = weight % DEPTH_BLOCKS * 4u;
            vector = weight / DEPTH_BLOCKS;
        }
        store_block(DEPTH * VECTORS, vector, depth, weight_block(column + vector * 4u, k + depth));
    }
}

fn store_row(m: u32, n: u32, values: vec4<f32>) {
    if m < params.m {
        for (var i = 0u; i < 4u; i++) {
            if n + i < params.n {
                finish(m, n + i, values[i]);
            }
        }
    }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    // Neighbouring workgroups read the same weights.
    let index = group_index(group, groups);
    let tiles = (params.m + TILE - 1u) / TILE;
    let tiles_across = (params.n + TILE - 1u) / TILE;
    let row = index % tiles * TILE;
    let column = index / tiles % tiles_across * TILE;
    let own_row = thread / VECTORS;
    let own_column = thread % VECTORS;
    if enter_batch(index / tiles / tiles_across) {
        var sum0 = vec4<f32>();
        var sum1 = vec4<f32>();
        var sum2 = vec4<f32>();
        var sum3 = vec4<f32>();
        for (var k = 0u; k < params.k; k += DEPTH) {
            for (var block = thread; block < 2u * VECTORS * DEPTH_BLOCKS; block += THREADS) {
                load_block(block, row, column, k);
            }
            workgroupBarrier();
            for (var depth = 0u; depth < DEPTH; depth++) {
                let x = slices[swizzled(depth, own_row)];
                let w = slices[DEPTH * VECTORS + swizzled(depth, own_column)];
                sum0 += x.x * w;
                sum1 += x.y * w;
                sum2 += x.z * w;
                sum3 += x.w * w;
            }
            workgroupBarrier();
        }
        let m = row + own_row * 4u;
        let n = column + own_column * 4u;
        store_row(m, n, sum0);
        store_row(m + 1u, n, sum1);
        store_row(m + 2u, n, sum2);
        store_row(m + 3u, n, sum3);
    }
}
