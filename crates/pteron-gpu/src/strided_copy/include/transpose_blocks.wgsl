//#include grid
//#include transpose_params

// Four rows of four elements.
struct Block {
    p: V,
    q: V,
    r: V,
    s: V,
}

const IN_ORDER = vec4<u32>(0u, 1u, 2u, 3u);

@group(0) @binding(1) var<storage, read> source: array<V>;
@group(0) @binding(2) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<V>;

var<workgroup> tile: array<V, 4u * BLOCKS>;

fn swizzled(rows: vec4<u32>, item: vec4<u32>) -> vec4<u32> {
    let mixed = item ^ ((rows / 4u) & vec4<u32>((1u << params.b_bits) - 1u));
    return (rows << vec4<u32>(params.b_bits)) + mixed;
}

// The offsets of indices of the other axes, which are known where a tile has only one.
fn outer_offsets(outer: vec4<u32>, only: Offsets) -> Offsets {
    if params.outer_bits == 0u {
        return only;
    }
    return strided_offsets(outer, 0u);
}

// The position of a block in the tile: along `a`, along `b`, and along the other axes.
fn block_position(block: u32) -> vec3<u32> {
    let a = block & ((1u << params.a_bits) - 1u);
    let b = (block >> params.a_bits) & ((1u << params.b_bits) - 1u);
    return vec3<u32>(a, b, block >> (params.a_bits + params.b_bits));
}

// Loads a block of the source. Outside the tensor it holds anything, and is not stored.
fn load_block(block: u32, tile_at: vec3<u32>, only: Offsets) -> Block {
    let position = tile_at + block_position(block);
    let start = outer_offsets(vec4<u32>(min(position.z, params.outer - 1u)), only).x.x + step[params.base];
    let inside = 4u * position.x < params.a && 4u * position.y < params.b;
    let offset = select(0u, 4u * position.x + 4u * position.y * params.b_stride, inside);
    let at = (start + offset + IN_ORDER * select(0u, params.b_stride, inside)) / 4u;
    return Block(source[at.x], source[at.y], source[at.z], source[at.w]);
}

fn store_block(block: u32, rows: Block) {
    let columns = transposed(rows);
    let position = block_position(block);
    let to = swizzled(4u * ((position.z << params.a_bits) + position.x) + IN_ORDER, vec4<u32>(position.y));
    tile[to.x] = columns.p;
    tile[to.y] = columns.q;
    tile[to.z] = columns.r;
    tile[to.w] = columns.s;
}

fn store_vectors(items: vec4<u32>, tile_at: vec3<u32>, only: Offsets) {
    let rows = items >> vec4<u32>(params.b_bits);
    let b_blocks = items & vec4<u32>((1u << params.b_bits) - 1u);
    let a = 4u * tile_at.x + (rows & vec4<u32>((4u << params.a_bits) - 1u));
    let b = 4u * (tile_at.y + b_blocks);
    let outer = tile_at.z + (rows >> vec4<u32>(params.a_bits + 2u));
    let inside = (a < vec4<u32>(params.a)) & (b < vec4<u32>(params.b)) & (outer < vec4<u32>(params.outer));
    let at = (outer_offsets(outer, only).y + a * params.out_a_stride + b) / 4u;
    let at_tile = swizzled(rows, b_blocks);
    if inside.x {
        out[at.x] = tile[at_tile.x];
    }
    if inside.y {
        out[at.y] = tile[at_tile.y];
    }
    if inside.z {
        out[at.z] = tile[at_tile.z];
    }
    if inside.w {
        out[at.w] = tile[at_tile.w];
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups);
    if index < params.groups {
        let tile_at = tile_start(index);
        let only = strided_offsets(vec4<u32>(tile_at.z), 0u);
        // All loads of a thread are in flight before it uses any.
        let first = load_block(thread, tile_at, only);
        if BLOCKS > 256u {
            let second = load_block(256u + thread, tile_at, only);
            store_block(256u + thread, second);
        }
        store_block(thread, first);
        workgroupBarrier();
        store_vectors(thread + 256u * IN_ORDER, tile_at, only);
        if BLOCKS > 256u {
            store_vectors(1024u + thread + 256u * IN_ORDER, tile_at, only);
        }
    }
}
