// Linear with int8 weights of few rows that are quantised by their own multiplier and zero point: a workgroup of 64 threads computes ROWS rows
// by eight columns. Threads share k, a word of four values at a time, then a tree reduction in workgroup memory adds their sums, which are
// exact. Rows of weights are whole words.

//#include grid
//#include int8_params
//#include int8_store
//#include int8_rows

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> multipliers: array<f32>;
@group(0) @binding(3) var<storage, read> zero_points: array<u32>;
@group(0) @binding(4) var<storage, read> weight: array<u32>;
@group(0) @binding(5) var<storage, read> weight_sums: array<i32>;
@group(0) @binding(6) var<storage, read> scales: array<f32>;
@group(0) @binding(7) var<storage, read> bias: array<Y>;
@group(0) @binding(8) var<storage, read_write> out: array<atomic<u32>>;

// Rows of activations per workgroup: 1, 2 or 4.
override ROWS: u32 = 1u;
const THREADS: u32 = 64u;

// A thread's sums: those of four columns per row, then of the next four.
var<private> sums: array<vec4<i32>, 8>;
var<workgroup> partials: array<vec4<i32>, 2u * THREADS * ROWS>;

fn add(row: u32, half: u32, a: u32, w: vec4<u32>) {
    let at = row * 2u + half;
    sums[at] += vec4<i32>(dot4I8Packed(a, w.x), dot4I8Packed(a, w.y), dot4I8Packed(a, w.z), dot4I8Packed(a, w.w));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    // Neighbouring workgroups read the same weights.
    let index = group_index(group, groups);
    let tiles = (params.slow + ROWS - 1u) / ROWS;
    let row = index % tiles * ROWS;
    let column = index / tiles * 8u;
    if column < params.fast {
        let words = params.k / 4u;
        let first = channels_of(column, 0u) * words;
        let second = channels_of(column + 4u, 0u) * words;
        for (var word = thread; word < words; word += THREADS) {
            let a = first + word;
            let b = second + word;
            let low = vec4<u32>(weight[a.x], weight[a.y], weight[a.z], weight[a.w]);
            let high = vec4<u32>(weight[b.x], weight[b.y], weight[b.z], weight[b.w]);
            for (var m = 0u; m < ROWS; m++) {
                let values = quantised(row + m, word * 4u);
                add(m, 0u, values, low);
                add(m, 1u, values, high);
            }
        }
        for (var at = 0u; at < 2u * ROWS; at++) {
            partials[at * THREADS + thread] = sums[at];
        }
        for (var half = THREADS / 2u; half > 0u; half /= 2u) {
            workgroupBarrier();
            if thread < half {
                for (var at = 0u; at < 2u * ROWS; at++) {
                    partials[at * THREADS + thread] += partials[at * THREADS + thread + half];
                }
            }
        }
        workgroupBarrier();
        let own = row + thread / 2u;
        let start = column + thread % 2u * 4u;
        if thread < 2u * ROWS && own < params.slow && start < params.fast {
            let values = of_row(partials[thread * THREADS], channels_of(start, 0u), own);
            store(own * params.fast + start, min(4u, params.fast - start), values);
        }
    }
}
