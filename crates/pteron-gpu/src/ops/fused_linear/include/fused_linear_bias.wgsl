// Adds the biases of four adjacent columns of a matrix, if it has any.
fn with_bias(matrix: u32, column: u32, value: vec4<f32>) -> vec4<f32> {
    let at = params.bias[matrix] + column;
    if params.bias[matrix] == NO_BIAS {
        return value;
    }
    return value + vec4<f32>(scales[at], scales[at + 1u], scales[at + 2u], scales[at + 3u]);
}
