// Writes one element of the output. Where there is no bias, some other buffer is bound in its place and not read.
fn store(m: u32, n: u32, product: f32) {
    var value = product;
    if params.has_bias == 1u {
        value += bias[n];
    }
    out[m * params.n + n] = value;
}
