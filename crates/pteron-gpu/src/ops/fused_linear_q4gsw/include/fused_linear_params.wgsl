// Of the kernels of `fused_linear_q4gsw`: the sizes of a product with the rows of up to three matrices, which are rows of one in
// memory, `weight`. What lies elsewhere for each of those parts is found by its number. Scales come first in `scales`, biases behind.
struct Params {
    m: u32,
    // Columns of all parts, or of one where two are gated.
    n: u32,
    k: u32,
    // Of the norm.
    eps: f32,
    // Bytes from row to row of the weights, and columns of k that share a scale.
    weight_stride: u32,
    group: u32,
    has_addend: u32,
    // The row of x that comes first; with many rows it is the first there is, as that of the addend.
    x_row: u32,
    // Of each part: its first column among those of all, its columns, where its scales begin and how many lie from group to
    // group, and where its bias begins. A part that is not there begins past every column.
    first: vec4<u32>,
    width: vec4<u32>,
    scales: vec4<u32>,
    scale_stride: vec4<u32>,
    bias: vec4<u32>,
    addend_row: u32,
}

const NO_BIAS: u32 = 0xffffffffu;

fn part_of(n: u32) -> u32 {
    return select(0u, 1u, n >= params.first.y) + select(0u, 1u, n >= params.first.z);
}
