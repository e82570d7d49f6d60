// Concatenates tensors along a dimension at any alignment: words, or bytes packed PER_WORD per word.
// A workgroup of 256 threads stores 256 vectors of four words, one per thread. Where the sections need several dispatches, each visits
// the whole output and keeps the elements of sections that are not its own.

//#include grid
//#include sections
//#include cat_inputs
//#include packed_elements

@group(0) @binding(8) var<storage, read_write> out: array<vec4<u32>>;

// The row and column of the first element, and its section.
var<private> row: u32;
var<private> column: u32;
var<private> section: u32;

fn load_word(which: u32, word: u32) -> u32 {
    if which == SECTIONS {
        return out[word / 4u][word % 4u];
    }
    return load_section(which, word);
}

fn load_four_words(which: u32, word: u32) -> vec4<u32> {
    switch which {
        case 0u: { return vec4<u32>(section0[word], section0[word + 1u], section0[word + 2u], section0[word + 3u]); }
        case 1u: { return vec4<u32>(section1[word], section1[word + 1u], section1[word + 2u], section1[word + 3u]); }
        case 2u: { return vec4<u32>(section2[word], section2[word + 1u], section2[word + 2u], section2[word + 3u]); }
        case 3u: { return vec4<u32>(section3[word], section3[word + 1u], section3[word + 2u], section3[word + 3u]); }
        case 4u: { return vec4<u32>(section4[word], section4[word + 1u], section4[word + 2u], section4[word + 3u]); }
        case 5u: { return vec4<u32>(section5[word], section5[word + 1u], section5[word + 2u], section5[word + 3u]); }
        default: { return vec4<u32>(section6[word], section6[word + 1u], section6[word + 2u], section6[word + 3u]); }
    }
}

fn run_stride() -> u32 {
    return select(IRREGULAR, 1u, section < SECTIONS && column + 4u * PER_WORD <= start_of(section + 1u));
}

fn first_element() -> vec2<u32> {
    let start = start_of(section);
    return vec2<u32>(section, row * (start_of(section + 1u) - start) + column - start);
}

fn element_offsets(offsets: vec4<u32>) -> Elements {
    var columns = column + offsets;
    var past = select(vec4<u32>(), vec4<u32>(1u), columns >= vec4<u32>(params.total));
    if params.total < 4u * PER_WORD {
        past = columns / params.total;
    }
    columns -= past * params.total;
    let rows = row + past;
    let sections = sections_of(columns);
    let own = (sections < vec4<u32>(SECTIONS)) & (rows < vec4<u32>(params.rows));
    let at = section_offsets(min(sections, vec4<u32>(SECTIONS - 1u)), rows, columns);
    return Elements(select(vec4<u32>(SECTIONS), sections, own), select(rows * params.total + columns, at, own));
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let vector = group_index(group, groups) * 256u + thread;
    if vector > (params.count - 1u) / (4u * PER_WORD) {
        return;
    }
    row = vector * 4u * PER_WORD / params.total;
    column = vector * 4u * PER_WORD - row * params.total;
    section = section_of(column);
    let end = column + 4u * PER_WORD;
    if end <= start_of(0u) || (column >= start_of(SECTIONS) && end <= params.total) {
        return;
    }
    out[vector] = gather_four_words();
}
