// Where x, y and z have the element that the output has at `element`.
fn places(element: u32) -> vec3<u32> {
    var rest = element;
    var at = vec3<u32>();
    let last = params.rank - 1u;
    for (var axis = 0u; axis < last; axis++) {
        let dim = params.dims[axis / 4u][axis % 4u];
        let index = rest % dim;
        rest /= dim;
        at += index * strides(axis);
    }
    return at + rest * strides(last);
}

fn strides(axis: u32) -> vec3<u32> {
    let word = axis / 4u;
    let lane = axis % 4u;
    return vec3<u32>(params.x[word][lane], params.y[word][lane], params.z[word][lane]);
}

// Whether the four elements of a thread lie in one row, and whether input `n` (from 1) has them side by side.
fn together() -> bool {
    return (params.modes & 1u) != 0u;
}

fn whole(n: u32) -> bool {
    return ((params.modes >> n) & 1u) != 0u;
}

// A byte of a packed word, moved to a lane of another.
fn byte(word: u32, place: u32, lane: u32) -> u32 {
    return ((word >> (8u * (place % 4u))) & 0xffu) << (8u * lane);
}
