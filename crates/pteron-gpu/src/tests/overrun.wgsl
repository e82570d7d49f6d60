// Copies words and writes one more, past the declared reach: a kernel that guard bytes must catch.
struct Params {
    words: u32,
    past: u32,
}
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) thread: u32) {
    for (var i = thread; i < params.words; i += 64u) {
        y[i] = x[i];
    }
    if thread == 0u {
        y[params.words + params.past] = 1.0;
    }
}
