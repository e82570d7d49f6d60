// Quantises weights to 4 bits with given scales. A workgroup of 256 threads writes 256 words, a thread one: four bytes, eight weights.

//#include exact_division
//#include grid

struct Params {
    rows: u32,
    columns: u32,
    bytes_per_row: u32,
    group: u32,
    scale_stride: u32,
    // Bytes of the output.
    count: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> latent: array<f32>;
@group(0) @binding(2) var<storage, read> scales: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;

// The code of a weight, 0 past the end of a row.
fn code(row: u32, column: u32) -> u32 {
    if column >= params.columns {
        return 0u;
    }
    let scale = scales[column / params.group * params.scale_stride + row];
    let steps = divided(vec4<f32>(latent[row * params.columns + column]), vec4<f32>(scale)).x;
    return select(u32(clamp(round(steps), -8.0, 7.0) + 8.0), 8u, scale == 0.0);
}

fn byte(at: u32) -> u32 {
    let row = at / params.bytes_per_row;
    let column = at % params.bytes_per_row * 2u;
    return code(row, column) | (code(row, column + 1u) << 4u);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let word = group_index(group, groups) * 256u + thread;
    if word > (params.count - 1u) / 4u {
        return;
    }
    var bits = 0u;
    for (var lane = 0u; lane < 4u; lane++) {
        bits |= byte(min(word * 4u + lane, params.count - 1u)) << (8u * lane);
    }
    out[word] = bits;
}
