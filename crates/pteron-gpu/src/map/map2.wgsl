// Two tensors to one, element by element, either of them repeated as broadcasting asks.
// A workgroup computes 1024 elements of the output, a thread four that lie together.
// A, X and B, Y: how the inputs are stored and computed with; R, O: the same of the output. `widen_…`, `gather_…`, `apply` and
// `narrow` come from the family's table.

//#include grid
//#include map_params
//#include map_places
//#include map_walk
//#include map_floats
//#include map_integers

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> input_x: array<A>;
@group(0) @binding(2) var<storage, read> input_y: array<B>;
@group(0) @binding(3) var<storage, read_write> out: array<O>;

fn in_one_row(element: u32) -> O {
    let at = places(element);
    var x: A;
    var y: B;
    if whole(1u) { x = input_x[at.x / 4u]; } else { x = gather_x(vec4<u32>(at.x)); }
    if whole(2u) { y = input_y[at.y / 4u]; } else { y = gather_y(vec4<u32>(at.y)); }
    return narrow(apply(widen_x(x), widen_y(y)));
}

fn one_by_one(element: u32) -> O {
    // Past the end the last element again: what it gives is padding.
    let end = params.count - 1u;
    let a = places(min(element, end));
    let b = places(min(element + 1u, end));
    let c = places(min(element + 2u, end));
    let d = places(min(element + 3u, end));
    let x = gather_x(vec4<u32>(a.x, b.x, c.x, d.x));
    let y = gather_y(vec4<u32>(a.y, b.y, c.y, d.y));
    return narrow(apply(widen_x(x), widen_y(y)));
}
