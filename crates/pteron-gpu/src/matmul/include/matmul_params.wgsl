// Parameters of out [m, n] = x [m, k] · weight [n, k]ᵀ + bias; `Params` of matmul/mod.rs is the host's side.
struct Params {
    m: u32,
    n: u32,
    k: u32,
    has_bias: u32,
    // Quantised weights: columns of k per scale, row stride in bytes, scale stride between groups, and index of the last word. 0 for f32
    // weights.
    group: u32,
    weight_stride: u32,
    scale_stride: u32,
    last_word: u32,
}
