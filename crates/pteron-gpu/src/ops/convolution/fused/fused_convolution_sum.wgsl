// Adds the partial sums of outputs whose products several workgroups shared, and finishes them. A workgroup of 256 threads computes
// 256 vectors of four output channels, a thread one.

//#include grid
//#include fused_convolution_params
//#include fused_convolution_finish

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> partial: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> addend: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) thread: u32) {
    let at = group_index(group, groups) * 256u + thread;
    let vectors = params.all_out / 4u;
    let count = params.pixels * vectors;
    if at < count {
        var sum = vec4<f32>();
        for (var split = 0u; split < params.splits; split++) {
            sum += partial[split * count + at];
        }
        out[at] = finished(sum, at, at % vectors * 4u);
    }
}
