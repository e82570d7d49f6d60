// Stores an output of a tiled GEMM, with bias and addend.
fn finish(m: u32, n: u32, product: f32) {
    let matrix = matrix_of(n);
    let column = n - params.first[matrix];
    let at = m * params.width[matrix] + column;
    var value = product;
    if params.bias[matrix] != NO_BIAS {
        value += scales[params.bias[matrix] + column];
    }
    if params.has_addend == 1u {
        value += addend[at];
    }
    store_output(matrix, at, value);
}
