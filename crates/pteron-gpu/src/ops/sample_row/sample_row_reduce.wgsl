// Second pass of sampling: the best of all blocks as an index, −1 if an element was NaN. One workgroup of 256 threads with
// strided loads and a reduction in workgroup memory.

//#include argmax

struct Params {
    blocks: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> block_best: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> out: array<i32>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32) {
    var best = vec2<u32>(0u, 0u);
    for (var block = thread; block < params.blocks; block += 256u) {
        best = argmax_of(best, block_best[block]);
    }
    best = workgroup_argmax(best, thread);
    if thread == 0u {
        out[0] = select(i32(best.y), -1, best.x == NAN_KEY);
    }
}
