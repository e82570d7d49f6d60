// Lines of a tensor [outer, length, inner]: the items along `length`. Each line, or each of the parts it is split into, is
// folded to one value. A workgroup's 256 threads take 256 / slices parts, `slices` threads a part: each folds every
// `slices`th item, with several loads under way at a time, and then they meet in workgroup memory. Where lines are rows
// (inner = 1) neighbouring threads share a row; elsewhere they have neighbouring lines. Both read together what lies together.
//
// S is an item that is read, A what it is folded to. `identity`, `item`, `four_items`, `combine` and `follow` are the fold's.

//#include grid
//#include folds

struct Params {
    // Parts in all: outer * splits * inner.
    parts: u32,
    // Items in a line.
    length: u32,
    inner: u32,
    // Parts of a line, and the items in each; the last may have fewer.
    splits: u32,
    chunk: u32,
    // Threads that share a part, a power of two, and how far apart they are.
    slices: u32,
    slice_stride: u32,
    // What the kernel's last step needs beside.
    extra: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> source: array<S>;

const THREADS: u32 = 256u;
var<workgroup> folded: array<A, THREADS>;

// A part, and a thread's share of it: the items from `begin` to `end`, `slices` apart. Past the last part there are none.
struct Part {
    index: u32,
    // Where its line is, and which part of the line this is.
    outer: u32,
    column: u32,
    number: u32,
    slice: u32,
    // Where the line's first item is.
    first: u32,
    begin: u32,
    end: u32,
}

fn part_of(group: u32, thread: u32) -> Part {
    let lanes = THREADS / params.slices;
    let rows = params.slice_stride == 1u;
    var part: Part;
    part.index = group * lanes + select(thread % lanes, thread / params.slices, rows);
    part.slice = (thread / params.slice_stride) % params.slices;
    part.column = part.index % params.inner;
    part.number = part.index / params.inner % params.splits;
    part.outer = part.index / params.inner / params.splits;
    part.first = part.outer * params.length * params.inner + part.column;
    part.begin = part.number * params.chunk + part.slice;
    part.end = select(0u, min((part.number + 1u) * params.chunk, params.length), part.index < params.parts);
    return part;
}

// An item of the source, which counts only if it is before `end`.
fn fold_one(first: u32, k: u32, end: u32) -> A {
    let v = source[first + min(k, end - 1u) * params.inner];
    return select(identity(), item(v, k), k < end);
}

// Four items from `k` on, all before `end`: none of the loads waits for another, nor for a branch.
fn fold_four(first: u32, k: u32) -> A {
    let at = first + k * params.inner;
    let apart = params.slices * params.inner;
    return four_items(source[at], source[at + apart], source[at + 2u * apart], source[at + 3u * apart], k);
}

// Folds the items of the source from `begin` to `end`, `slices` apart.
fn fold(first: u32, begin: u32, end: u32) -> A {
    let slices = params.slices;
    var all = identity();
    var k = begin;
    for (; k + 7u * slices < end; k += 8u * slices) {
        all = combine(all, follow(fold_four(first, k), fold_four(first, k + 4u * slices)));
    }
    if k + 3u * slices < end {
        all = combine(all, fold_four(first, k));
        k += 4u * slices;
    }
    if k < end {
        let ab = combine(fold_one(first, k, end), fold_one(first, k + slices, end));
        all = combine(all, combine(ab, fold_one(first, k + 2u * slices, end)));
    }
    return all;
}

// A thread's share of a whole line. Where lines are split the source has what their parts were folded to.
fn fold_line(part: Part) -> A {
    let length = select(params.length, params.splits, params.splits > 1u);
    let first = part.outer * length * params.inner + part.column;
    return fold(first, part.slice, select(0u, length, part.index < params.parts));
}

// What the threads of a part have together. All threads of the workgroup call it.
fn meet(thread: u32, slice: u32, own: A) -> A {
    folded[thread] = own;
    for (var half = params.slices / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if slice < half {
            folded[thread] = combine(folded[thread], folded[thread + half * params.slice_stride]);
        }
    }
    workgroupBarrier();
    return folded[thread - slice * params.slice_stride];
}
