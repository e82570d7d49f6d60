// Running sums of the rows of a tensor [outer, length, inner]. A workgroup of 256 threads has one row and takes 1024 elements of it at
// a time: each thread adds up four neighbours in registers, the threads' sums are scanned in workgroup memory in eight steps, and the
// sum of all elements before is carried on.
// E is the type of sums, B that of a word of the source; `load` converts an element.

//#include grid

struct Params {
    rows: u32,
    length: u32,
    inner: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> source: array<B>;
@group(0) @binding(2) var<storage, read_write> out: array<E>;

const THREADS: u32 = 256u;
const PER_THREAD: u32 = 4u;
var<workgroup> sums: array<E, THREADS>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    // Workgroups past the last row repeat it without storing: barriers need all threads.
    let index = group_index(group, groups);
    let row = min(index, params.rows - 1u);
    let first = row / params.inner * params.length * params.inner + row % params.inner;
    var carry = E();
    for (var start = 0u; start < params.length; start += THREADS * PER_THREAD) {
        let own = start + thread * PER_THREAD;
        var running: array<E, 4>;
        var sum = E();
        for (var i = 0u; i < PER_THREAD; i++) {
            if own + i < params.length {
                sum += load(first + (own + i) * params.inner);
            }
            running[i] = sum;
        }
        sums[thread] = sum;
        workgroupBarrier();
        for (var step = 1u; step < THREADS; step *= 2u) {
            var all = sums[thread];
            if thread >= step {
                all += sums[thread - step];
            }
            workgroupBarrier();
            sums[thread] = all;
            workgroupBarrier();
        }
        var before = carry;
        if thread > 0u {
            before += sums[thread - 1u];
        }
        for (var i = 0u; i < PER_THREAD; i++) {
            if own + i < params.length && index == row {
                out[first + (own + i) * params.inner] = before + running[i];
            }
        }
        carry += sums[THREADS - 1u];
        workgroupBarrier();
    }
}
