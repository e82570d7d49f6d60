// Rows quantised to 8 bits in the kernel that multiplies them (`fused_linear_q4gsw_gemv_int8`).

// The bounds of an octet, multiplied by the norm's weights; sums its squares.
fn bounds_of_octet(row: u32, v: Octet, factors: Octet) -> vec2<i32> {
    if NORM == 0u {
        return max(bounds_of(v.first), bounds_of(v.second));
    }
    squares[row] += dot(v.first, v.first) + dot(v.second, v.second);
    return max(bounds_of(v.first * factors.first), bounds_of(v.second * factors.second));
}

// Finds how each row is quantised, from all of it; the thread's bounds of the first row are known if there is one chunk. Threads
// share rows, then each combines what the clusters have found.
fn choose_quantisations(thread: u32, first_bounds: vec2<i32>) {
    let cluster = thread / LANES;
    let lane = thread % LANES;
    for (var row = 0u; row < ROWS; row++) {
        var bounds = first_bounds;
        if row > 0u || CHUNKS > 1u {
            bounds = vec2<i32>();
            for (var octet = thread; octet < CHUNKS * CHUNK * 4u; octet += THREADS) {
                bounds = max(bounds, bounds_of_octet(row, load_octet(row, octet), load_norm(octet)));
            }
        }
        bounds = max_pair_lanes(bounds);
        if NORM == 1u {
            let square = sum_lanes(squares[row]);
            if lane == 0u {
                square_partials[row * CLUSTERS + cluster] = square;
            }
        }
        if lane == 0u {
            bound_partials[row * CLUSTERS + cluster] = bounds;
        }
    }
    workgroupBarrier();
    for (var row = 0u; row < ROWS; row++) {
        var bounds = vec2<i32>();
        var square = 0.0;
        for (var i = 0u; i < CLUSTERS; i++) {
            bounds = max(bounds, bound_partials[row * CLUSTERS + i]);
            if NORM == 1u {
                square += square_partials[row * CLUSTERS + i];
            }
        }
        var factor = 1.0;
        if NORM == 1u {
            factor = inverseSqrt(square / f32(params.k) + params.eps);
        }
        let by = quantisation(bounds, factor, params.int8_eps);
        quantisations[row] = by;
        if thread == 0u {
            digit_values[row * CHUNK] = by.scale;
        }
    }
}

fn bytes_of(a: i32, b: i32, c: i32, d: i32) -> u32 {
    let bytes = bitcast<vec4<u32>>(vec4<i32>(a, b, c, d)) & vec4<u32>(0xffu);
    return bytes.x | (bytes.y << 8u) | (bytes.z << 16u) | (bytes.w << 24u);
}

// Quantises an octet of the chunk.
fn quantise(row: u32, octet: u32, v: Octet) {
    let a = vec4<i32>(quantised(v.first, quantisations[row]));
    let b = vec4<i32>(quantised(v.second, quantisations[row]));
    let at = (row * PLANES * 2u + octet / 2u % 2u) * CHUNK + octet / 4u;
    let word = octet % 2u * 2u;
    digits[at][word] = bytes_of(a.x, a.z, b.x, b.z);
    digits[at][word + 1u] = bytes_of(a.y, a.w, b.y, b.w);
}
