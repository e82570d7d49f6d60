// Copies elements that are not contiguous in vectors: words, or bytes packed PER_WORD per word.
// A workgroup of 256 threads stores 512 vectors of four words; a thread gathers two vectors, 256 apart. The elements of a vector are in
// one row of the innermost dim and the next, so offsets are computed for these two rows only, unless rows are short.
// For transposes of bytes that tiles do not cover, 32 neighbouring threads store vectors of 32 neighbouring rows instead, 16 of the
// `vectors_per_row` vectors that begin in each row, so that their loads coalesce.

//#include grid
//#include copy_params
//#include packed_elements

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> source: array<u32>;
// The step block, or indices.
@group(0) @binding(2) var<storage, read> words: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<u32>>;

// The row of the first element, its column, and the offsets of that row and the next.
var<private> row: u32;
var<private> column: u32;
var<private> row_x: vec2<u32>;
var<private> row_y: vec2<u32>;

fn load_word(which: u32, word: u32) -> u32 {
    return source[word];
}

fn load_four_words(which: u32, word: u32) -> vec4<u32> {
    return vec4<u32>(source[word], source[word + 1u], source[word + 2u], source[word + 3u]);
}

fn run_stride() -> u32 {
    let strides = strides_of(0u);
    let regular = strides.y == 0u && (strides.x <= 1u || strides.x == REVERSED) && column + 4u * PER_WORD <= params.dims[0].x;
    return select(IRREGULAR, strides.x, regular);
}

fn first_element() -> vec2<u32> {
    let at = vec2<u32>(row_x.x, row_y.x) + column * strides_of(0u);
    return vec2<u32>(0u, source_index(at.xxxx, at.yyyy).x);
}

fn element_offsets(offsets: vec4<u32>) -> Elements {
    let dim = params.dims[0].x;
    let strides = strides_of(0u);
    let ahead = column + offsets;
    let next = ahead >= vec4<u32>(dim);
    var past = select(vec4<u32>(), vec4<u32>(1u), next);
    var at = Offsets(select(row_x.xxxx, row_x.yyyy, next), select(row_y.xxxx, row_y.yyyy, next));
    if dim < 4u * PER_WORD {
        // Four words span at most three rows.
        past = select(ahead / dim, past + select(vec4<u32>(), vec4<u32>(1u), ahead >= vec4<u32>(2u * dim)), PER_WORD == 1u);
        at = strided_offsets(min(row + past, vec4<u32>(params.rows - 1u)), 1u);
    }
    let along = ahead - past * dim;
    return Elements(vec4<u32>(), source_index(at.x + along * strides.x, at.y + along * strides.y));
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let dim = params.dims[0].x;
    let index = group_index(group, groups);
    let last = (params.count - 1u) / (4u * PER_WORD);
    var vectors = index * 512u + thread + vec2<u32>(0u, 256u);
    var inside = vectors <= vec2<u32>(last);
    if params.vectors_per_row > 0u {
        let blocks = (params.vectors_per_row + 15u) / 16u;
        let below = index / blocks * 32u + thread % 32u;
        let start = min(below, params.rows - 1u) * dim;
        vectors = start / (4u * PER_WORD) + index % blocks * 16u + thread / 32u + vec2<u32>(0u, 8u);
        let begins = vectors * 4u * PER_WORD;
        inside = (begins >= vec2<u32>(start)) & (begins - start < vec2<u32>(dim)) & vec2<bool>(below < params.rows);
    }
    if !any(inside) {
        return;
    }
    let firsts = min(vectors, vec2<u32>(last)) * 4u * PER_WORD;
    let own = firsts / dim;
    let columns = firsts - own * dim;
    // Past the last row is padding, which may hold anything.
    let next = min(own + 1u, vec2<u32>(params.rows - 1u));
    let rows = strided_offsets(vec4<u32>(own.x, next.x, own.y, next.y), 1u);
    row = own.x;
    column = columns.x;
    row_x = rows.x.xy;
    row_y = rows.y.xy;
    let a = gather_four_words();
    row = own.y;
    column = columns.y;
    row_x = rows.x.zw;
    row_y = rows.y.zw;
    let b = gather_four_words();
    if inside.x {
        out[vectors.x] = a;
    }
    if inside.y {
        out[vectors.y] = b;
    }
}
