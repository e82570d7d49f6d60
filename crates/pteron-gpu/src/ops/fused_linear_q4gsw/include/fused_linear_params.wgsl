// Parameters of the kernels of `fused_linear_q4gsw`: a product with one to three weight matrices, whose rows follow one
// another in `weight`. Arrays below are indexed by matrix. In `scales`, all scales come first, then the biases.
struct Params {
    m: u32,
    // Columns of all outputs.
    n: u32,
    k: u32,
    // Epsilon of the norm.
    eps: f32,
    // Row stride of the weights in bytes, and columns of k per scale.
    weight_stride: u32,
    group: u32,
    has_addend: u32,
    // First row of x; 0 with many rows, as for the addend.
    x_row: u32,
    // Per matrix: first column among all, columns, offset of its scales, their stride between groups, and offset of its bias. An absent
    // matrix starts past every column.
    first: vec4<u32>,
    width: vec4<u32>,
    scales: vec4<u32>,
    scale_stride: vec4<u32>,
    bias: vec4<u32>,
    addend_row: u32,
}

const NO_BIAS: u32 = 0xffffffffu;

fn matrix_of(n: u32) -> u32 {
    return select(0u, 1u, n >= params.first.y) + select(0u, 1u, n >= params.first.z);
}
