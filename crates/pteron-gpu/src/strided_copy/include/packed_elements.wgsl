// Gathers four output words of elements packed PER_WORD per word. The kernel defines `element_offsets` (tensor and offset of some of
// the elements), `first_element` (of the first), `run_stride` (the distance of consecutive elements, IRREGULAR if it varies), and
// `load_word` and `load_four_words` (words of a tensor).
override PER_WORD: u32 = 1u;
const IN_ORDER = vec4<u32>(0u, 1u, 2u, 3u);
const IRREGULAR = 2u;
const REVERSED = 0xffffffffu;

struct Elements {
    which: vec4<u32>,
    at: vec4<u32>,
}

fn element(which: u32, at: u32) -> u32 {
    return extractBits(load_word(which, at / PER_WORD), 8u * (at % PER_WORD), 32u / PER_WORD);
}

// The output word `index`, from packed elements.
fn packed_word(index: u32) -> u32 {
    let found = element_offsets(4u * index + IN_ORDER);
    let which = found.which;
    let at = found.at;
    if all(which == which.xxxx) && all(at == at.x + IN_ORDER) {
        // They are contiguous, in one word or two.
        let shift = 8u * (at.x % PER_WORD);
        let low = load_word(which.x, at.x / PER_WORD) >> shift;
        let high = load_word(which.x, at.w / PER_WORD) << ((32u - shift) % 32u);
        return low | select(high, 0u, shift == 0u);
    }
    let four = vec4<u32>(element(which.x, at.x), element(which.y, at.y), element(which.z, at.z), element(which.w, at.w));
    return four.x | (four.y << 8u) | (four.z << 16u) | (four.w << 24u);
}

// Four words of contiguous elements.
fn contiguous_words(which: u32, at: u32) -> vec4<u32> {
    let low = load_four_words(which, at / PER_WORD);
    let shift = 8u * (at % PER_WORD);
    if shift == 0u {
        return low;
    }
    let next = load_word(which, at / PER_WORD + 4u);
    return (low >> vec4<u32>(shift)) | (vec4<u32>(low.yzw, next) << vec4<u32>(32u - shift));
}

fn reversed(words: vec4<u32>) -> vec4<u32> {
    if PER_WORD == 1u {
        return words.wzyx;
    }
    let pairs = ((words & vec4<u32>(0x00ff00ffu)) << vec4<u32>(8u)) | ((words >> vec4<u32>(8u)) & vec4<u32>(0x00ff00ffu));
    return ((pairs << vec4<u32>(16u)) | (pairs >> vec4<u32>(16u))).wzyx;
}

fn gather_four_words() -> vec4<u32> {
    let step = run_stride();
    if step != IRREGULAR {
        let first = first_element();
        let which = first.x;
        let at = first.y;
        if step == 0u {
            return vec4<u32>(element(which, at) * select(0x01010101u, 1u, PER_WORD == 1u));
        }
        if step == 1u {
            return contiguous_words(which, at);
        }
        return reversed(contiguous_words(which, at - (4u * PER_WORD - 1u)));
    }
    if PER_WORD == 1u {
        let found = element_offsets(IN_ORDER);
        let a = load_word(found.which.x, found.at.x);
        let b = load_word(found.which.y, found.at.y);
        let c = load_word(found.which.z, found.at.z);
        let d = load_word(found.which.w, found.at.w);
        return vec4<u32>(a, b, c, d);
    }
    let a = packed_word(0u);
    let b = packed_word(1u);
    let c = packed_word(2u);
    let d = packed_word(3u);
    return vec4<u32>(a, b, c, d);
}
