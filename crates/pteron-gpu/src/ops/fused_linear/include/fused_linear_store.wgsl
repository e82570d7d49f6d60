// Stores an item of a matrix's output.
fn store_output(matrix: u32, at: u32, value: O) {
    switch matrix {
        case 0u: { out0[at] = value; }
        case 1u: { out1[at] = value; }
        default: { out2[at] = value; }
    }
}
