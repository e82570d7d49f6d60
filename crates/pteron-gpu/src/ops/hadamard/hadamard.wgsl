// The Walsh–Hadamard transform of lines of a power of two, times a scale. A workgroup of 256 threads has one line of up to 2048
// elements in workgroup memory: threads add and subtract pairs of elements, at twice the distance in each step.

//#include grid

struct Params {
    lines: u32,
    length: u32,
    // The distance of neighbours of a line, which is also the number of lines that are side by side.
    stride: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

const THREADS: u32 = 256u;
const LONGEST: u32 = 2048u;
var<workgroup> line: array<f32, LONGEST>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    // Workgroups past the last line repeat it without storing: barriers need all threads.
    let index = group_index(group, groups);
    let own = min(index, params.lines - 1u);
    let first = own / params.stride * params.length * params.stride + own % params.stride;
    for (var i = thread; i < params.length; i += THREADS) {
        line[i] = x[first + i * params.stride];
    }
    for (var distance = 1u; distance < params.length; distance *= 2u) {
        workgroupBarrier();
        for (var i = thread; i < params.length / 2u; i += THREADS) {
            let low = i / distance * distance * 2u + i % distance;
            let a = line[low];
            let b = line[low + distance];
            line[low] = a + b;
            line[low + distance] = a - b;
        }
    }
    workgroupBarrier();
    if index == own {
        for (var i = thread; i < params.length; i += THREADS) {
            out[first + i * params.stride] = line[i] * params.scale;
        }
    }
}
