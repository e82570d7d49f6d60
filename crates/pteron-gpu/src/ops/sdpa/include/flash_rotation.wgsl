// Rotary position embedding of a vector of a head, by the table that the kernel binds as `rope_table`: cosines, then sines.

// The index of the vector that forms pairs with a vector, where elements of two halves do.
fn partner_lane(lane: u32) -> u32 {
    let half = params.rotary_vectors / 2u;
    if lane < half {
        return lane + half;
    }
    return select(lane, lane - half, lane < params.rotary_vectors);
}

// Rotates the vector at index `lane` of a head, for the token in this row of the inputs and at this position. `partner` is the vector at
// `partner_lane`, where two halves form pairs.
fn rotate_lane(v: vec4<f32>, partner: vec4<f32>, lane: u32, token: u32, position: u32) -> vec4<f32> {
    if ROTATED == 1u {
        let angle = position * HEAD_VECTORS + lane;
        return rotate_pairs(v, rope_table[angle], rope_table[params.sin_offset + angle]);
    }
    if ROTATED == 2u && lane < params.rotary_vectors {
        let angle = 2u * (token * params.rotary_vectors + lane);
        let cosines = vec4<f32>(rope_table[angle], rope_table[angle + 1u]);
        let sines = vec4<f32>(rope_table[params.sin_offset + angle], rope_table[params.sin_offset + angle + 1u]);
        return v * cosines + select(partner, -partner, lane < params.rotary_vectors / 2u) * sines;
    }
    return v;
}
