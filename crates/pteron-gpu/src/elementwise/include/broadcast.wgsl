// The offsets in x, y and z of the output's element `index`, with broadcasting.
fn input_offsets(index: u32) -> vec3<u32> {
    var rest = index;
    var offsets = vec3<u32>();
    let last = params.rank - 1u;
    for (var axis = 0u; axis < last; axis++) {
        let dim = params.dims[axis / 4u][axis % 4u];
        let position = rest % dim;
        rest /= dim;
        offsets += position * strides(axis);
    }
    return offsets + rest * strides(last);
}

fn strides(axis: u32) -> vec3<u32> {
    let word = axis / 4u;
    let lane = axis % 4u;
    return vec3<u32>(params.x[word][lane], params.y[word][lane], params.z[word][lane]);
}

// Whether the four elements of a thread are in one row, so that each input is one vector load or one broadcast element.
fn is_vectorised() -> bool {
    return (params.flags & 1u) != 0u;
}

// Whether input `n` (from 1) has the four elements contiguous.
fn is_contiguous(n: u32) -> bool {
    return ((params.flags >> n) & 1u) != 0u;
}

// The byte at `offset` of a packed word, moved to a lane of another word.
fn byte(word: u32, offset: u32, lane: u32) -> u32 {
    return ((word >> (8u * (offset % 4u))) & 0xffu) << (8u * lane);
}
