// Stores one element of the output. Without a bias another buffer is bound in its place and never read.
fn store(m: u32, n: u32, product: f32) {
    var value = product;
    if params.has_bias == 1u {
        value += bias[n];
    }
    out[m * params.n + n] = value;
}
