// A tensor as a matrix whose columns are divided into sections. A dispatch has at most seven: section i starts at column `starts` i,
// and the last ends at the entry after it.
const SECTIONS = 7u;

struct Params {
    starts: array<vec4<u32>, 2>,
    // For stores by section: the first vector of each section, and the end of the last.
    section_vectors: array<vec4<u32>, 2>,
    // Columns and rows of the whole tensor.
    total: u32,
    rows: u32,
    // The columns that the dispatch copies, and its loads in all.
    first: u32,
    width: u32,
    count: u32,
}

fn start_of(section: u32) -> u32 {
    return params.starts[section / 4u][section % 4u];
}

// The number of starts that are at most `at`.
fn starts_before(at: u32, low: vec4<u32>, high: vec4<u32>) -> u32 {
    let none = vec4<u32>();
    let one = vec4<u32>(1u);
    let begun = select(none, one, vec4<u32>(at) >= low) + select(none, one, vec4<u32>(at) >= high);
    return begun.x + begun.y + begun.z + begun.w;
}

// The section of a column; SECTIONS or more where the dispatch has none.
fn section_of(column: u32) -> u32 {
    return starts_before(column, params.starts[0], params.starts[1]) - 1u;
}

fn sections_of(columns: vec4<u32>) -> vec4<u32> {
    return vec4<u32>(section_of(columns.x), section_of(columns.y), section_of(columns.z), section_of(columns.w));
}

// The offsets of these rows and columns in their sections.
fn section_offsets(sections: vec4<u32>, rows: vec4<u32>, columns: vec4<u32>) -> vec4<u32> {
    let starts = vec4<u32>(start_of(sections.x), start_of(sections.y), start_of(sections.z), start_of(sections.w));
    let ends = vec4<u32>(start_of(sections.x + 1u), start_of(sections.y + 1u), start_of(sections.z + 1u), start_of(sections.w + 1u));
    return rows * (ends - starts) + columns - starts;
}
