// Softmax along the lines of a tensor, or its logarithm.
// `lines` says which lines, or parts of lines, a workgroup takes and how its threads share them. The threads fold a line,
// then each writes the items of its share. `source` is the tensor itself, or, where lines are split, what their parts were
// folded to before.

//#include lines

@group(0) @binding(2) var<storage, read> x: array<T>;
@group(0) @binding(3) var<storage, read_write> out: array<T>;

// `extra` is NaN: what a line without an answer gets.
fn finished(v: T, all: A) -> T {
    return select(finish(v, all.x, all.y), T(params.extra), all.y <= 0.0);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let part = part_of(group_index(group, groups), thread);
    let all = meet(thread, part.slice, fold_line(part));
    var k = part.begin;
    let apart = params.slices * params.inner;
    for (; k + 3u * params.slices < part.end; k += 4u * params.slices) {
        // All loads before a store: a compiler cannot know that a store leaves alone what is loaded, and would wait.
        let at = part.first + k * params.inner;
        let a = x[at];
        let b = x[at + apart];
        let c = x[at + 2u * apart];
        let d = x[at + 3u * apart];
        out[at] = finished(a, all);
        out[at + apart] = finished(b, all);
        out[at + 2u * apart] = finished(c, all);
        out[at + 3u * apart] = finished(d, all);
    }
    for (; k < part.end; k += params.slices) {
        let at = part.first + k * params.inner;
        out[at] = finished(x[at], all);
    }
}
