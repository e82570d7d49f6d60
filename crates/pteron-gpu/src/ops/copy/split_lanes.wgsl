// The same as split.wgsl where parts begin anywhere: words, or bytes of which PER_WORD are a word.
// A workgroup writes 256 times four words, a thread four that follow each other in a part.

//#include grid
//#include parts
//#include units

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> whole: array<u32>;
//#include split_parts

// The columns of the part, and the place of the first unit in it.
var<private> start: u32;
var<private> width: u32;
var<private> row: u32;
var<private> column: u32;

fn fetch(which: u32, word: u32) -> u32 {
    return whole[word];
}

fn fetch_four(which: u32, word: u32) -> vec4<u32> {
    return vec4<u32>(whole[word], whole[word + 1u], whole[word + 2u], whole[word + 3u]);
}

fn run_step() -> u32 {
    return select(UNEVEN, 1u, column + 4u * PER_WORD <= width);
}

fn first_unit() -> vec2<u32> {
    return vec2<u32>(0u, row * params.total + start + column);
}

fn units(offsets: vec4<u32>) -> Units {
    var columns = column + offsets;
    var past = select(vec4<u32>(), vec4<u32>(1u), columns >= vec4<u32>(width));
    if width < 4u * PER_WORD {
        past = columns / width;
    }
    columns -= past * width;
    // What follows the last row is padding, and may get anything.
    let rows = min(row + past, vec4<u32>(params.rows - 1u));
    return Units(vec4<u32>(), rows * params.total + start + columns);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups) * 256u + thread;
    if index >= params.items[1].w {
        return;
    }
    let part = begun(index, params.items[0], params.items[1]) - 1u;
    let item = index - params.items[part / 4u][part % 4u];
    start = start_of(part);
    width = start_of(part + 1u) - start;
    row = item * 4u * PER_WORD / width;
    column = item * 4u * PER_WORD - row * width;
    put(part, item, four_words());
}
