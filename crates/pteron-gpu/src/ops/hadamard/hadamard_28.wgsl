// Multiplies 28 parts of a row by a Hadamard matrix of order 28. A workgroup of 256 threads has 256 columns of parts, one per thread.

//#include grid

struct Params {
    // Columns in all rows.
    lines: u32,
    length: u32,
    // The length of a part.
    stride: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

// The negative elements of each row of the matrix, as bits.
const SIGNS = array<u32, 28>(
    0x0cd69e7eu, 0x09ad7c7du, 0x037ab8fbu, 0x06d571f7u, 0x0d8ae3efu, 0x0b3587dfu, 0x066b4f3fu, 0x0b467f43u, 0x06acbe87u, 0x0d593d8eu,
    0x0ab27b9cu, 0x0564f7b8u, 0x0ac9aff0u, 0x05b31fe1u, 0x087fb325u, 0x00ff66cau, 0x01decd95u, 0x039ddb2au, 0x071bf654u, 0x0e17eca9u,
    0x0c2fd9d2u, 0x0fcf1299u, 0x0fbe2532u, 0x0f7c4ae4u, 0x0ef8d549u, 0x0df1ea13u, 0x0be3d4a6u, 0x07e7a94cu);

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.lines {
        return;
    }
    let first = i / params.stride * 28u * params.stride + i % params.stride;
    var column: array<f32, 28>;
    for (var part = 0u; part < 28u; part++) {
        column[part] = x[first + part * params.stride];
    }
    var signs = SIGNS;
    for (var row = 0u; row < 28u; row++) {
        var sum = 0.0;
        for (var part = 0u; part < 28u; part++) {
            sum += select(column[part], -column[part], ((signs[row] >> part) & 1u) == 1u);
        }
        out[first + row * params.stride] = sum;
    }
}
