// Writes an item of a part's output.
fn write_part(part: u32, at: u32, value: O) {
    switch part {
        case 0u: { out0[at] = value; }
        case 1u: { out1[at] = value; }
        default: { out2[at] = value; }
    }
}
