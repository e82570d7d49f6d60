// Quantises floats or dequantises integers; blocks of elements share a scale and a zero point.
// A workgroup of 256 threads converts 1024 elements, a thread four consecutive ones: a vector, or a word of bytes.
// A is the stored type of four inputs, O of four outputs, Z the type of a zero point in memory. The operator's variant provides `widen`,
// `narrow`, `zero_point` and `convert`.

//#include exact_division
//#include grid

struct Params {
    // Dims of the tensor, innermost first; the size of a block along each, and the stride of blocks.
    dims: array<vec4<u32>, 2>,
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 2>,
    count: u32,
    rank: u32,
    // The number of blocks, and words of zero points.
    blocks: u32,
    zero_points: u32,
    least: f32,
    most: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<A>;
@group(0) @binding(2) var<storage, read> scales: array<f32>;
@group(0) @binding(3) var<storage, read> zero_points: array<Z>;
@group(0) @binding(4) var<storage, read_write> out: array<O>;

fn block_of(element: u32) -> u32 {
    var rest = min(element, params.count - 1u);
    var block = 0u;
    for (var axis = 0u; axis < params.rank; axis++) {
        let dim = params.dims[axis / 4u][axis % 4u];
        block += rest % dim / params.sizes[axis / 4u][axis % 4u] * params.strides[axis / 4u][axis % 4u];
        rest /= dim;
    }
    return block;
}

fn reciprocals(v: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(reciprocal(v.x), reciprocal(v.y), reciprocal(v.z), reciprocal(v.w));
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    // Buffers are padded to whole vectors. `i * 4u` might wrap in surplus workgroups.
    if i > (params.count - 1u) / 4u {
        return;
    }
    let a = block_of(i * 4u);
    let b = block_of(i * 4u + 1u);
    let c = block_of(i * 4u + 2u);
    let d = block_of(i * 4u + 3u);
    let scale = vec4<f32>(scales[a], scales[b], scales[c], scales[d]);
    let zero = vec4<f32>(zero_point(a), zero_point(b), zero_point(c), zero_point(d));
    out[i] = narrow(convert(widen(x[i]), scale, zero));
}
