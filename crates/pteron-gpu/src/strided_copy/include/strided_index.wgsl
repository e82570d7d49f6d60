// The offsets of four linear indices in two strided tensors. `params.dims` and `params.strides` are innermost first; `first` is the
// first axis that counts.
struct Offsets {
    x: vec4<u32>,
    y: vec4<u32>,
}

fn strides_of(axis: u32) -> vec2<u32> {
    let pair = params.strides[axis / 2u];
    return select(pair.xy, pair.zw, axis % 2u == 1u);
}

fn strided_offsets(index: vec4<u32>, first: u32) -> Offsets {
    var rest = index;
    var at = Offsets();
    var axis = first;
    for (; axis + 1u < params.rank; axis++) {
        let dim = params.dims[axis / 4u][axis % 4u];
        let above = rest / dim;
        let here = rest - above * dim;
        let strides = strides_of(axis);
        at.x += here * strides.x;
        at.y += here * strides.y;
        rest = above;
    }
    // The rest is the index of the outermost axis.
    let strides = strides_of(axis);
    return Offsets(at.x + rest * strides.x, at.y + rest * strides.y);
}
