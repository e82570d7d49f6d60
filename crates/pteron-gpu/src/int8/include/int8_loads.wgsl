// Loads of factors, four values along k or along a row at a time. The variant provides `x_value(at)`, one element; `x_word(at)`, four
// consecutive ones; `widened(word)`, V of four weights; `transposed`, Q of V of four columns.

// 1: rows of weights are whole words.
override WORD_ROWS: u32 = 1u;

// Four bytes from any offset on: from two words, where the offset is not a word's.
fn x_bytes(at: u32) -> u32 {
    let shift = at % 4u * 8u;
    let low = x_words(at / 4u) >> shift;
    if shift == 0u {
        return low;
    }
    return low | (x_words(min(at / 4u + 1u, params.last_x)) << (32u - shift));
}

fn weight_bytes(at: u32) -> u32 {
    let low = weight[at / 4u];
    let shift = at % 4u * 8u;
    if WORD_ROWS == 1u || shift == 0u {
        return low;
    }
    return (low >> shift) | (weight[min(at / 4u + 1u, params.last_weight)] << (32u - shift));
}

// Clears the bytes from the end of k on.
fn within_k(word: u32, k: u32) -> u32 {
    return select(word & (0xffffffffu >> (32u - 8u * (params.k - k))), word, k + 4u <= params.k);
}

// Four weights of a row along k.
fn weight_word(row: u32, k: u32) -> V {
    return widened(within_k(weight_bytes(row * params.weight_stride + k), k));
}

// The same of four rows; those past `last` repeat it.
fn weight_block(row: u32, last: u32, k: u32) -> Q {
    if k >= params.k {
        return Q();
    }
    return Q(weight_word(min(row, last), k), weight_word(min(row + 1u, last), k), weight_word(min(row + 2u, last), k),
             weight_word(min(row + 3u, last), k));
}

// Four words of bytes, one byte of each per word of the result.
fn transposed_bytes(a: u32, b: u32, c: u32, d: u32) -> vec4<u32> {
    let shifts = vec4<u32>(0u, 8u, 16u, 24u);
    let low = vec4<u32>(255u);
    return ((vec4<u32>(a) >> shifts) & low) | (((vec4<u32>(b) >> shifts) & low) << vec4<u32>(8u))
         | (((vec4<u32>(c) >> shifts) & low) << vec4<u32>(16u)) | ((vec4<u32>(d) >> shifts) << vec4<u32>(24u));
}
