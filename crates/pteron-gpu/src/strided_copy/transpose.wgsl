// Transposes words through workgroup memory: the source is contiguous along axis `a`, the output along axis `b`.
// A workgroup of 256 threads moves a tile of 2048 words, 2^a_bits along `a` by 2^b_bits along `b`, eight words per thread. Neighbouring
// threads load along `a` and store along `b`, so both coalesce; one barrier between. Padding of the tile avoids bank conflicts.

//#include grid
//#include transpose_params

@group(0) @binding(1) var<storage, read> source: array<u32>;
@group(0) @binding(2) var<storage, read> step: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;

var<workgroup> tile: array<u32, 2560>;

fn padded(words: vec4<u32>) -> vec4<u32> {
    return words + (words >> vec4<u32>(max(params.b_bits, 2u)));
}

// Loads words of the source into the tile. Positions outside the tensor hold anything, and are not stored.
fn load_words(words_at: vec4<u32>, tile_at: vec3<u32>, start: u32) {
    let a_words_at = words_at & vec4<u32>((1u << params.a_bits) - 1u);
    let b_words_at = words_at >> vec4<u32>(params.a_bits);
    let a = tile_at.x + a_words_at;
    let b = tile_at.y + b_words_at;
    let inside = (a < vec4<u32>(params.a)) & (b < vec4<u32>(params.b));
    let at = start + select(vec4<u32>(), a * params.a_stride + b * params.b_stride, inside);
    let values = vec4<u32>(source[at.x], source[at.y], source[at.z], source[at.w]);
    let to = padded((a_words_at << vec4<u32>(params.b_bits)) + b_words_at);
    tile[to.x] = values.x;
    tile[to.y] = values.y;
    tile[to.z] = values.z;
    tile[to.w] = values.w;
}

// Stores words of the tile to the output.
fn store_words(words: vec4<u32>, tile_at: vec3<u32>, start: u32) {
    let a = tile_at.x + (words >> vec4<u32>(params.b_bits));
    let b = tile_at.y + (words & vec4<u32>((1u << params.b_bits) - 1u));
    let inside = (a < vec4<u32>(params.a)) & (b < vec4<u32>(params.b));
    let at = start + a * params.out_a_stride + b;
    let at_tile = padded(words);
    let values = vec4<u32>(tile[at_tile.x], tile[at_tile.y], tile[at_tile.z], tile[at_tile.w]);
    if inside.x {
        out[at.x] = values.x;
    }
    if inside.y {
        out[at.y] = values.y;
    }
    if inside.z {
        out[at.z] = values.z;
    }
    if inside.w {
        out[at.w] = values.w;
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups);
    if index < params.groups {
        let tile_at = tile_start(index);
        let starts = strided_offsets(vec4<u32>(tile_at.z), 0u);
        let start = starts.x.x + step[params.base];
        let own = thread + vec4<u32>(0u, 256u, 512u, 768u);
        load_words(own, tile_at, start);
        load_words(1024u + own, tile_at, start);
        workgroupBarrier();
        store_words(own, tile_at, starts.y.x);
        store_words(1024u + own, tile_at, starts.y.x);
    }
}
