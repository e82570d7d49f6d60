// The sizes of out [m, n] = x [m, k] · weight [n, k]ᵀ + bias, as `Params` of matmul.rs has them.
struct Params {
    m: u32,
    n: u32,
    k: u32,
    has_bias: u32,
    // Of quantised weights: columns of k that share a scale, bytes from row to row, scales from group to group, and the
    // last word of all. 0 for plain weights.
    group: u32,
    weight_stride: u32,
    scale_stride: u32,
    last_word: u32,
}
