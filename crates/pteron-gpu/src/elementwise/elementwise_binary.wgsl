// Elementwise operators of two tensors, with broadcasting.
// A workgroup computes 1024 output elements with 256 threads, four consecutive elements per thread.
// A and B are the inputs' storage types, X and Y their compute types, R the result's compute type and O its storage type. The
// operator's table row provides `widen_…`, `gather_…`, `apply` and `narrow`.

//#include grid
//#include elementwise_params
//#include broadcast
//#include elementwise_main
//#include float_math
//#include integer_math

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> input_x: array<A>;
@group(0) @binding(2) var<storage, read> input_y: array<B>;
@group(0) @binding(3) var<storage, read_write> out: array<O>;

fn vectorised(index: u32) -> O {
    let at = input_offsets(index);
    var x: A;
    var y: B;
    if is_contiguous(1u) { x = input_x[at.x / 4u]; } else { x = gather_x(vec4<u32>(at.x)); }
    if is_contiguous(2u) { y = input_y[at.y / 4u]; } else { y = gather_y(vec4<u32>(at.y)); }
    return narrow(apply(widen_x(x), widen_y(y)));
}

fn element_by_element(index: u32) -> O {
    // Threads past the end repeat the last element; the store goes to padding.
    let end = params.count - 1u;
    let a = input_offsets(min(index, end));
    let b = input_offsets(min(index + 1u, end));
    let c = input_offsets(min(index + 2u, end));
    let d = input_offsets(min(index + 3u, end));
    let x = gather_x(vec4<u32>(a.x, b.x, c.x, d.x));
    let y = gather_y(vec4<u32>(a.y, b.y, c.y, d.y));
    return narrow(apply(widen_x(x), widen_y(y)));
}
