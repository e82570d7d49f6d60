// The best of what the parts of a row found, as a token; −1 if one of the logits was no number.
// One workgroup, its threads side by side over the parts.

//#include argmax

struct Params {
    parts: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> found: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> out: array<i32>;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32) {
    var best = vec2<u32>(0u, 0u);
    for (var part = thread; part < params.parts; part += 256u) {
        best = better(best, found[part]);
    }
    best = best_of_workgroup(best, thread);
    if thread == 0u {
        out[0] = select(i32(best.y), -1, best.x == NO_NUMBER);
    }
}
