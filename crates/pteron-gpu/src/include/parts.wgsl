// A tensor whose rows are its parts' rows, one after the other. A dispatch has at most seven parts: the columns of part i
// start at `starts` i, and where the last one ends stands behind it.
const PARTS = 7u;

struct Params {
    starts: array<vec4<u32>, 2>,
    // For parts by themselves: where the items of each start, and the end of all.
    items: array<vec4<u32>, 2>,
    // Columns of the whole, and its rows.
    total: u32,
    rows: u32,
    // Of each row those columns are copied, in all so many units.
    first: u32,
    width: u32,
    count: u32,
}

fn start_of(part: u32) -> u32 {
    return params.starts[part / 4u][part % 4u];
}

// How many of eight starts are not behind `at`.
fn begun(at: u32, low: vec4<u32>, high: vec4<u32>) -> u32 {
    let none = vec4<u32>();
    let one = vec4<u32>(1u);
    let begun = select(none, one, vec4<u32>(at) >= low) + select(none, one, vec4<u32>(at) >= high);
    return begun.x + begun.y + begun.z + begun.w;
}

// The part that has a column; PARTS or more where none has.
fn part_of(column: u32) -> u32 {
    return begun(column, params.starts[0], params.starts[1]) - 1u;
}

fn parts_of(columns: vec4<u32>) -> vec4<u32> {
    return vec4<u32>(part_of(columns.x), part_of(columns.y), part_of(columns.z), part_of(columns.w));
}

// Where parts have these columns of these rows.
fn places_in(parts: vec4<u32>, rows: vec4<u32>, columns: vec4<u32>) -> vec4<u32> {
    let starts = vec4<u32>(start_of(parts.x), start_of(parts.y), start_of(parts.z), start_of(parts.w));
    let ends = vec4<u32>(start_of(parts.x + 1u), start_of(parts.y + 1u), start_of(parts.z + 1u), start_of(parts.w + 1u));
    return rows * (ends - starts) + columns - starts;
}
