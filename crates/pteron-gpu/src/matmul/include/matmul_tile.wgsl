// A square tile of the output in a workgroup, 4×4 of it in a thread. The workgroup steps through k, 32 at a time: its
// threads bring a slice of activations and one of weights into workgroup memory, in blocks of 4×4 whose vectors lie along m
// and n, and then each multiplies its four rows by its four columns.
// `enter(batch)` finds the matrices of a batch and says whether there is one. `activations(m, k)` gives four values along k,
// `weight_block(n, k)` four vectors along n, one for each k: 0 past the end of k, anything past the last row or column.
// TRANSPOSED is 1 where neighbours among the weights lie along k, 0 where they lie along n.

// Rows and columns of the tile: 64, or 32 where there would be too few tiles.
override TILE: u32 = 64u;
override VECTORS: u32 = TILE / 4u;
override THREADS: u32 = VECTORS * VECTORS;
const DEPTH: u32 = 32u;
const DEPTH_BLOCKS: u32 = DEPTH / 4u;

// The activations, then the weights.
var<workgroup> slices: array<vec4<f32>, 2u * DEPTH * VECTORS>;

// Where a tile has the vector of four rows at k. Blocks along k are spread, so that threads that store them side by side
// do not meet in one bank.
fn place(k: u32, vector: u32) -> u32 {
    return k * VECTORS + (vector ^ (k / 4u));
}

// Stores a block: a vector for each of four k.
fn put(tile: u32, vector: u32, k: u32, block: mat4x4<f32>) {
    slices[tile + place(k, vector)] = block[0];
    slices[tile + place(k + 1u, vector)] = block[1];
    slices[tile + place(k + 2u, vector)] = block[2];
    slices[tile + place(k + 3u, vector)] = block[3];
}

fn activation_block(m: u32, k: u32) -> mat4x4<f32> {
    return transpose(mat4x4<f32>(activations(m, k), activations(m + 1u, k), activations(m + 2u, k), activations(m + 3u, k)));
}

// Brings one block of the slice at k: those of the activations come first, then those of the weights. Threads that are
// neighbours bring what lies side by side in memory.
fn fill(block: u32, row: u32, column: u32, k: u32) {
    if block < VECTORS * DEPTH_BLOCKS {
        let depth = block % DEPTH_BLOCKS * 4u;
        let vector = block / DEPTH_BLOCKS;
        put(0u, vector, depth, activation_block(row + vector * 4u, k + depth));
    } else {
        let weight = block - VECTORS * DEPTH_BLOCKS;
        var depth = weight / VECTORS * 4u;
        var vector = weight % VECTORS;
        if TRANSPOSED == 1u {
            depth = weight % DEPTH_BLOCKS * 4u;
            vector = weight / DEPTH_BLOCKS;
        }
        put(DEPTH * VECTORS, vector, depth, weight_block(column + vector * 4u, k + depth));
    }
}

fn write_row(m: u32, n: u32, values: vec4<f32>) {
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
    // Neighbours read the same weights.
    let index = group_index(group, groups);
    let tiles = (params.m + TILE - 1u) / TILE;
    let tiles_across = (params.n + TILE - 1u) / TILE;
    let row = index % tiles * TILE;
    let column = index / tiles % tiles_across * TILE;
    let own_row = thread / VECTORS;
    let own_column = thread % VECTORS;
    if enter(index / tiles / tiles_across) {
        var sum0 = vec4<f32>();
        var sum1 = vec4<f32>();
        var sum2 = vec4<f32>();
        var sum3 = vec4<f32>();
        for (var k = 0u; k < params.k; k += DEPTH) {
            for (var block = thread; block < 2u * VECTORS * DEPTH_BLOCKS; block += THREADS) {
                fill(block, row, column, k);
            }
            workgroupBarrier();
            for (var depth = 0u; depth < DEPTH; depth++) {
                let x = slices[place(depth, own_row)];
                let w = slices[DEPTH * VECTORS + place(depth, own_column)];
                sum0 += x.x * w;
                sum1 += x.y * w;
                sum2 += x.z * w;
                sum3 += x.w * w;
            }
            workgroupBarrier();
        }
        let m = row + own_row * 4u;
        let n = column + own_column * 4u;
        write_row(m, n, sum0);
        write_row(m + 1u, n, sum1);
        write_row(m + 2u, n, sum2);
        write_row(m + 3u, n, sum3);
    }
}
