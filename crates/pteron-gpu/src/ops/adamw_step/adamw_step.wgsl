// One step of AdamW. A workgroup of 256 threads updates 1024 elements, a thread four.

//#include grid

struct Params {
    // What weight decay leaves of a parameter.
    kept: f32,
    rate: f32,
    beta1: f32,
    beta2: f32,
    // 1 - beta1 and 1 - beta2.
    rest1: f32,
    rest2: f32,
    eps: f32,
    correction1: f32,
    correction2: f32,
    count: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> param: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> m: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> grad: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> new_param: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> new_m: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> new_v: array<vec4<f32>>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let i = group_index(group, groups) * 256u + thread;
    // Buffers are padded to whole vectors.
    if i > (params.count - 1u) / 4u {
        return;
    }
    let g = grad[i];
    let first = m[i] * params.beta1 + g * params.rest1;
    let second = v[i] * params.beta2 + g * g * params.rest2;
    let denominator = sqrt(second / params.correction2) + params.eps;
    new_param[i] = param[i] * params.kept - params.rate * ((first / params.correction1) / denominator);
    new_m[i] = first;
    new_v[i] = second;
}
