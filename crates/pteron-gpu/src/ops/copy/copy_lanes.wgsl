// The same as copy.wgsl where elements do not lie together by fours: words, or bytes of which PER_WORD are a word.
// A workgroup writes 512 times four words, a thread twice four that follow each other. Their units are in a row of the innermost
// dim and the one after it, so that strides are walked for those two alone, unless rows are short.
// Where neighbouring rows lie side by side in the source (a transpose of bytes that tiles cannot do), 32 neighbouring threads
// write below each other instead, in 16 of the `slots` that each row has for what begins in it.

//#include grid
//#include copy_places
//#include units

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> source: array<u32>;
// The step block, or indices.
@group(0) @binding(2) var<storage, read> words: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<u32>>;

// The row of the first unit, its place there, and where that row and the next one start.
var<private> row: u32;
var<private> inner: u32;
var<private> row_x: vec2<u32>;
var<private> row_y: vec2<u32>;

fn fetch(which: u32, word: u32) -> u32 {
    return source[word];
}

fn fetch_four(which: u32, word: u32) -> vec4<u32> {
    return vec4<u32>(source[word], source[word + 1u], source[word + 2u], source[word + 3u]);
}

fn run_step() -> u32 {
    let steps = steps_of(0u);
    let even = steps.y == 0u && (steps.x <= 1u || steps.x == BACKWARDS) && inner + 4u * PER_WORD <= params.dims[0].x;
    return select(UNEVEN, steps.x, even);
}

fn first_unit() -> vec2<u32> {
    let at = vec2<u32>(row_x.x, row_y.x) + inner * steps_of(0u);
    return vec2<u32>(0u, place(at.xxxx, at.yyyy).x);
}

fn units(offsets: vec4<u32>) -> Units {
    let dim = params.dims[0].x;
    let steps = steps_of(0u);
    let ahead = inner + offsets;
    let next = ahead >= vec4<u32>(dim);
    var past = select(vec4<u32>(), vec4<u32>(1u), next);
    var at = Places(select(row_x.xxxx, row_x.yyyy, next), select(row_y.xxxx, row_y.yyyy, next));
    if dim < 4u * PER_WORD {
        // Four words are in three rows at most.
        past = select(ahead / dim, past + select(vec4<u32>(), vec4<u32>(1u), ahead >= vec4<u32>(2u * dim)), PER_WORD == 1u);
        at = walk(min(row + past, vec4<u32>(params.rows - 1u)), 1u);
    }
    let along = ahead - past * dim;
    return Units(vec4<u32>(), place(at.x + along * steps.x, at.y + along * steps.y));
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let dim = params.dims[0].x;
    let index = group_index(group, groups);
    let last = (params.count - 1u) / (4u * PER_WORD);
    var items = index * 512u + thread + vec2<u32>(0u, 256u);
    var inside = items <= vec2<u32>(last);
    if params.slots > 0u {
        let blocks = (params.slots + 15u) / 16u;
        let below = index / blocks * 32u + thread % 32u;
        let start = min(below, params.rows - 1u) * dim;
        items = start / (4u * PER_WORD) + index % blocks * 16u + thread / 32u + vec2<u32>(0u, 8u);
        let begins = items * 4u * PER_WORD;
        inside = (begins >= vec2<u32>(start)) & (begins - start < vec2<u32>(dim)) & vec2<bool>(below < params.rows);
    }
    if !any(inside) {
        return;
    }
    let firsts = min(items, vec2<u32>(last)) * 4u * PER_WORD;
    let own = firsts / dim;
    let inners = firsts - own * dim;
    // What follows the last row is padding, and may get anything.
    let next = min(own + 1u, vec2<u32>(params.rows - 1u));
    let rows = walk(vec4<u32>(own.x, next.x, own.y, next.y), 1u);
    row = own.x;
    inner = inners.x;
    row_x = rows.x.xy;
    row_y = rows.y.xy;
    let a = four_words();
    row = own.y;
    inner = inners.y;
    row_x = rows.x.zw;
    row_y = rows.y.zw;
    let b = four_words();
    if inside.x {
        out[items.x] = a;
    }
    if inside.y {
        out[items.y] = b;
    }
}
