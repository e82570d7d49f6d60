// Prepares the next call of a group, between the dispatches of two calls in one pass: writes the next call's step block and its input,
// copies the last call's output to the input that it is fed back to, and keeps that output for the readback. One workgroup of 64 threads;
// the copies are independent, and each is a few words long.

// The lane of the next call in the upload: the number of words of the step block, of the input and of the output, where the output
// is kept, and then the words of the step block and of the input.
@group(0) @binding(0) var<storage, read> lane: array<u32>;
@group(0) @binding(1) var<storage, read_write> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> data: array<u32>;
@group(0) @binding(3) var<storage, read> out: array<u32>;
@group(0) @binding(4) var<storage, read_write> fed: array<u32>;
@group(0) @binding(5) var<storage, read_write> kept: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) thread: u32) {
    for (var i = thread; i < lane[0]; i += 64u) {
        step[i] = lane[4u + i];
    }
    for (var i = thread; i < lane[1]; i += 64u) {
        data[i] = lane[4u + lane[0] + i];
    }
    for (var i = thread; i < lane[2]; i += 64u) {
        fed[i] = out[i];
        kept[lane[3] + i] = out[i];
    }
}
