// Where four indices are in two tensors that are walked together: `params.dims` from axis `first` on, innermost first, and for
// each of them how far a step goes in the one and in the other.
struct Places {
    x: vec4<u32>,
    y: vec4<u32>,
}

fn steps_of(axis: u32) -> vec2<u32> {
    let two = params.steps[axis / 2u];
    return select(two.xy, two.zw, axis % 2u == 1u);
}

fn walk(index: vec4<u32>, first: u32) -> Places {
    var rest = index;
    var at = Places();
    var axis = first;
    for (; axis + 1u < params.rank; axis++) {
        let dim = params.dims[axis / 4u][axis % 4u];
        let above = rest / dim;
        let here = rest - above * dim;
        let steps = steps_of(axis);
        at.x += here * steps.x;
        at.y += here * steps.y;
        rest = above;
    }
    // What is left counts the outermost axis.
    let steps = steps_of(axis);
    return Places(at.x + rest * steps.x, at.y + rest * steps.y);
}
