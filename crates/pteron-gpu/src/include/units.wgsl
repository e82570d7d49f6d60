// Units of which PER_WORD are packed into a word, four words of them that follow each other in an output. Of those the kernel
// says: `units`, which tensors have some of them, and where; `first_unit`, the same of the first; `run_step`, how far apart they
// are where that is the same for all, UNEVEN if not; `fetch` and `fetch_four`, the words of a tensor.
override PER_WORD: u32 = 1u;
const IN_ORDER = vec4<u32>(0u, 1u, 2u, 3u);
const UNEVEN = 2u;
const BACKWARDS = 0xffffffffu;

struct Units {
    which: vec4<u32>,
    at: vec4<u32>,
}

fn unit(which: u32, at: u32) -> u32 {
    return extractBits(fetch(which, at / PER_WORD), 8u * (at % PER_WORD), 32u / PER_WORD);
}

// The `index`th word, of packed units.
fn packed_word(index: u32) -> u32 {
    let found = units(4u * index + IN_ORDER);
    let which = found.which;
    let at = found.at;
    if all(which == which.xxxx) && all(at == at.x + IN_ORDER) {
        // They lie behind each other, in one word or two.
        let shift = 8u * (at.x % PER_WORD);
        let low = fetch(which.x, at.x / PER_WORD) >> shift;
        let high = fetch(which.x, at.w / PER_WORD) << ((32u - shift) % 32u);
        return low | select(high, 0u, shift == 0u);
    }
    let four = vec4<u32>(unit(which.x, at.x), unit(which.y, at.y), unit(which.z, at.z), unit(which.w, at.w));
    return four.x | (four.y << 8u) | (four.z << 16u) | (four.w << 24u);
}

// Four words of units that lie behind each other.
fn words_from(which: u32, at: u32) -> vec4<u32> {
    let low = fetch_four(which, at / PER_WORD);
    let shift = 8u * (at % PER_WORD);
    if shift == 0u {
        return low;
    }
    let behind = fetch(which, at / PER_WORD + 4u);
    return (low >> vec4<u32>(shift)) | (vec4<u32>(low.yzw, behind) << vec4<u32>(32u - shift));
}

fn backwards(words: vec4<u32>) -> vec4<u32> {
    if PER_WORD == 1u {
        return words.wzyx;
    }
    let pairs = ((words & vec4<u32>(0x00ff00ffu)) << vec4<u32>(8u)) | ((words >> vec4<u32>(8u)) & vec4<u32>(0x00ff00ffu));
    return ((pairs << vec4<u32>(16u)) | (pairs >> vec4<u32>(16u))).wzyx;
}

fn four_words() -> vec4<u32> {
    let step = run_step();
    if step != UNEVEN {
        let first = first_unit();
        let which = first.x;
        let at = first.y;
        if step == 0u {
            return vec4<u32>(unit(which, at) * select(0x01010101u, 1u, PER_WORD == 1u));
        }
        if step == 1u {
            return words_from(which, at);
        }
        return backwards(words_from(which, at - (4u * PER_WORD - 1u)));
    }
    if PER_WORD == 1u {
        let found = units(IN_ORDER);
        let a = fetch(found.which.x, found.at.x);
        let b = fetch(found.which.y, found.at.y);
        let c = fetch(found.which.z, found.at.z);
        let d = fetch(found.which.w, found.at.w);
        return vec4<u32>(a, b, c, d);
    }
    let a = packed_word(0u);
    let b = packed_word(1u);
    let c = packed_word(2u);
    let d = packed_word(3u);
    return vec4<u32>(a, b, c, d);
}
