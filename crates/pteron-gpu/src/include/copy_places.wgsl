//#include walk

struct Params {
    // Dims of the output in units, innermost first, and for each how far a step goes in the source and among the indices.
    dims: array<vec4<u32>, 2>,
    steps: array<vec4<u32>, 4>,
    rank: u32,
    // Units to write, and rows of the innermost dim among them.
    count: u32,
    rows: u32,
    // The word of the step block that says which unit of the source comes first.
    base: u32,
    // Of what indices name: how many there are, what a negative index is added to, and units from one to the next.
    limit: u32,
    wrap: u32,
    pitch: u32,
    // Of each row, where those are written below each other.
    slots: u32,
}

// How far into the source indices lead, whatever they are.
fn picked(indices: vec4<u32>) -> vec4<u32> {
    let given = bitcast<vec4<i32>>(indices);
    let from_start = select(given, given + vec4<i32>(i32(params.wrap)), given < vec4<i32>());
    return min(vec4<u32>(max(from_start, vec4<i32>())), vec4<u32>(params.limit - 1u)) * params.pitch;
}
