// Splits a tensor along a dimension at any alignment: words, or bytes packed PER_WORD per word.
// A workgroup of 256 threads stores 256 vectors of four words, one per thread.

//#include grid
//#include sections
//#include packed_elements

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> whole: array<u32>;
//#include split_outputs

// The section's first column and width, and the position of the first element in it.
var<private> start: u32;
var<private> width: u32;
var<private> row: u32;
var<private> column: u32;

fn load_word(which: u32, word: u32) -> u32 {
    return whole[word];
}

fn load_four_words(which: u32, word: u32) -> vec4<u32> {
    return vec4<u32>(whole[word], whole[word + 1u], whole[word + 2u], whole[word + 3u]);
}

fn run_stride() -> u32 {
    return select(IRREGULAR, 1u, column + 4u * PER_WORD <= width);
}

fn first_element() -> vec2<u32> {
    return vec2<u32>(0u, row * params.total + start + column);
}

fn element_offsets(offsets: vec4<u32>) -> Elements {
    var columns = column + offsets;
    var past = select(vec4<u32>(), vec4<u32>(1u), columns >= vec4<u32>(width));
    if width < 4u * PER_WORD {
        past = columns / width;
    }
    columns -= past * width;
    // Past the last row is padding, which may hold anything.
    let rows = min(row + past, vec4<u32>(params.rows - 1u));
    return Elements(vec4<u32>(), rows * params.total + start + columns);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let index = group_index(group, groups) * 256u + thread;
    if index >= params.section_vectors[1].w {
        return;
    }
    let section = starts_before(index, params.section_vectors[0], params.section_vectors[1]) - 1u;
    let vector = index - params.section_vectors[section / 4u][section % 4u];
    start = start_of(section);
    width = start_of(section + 1u) - start;
    row = vector * 4u * PER_WORD / width;
    column = vector * 4u * PER_WORD - row * width;
    store_section(section, vector, gather_four_words());
}
