// The same as cat.wgsl where parts begin anywhere: words, or bytes of which PER_WORD are a word.
// A workgroup writes 256 times four words, a thread four that follow each other. Where only some of the parts are at hand, all
// of the output is looked at, and units of other parts stay as they are: their dispatch has written them, or will.

//#include grid
//#include parts
//#include cat_sources
//#include units

@group(0) @binding(8) var<storage, read_write> out: array<vec4<u32>>;

// The place of the first unit, and the part that has it.
var<private> row: u32;
var<private> column: u32;
var<private> part: u32;

fn fetch(which: u32, word: u32) -> u32 {
    if which == PARTS {
        return out[word / 4u][word % 4u];
    }
    return part_at(which, word);
}

fn fetch_four(which: u32, word: u32) -> vec4<u32> {
    switch which {
        case 0u: { return vec4<u32>(part0[word], part0[word + 1u], part0[word + 2u], part0[word + 3u]); }
        case 1u: { return vec4<u32>(part1[word], part1[word + 1u], part1[word + 2u], part1[word + 3u]); }
        case 2u: { return vec4<u32>(part2[word], part2[word + 1u], part2[word + 2u], part2[word + 3u]); }
        case 3u: { return vec4<u32>(part3[word], part3[word + 1u], part3[word + 2u], part3[word + 3u]); }
        case 4u: { return vec4<u32>(part4[word], part4[word + 1u], part4[word + 2u], part4[word + 3u]); }
        case 5u: { return vec4<u32>(part5[word], part5[word + 1u], part5[word + 2u], part5[word + 3u]); }
        default: { return vec4<u32>(part6[word], part6[word + 1u], part6[word + 2u], part6[word + 3u]); }
    }
}

fn run_step() -> u32 {
    return select(UNEVEN, 1u, part < PARTS && column + 4u * PER_WORD <= start_of(part + 1u));
}

fn first_unit() -> vec2<u32> {
    let start = start_of(part);
    return vec2<u32>(part, row * (start_of(part + 1u) - start) + column - start);
}

fn units(offsets: vec4<u32>) -> Units {
    var columns = column + offsets;
    var past = select(vec4<u32>(), vec4<u32>(1u), columns >= vec4<u32>(params.total));
    if params.total < 4u * PER_WORD {
        past = columns / params.total;
    }
    columns -= past * params.total;
    let rows = row + past;
    let parts = parts_of(columns);
    let own = (parts < vec4<u32>(PARTS)) & (rows < vec4<u32>(params.rows));
    let at = places_in(min(parts, vec4<u32>(PARTS - 1u)), rows, columns);
    return Units(select(vec4<u32>(PARTS), parts, own), select(rows * params.total + columns, at, own));
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let item = group_index(group, groups) * 256u + thread;
    if item > (params.count - 1u) / (4u * PER_WORD) {
        return;
    }
    row = item * 4u * PER_WORD / params.total;
    column = item * 4u * PER_WORD - row * params.total;
    part = part_of(column);
    let end = column + 4u * PER_WORD;
    if end <= start_of(0u) || (column >= start_of(PARTS) && end <= params.total) {
        return;
    }
    out[item] = four_words();
}
