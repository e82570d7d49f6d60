// Rows less their mean, over their standard deviation, with a weight and a bias for each column.
// `lines` says which rows, or parts of rows, a workgroup takes and how its threads share them. The threads fold a row to its
// moments, then each writes the items of its share. `source` is the tensor itself, or, where rows are split, what their
// parts were folded to before. Without a weight or a bias its binding is something else, which is not read.

//#include lines

@group(0) @binding(2) var<storage, read> x: array<T>;
@group(0) @binding(3) var<storage, read> weight: array<T>;
@group(0) @binding(4) var<storage, read> bias: array<T>;
@group(0) @binding(5) var<storage, read_write> out: array<T>;
@group(0) @binding(6) var<storage, read_write> mean: array<f32>;
@group(0) @binding(7) var<storage, read_write> rstd: array<f32>;

override HAS_WEIGHT: u32 = 1u;
override HAS_BIAS: u32 = 1u;

fn finished(v: T, k: u32, middle: f32, scale: f32) -> T {
    var value = (v - middle) * scale;
    if HAS_WEIGHT == 1u {
        value *= weight[k];
    }
    if HAS_BIAS == 1u {
        value += bias[k];
    }
    return value;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let part = part_of(group_index(group, groups), thread);
    let all = meet(thread, part.slice, fold_line(part));
    // `extra` is epsilon.
    let scale = inverseSqrt(all.z / max(all.x, 1.0) + params.extra);
    let slices = params.slices;
    var k = part.begin;
    for (; k + 3u * slices < part.end; k += 4u * slices) {
        // All loads before a store: a compiler cannot know that a store leaves alone what is loaded, and would wait.
        let at = part.first + k;
        let a = finished(x[at], k, all.y, scale);
        let b = finished(x[at + slices], k + slices, all.y, scale);
        let c = finished(x[at + 2u * slices], k + 2u * slices, all.y, scale);
        let d = finished(x[at + 3u * slices], k + 3u * slices, all.y, scale);
        out[at] = a;
        out[at + slices] = b;
        out[at + 2u * slices] = c;
        out[at + 3u * slices] = d;
    }
    for (; k < part.end; k += slices) {
        out[part.first + k] = finished(x[part.first + k], k, all.y, scale);
    }
    if part.slice == 0u && part.number == 0u && part.index < params.parts {
        mean[part.outer] = all.y;
        rstd[part.outer] = scale;
    }
}
