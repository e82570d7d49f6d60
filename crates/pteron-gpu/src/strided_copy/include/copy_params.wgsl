//#include strided_index

struct Params {
    // Dims of the output in loads, innermost first, and the stride of each in the source and in the indices.
    dims: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 4>,
    rank: u32,
    // Loads in the output, and its rows along the innermost dim.
    count: u32,
    rows: u32,
    // The word of the step block that holds the offset of the first load.
    base: u32,
    // For gathers: the length of the indexed dimension, the offset added to negative indices, and the dimension's stride.
    limit: u32,
    wrap: u32,
    index_stride: u32,
    // Vectors that begin in a row, where threads are assigned across rows; else 0.
    vectors_per_row: u32,
}

// The offsets of gathered indices, clamped to the dimension.
fn gathered_offset(indices: vec4<u32>) -> vec4<u32> {
    let given = bitcast<vec4<i32>>(indices);
    let from_start = select(given, given + vec4<i32>(i32(params.wrap)), given < vec4<i32>());
    return min(vec4<u32>(max(from_start, vec4<i32>())), vec4<u32>(params.limit - 1u)) * params.index_stride;
}
