// Rows of a table of 4-bit numbers, by index: each number is its nibble less 8, times its group's scale.
// A workgroup computes 2048 elements of the output, a thread the eight of one word of the table, which share a scale.

//#include grid

struct Params {
    // Words to unpack, words in a row, rows of the table, words a scale serves.
    count: u32,
    words: u32,
    rows: u32,
    group_words: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> weight: array<u32>;
@group(0) @binding(2) var<storage, read> scales: array<f32>;
@group(0) @binding(3) var<storage, read> indices: array<i32>;
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>;

// 1: the high nibble of a byte is the even column; 0: the low one.
override HIGH_FIRST: u32 = 0u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    if i >= params.count {
        return;
    }
    let column = i % params.words;
    let row = min(u32(max(indices[i / params.words], 0)), params.rows - 1u);
    let scale = scales[row * (params.words / params.group_words) + column / params.group_words];
    var word = weight[row * params.words + column];
    if HIGH_FIRST == 1u {
        word = ((word & 0x0f0f0f0fu) << 4u) | ((word >> 4u) & 0x0f0f0f0fu);
    }
    let low = (vec4<u32>(word) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u);
    let high = (vec4<u32>(word) >> vec4<u32>(16u, 20u, 24u, 28u)) & vec4<u32>(15u);
    out[2u * i] = (vec4<f32>(low) - 8.0) * scale;
    out[2u * i + 1u] = (vec4<f32>(high) - 8.0) * scale;
}
