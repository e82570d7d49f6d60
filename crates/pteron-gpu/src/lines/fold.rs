//! What lines of numbers can be folded to. The functions that these expressions name are in `include/folds.wgsl`.

use crate::kernel::Variant;

/// A fold: how a number counts, and how what some numbers gave is combined with what others gave.
#[derive(Debug)]
pub(crate) struct Fold {
    /// The type of a number of the tensor, and of four that lie together.
    pub(crate) numbers: [&'static str; 2],
    /// The type of what they are folded to, and its bytes in a buffer.
    pub(crate) value: &'static str,
    pub(crate) bytes: u64,
    /// What no numbers are folded to.
    identity: &'static str,
    /// What the number `v` at `k` of its line is folded to.
    one: &'static str,
    /// What four numbers `v` are folded to, where that is better than one after the other.
    four: Option<&'static str>,
    /// What four numbers `a` to `d` are folded to that lie apart in a line, where that is better and their place is nothing to it.
    apart: Option<&'static str>,
    /// What `a` and `b` are together.
    combine: &'static str,
    /// The same where `b` comes from further on in the line, and `a` is of some number.
    follow: &'static str,
    /// The type and the value of the answer that `a` gives, where it is one.
    pub(crate) answer: Option<(&'static str, &'static str)>,
}

/// What a kernel that folds reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Numbers of the tensor.
    Numbers,
    /// Four of them at a time.
    Fours,
    /// What parts of lines were folded to.
    Folded,
}

impl Source {
    pub(crate) const ALL: [Self; 3] = [Self::Numbers, Self::Fours, Self::Folded];
}

const FLOATS: [&str; 2] = ["f32", "vec4<f32>"];
const INTEGERS: [&str; 2] = ["i32", "vec4<i32>"];
/// Floats by their bits.
const BITS: [&str; 2] = ["u32", "vec4<u32>"];

const EACH_OF_FOUR: &str = "combine(combine(one(v.x, 4u * k), one(v.y, 4u * k + 1u)), \
    combine(one(v.z, 4u * k + 2u), one(v.w, 4u * k + 3u)))";
const EACH_APART: &str = "follow(follow(item(a, k), item(b, k + params.slices)), \
    follow(item(c, k + 2u * params.slices), item(d, k + 3u * params.slices)))";

impl Fold {
    const fn word(numbers: [&'static str; 2], value: &'static str) -> Self {
        let (identity, one, combine) = ("A()", "v", "a + b");
        let follow = "combine(a, b)";
        Self { numbers, value, bytes: 4, identity, one, four: None, apart: None, combine, follow, answer: None }
    }

    /// Keys with indices. The identity's index loses against every other.
    const fn key(numbers: [&'static str; 2], one: &'static str, four: &'static str) -> Self {
        Self {
            bytes: 8,
            identity: "vec2<u32>(0u, 0xffffffffu)",
            one,
            four: Some(four),
            combine: "first_highest(a, b)",
            follow: "select(a, b, b.x > a.x)",
            answer: Some(("u32", "a.y")),
            ..Self::word(numbers, "vec2<u32>")
        }
    }

    /// The kernel with this fold, reading such a source.
    pub(crate) fn applied(&self, to: Variant, source: Source) -> Variant {
        let [number, four] = self.numbers;
        let (item, fold) = match source {
            Source::Numbers => (number, "one(v, k)"),
            Source::Fours => (four, self.four.unwrap_or(EACH_OF_FOUR)),
            Source::Folded => (self.value, "v"),
        };
        let apart = self.apart.filter(|_| source == Source::Numbers).unwrap_or(EACH_APART);
        to.with_type("A", self.value)
            .with_type("S", item)
            .with_type("E", number)
            .with_function("fn identity() -> A", self.identity)
            .with_function("fn one(v: E, k: u32) -> A", self.one)
            .with_function("fn item(v: S, k: u32) -> A", fold)
            .with_function("fn four_items(a: S, b: S, c: S, d: S, k: u32) -> A", apart)
            .with_function("fn combine(a: A, b: A) -> A", self.combine)
            .with_function("fn follow(a: A, b: A) -> A", self.follow)
    }
}

/// The sum, times a factor.
pub(crate) static SUM_F32: Fold = Fold { answer: Some(("f32", "a * params.extra")), ..Fold::word(FLOATS, "f32") };
pub(crate) static SUM_I32: Fold = Fold { answer: Some(("i32", "a")), ..Fold::word(INTEGERS, "i32") };

/// The highest float; the lowest is the highest with signs turned.
pub(crate) static MAX_F32: Fold =
    Fold { one: "ordered(v)", combine: "max(a, b)", answer: Some(("u32", "unordered(a)")), ..Fold::word(BITS, "u32") };
pub(crate) static MIN_F32: Fold = Fold {
    one: "ordered(v ^ SIGN)",
    combine: "max(a, b)",
    answer: Some(("u32", "unordered(a) ^ SIGN")),
    ..Fold::word(BITS, "u32")
};
pub(crate) static MAX_I32: Fold =
    Fold { identity: "i32(-2147483648)", combine: "max(a, b)", answer: Some(("i32", "a")), ..Fold::word(INTEGERS, "i32") };
pub(crate) static MIN_I32: Fold =
    Fold { identity: "2147483647", combine: "min(a, b)", answer: Some(("i32", "a")), ..Fold::word(INTEGERS, "i32") };

/// The place of the highest or lowest number.
pub(crate) static ARGMAX_F32: Fold =
    Fold::key(BITS, "vec2<u32>(place(v), k)", "first_of_four(vec4<u32>(place(v.x), place(v.y), place(v.z), place(v.w)), k)");
pub(crate) static ARGMIN_F32: Fold = Fold::key(
    BITS,
    "vec2<u32>(place(v ^ SIGN), k)",
    "first_of_four(vec4<u32>(place(v.x ^ SIGN), place(v.y ^ SIGN), place(v.z ^ SIGN), place(v.w ^ SIGN)), k)",
);
pub(crate) static ARGMAX_I32: Fold =
    Fold::key(INTEGERS, "vec2<u32>(bitcast<u32>(v) ^ SIGN, k)", "first_of_four(bitcast<vec4<u32>>(v) ^ vec4<u32>(SIGN), k)");
pub(crate) static ARGMIN_I32: Fold = Fold::key(
    INTEGERS,
    "vec2<u32>(~bitcast<u32>(v) ^ SIGN, k)",
    "first_of_four(~bitcast<vec4<u32>>(v) ^ vec4<u32>(SIGN), k)",
);

/// The highest number and the sum of exponentials below it.
pub(crate) static EXPONENTIALS: Fold = Fold {
    bytes: 8,
    identity: "vec2<f32>(LOWEST, 0.0)",
    one: "exponential(v)",
    four: Some("four_exponentials(v)"),
    apart: Some("four_exponentials(vec4<f32>(a, b, c, d))"),
    combine: "joined_exponentials(a, b)",
    ..Fold::word(FLOATS, "vec2<f32>")
};

/// How many numbers, their mean, and the squares of what they are off it. A vector of three takes the room of four.
pub(crate) static MOMENTS: Fold = Fold {
    bytes: 16,
    one: "vec3<f32>(1.0, v, 0.0)",
    four: Some("four_moments(v)"),
    apart: Some("four_moments(vec4<f32>(a, b, c, d))"),
    combine: "joined_moments(a, b)",
    ..Fold::word(FLOATS, "vec3<f32>")
};

/// Every fold there is.
pub(crate) static FOLDS: &[&Fold] = &[
    &SUM_F32,
    &SUM_I32,
    &MAX_F32,
    &MIN_F32,
    &MAX_I32,
    &MIN_I32,
    &ARGMAX_F32,
    &ARGMIN_F32,
    &ARGMAX_I32,
    &ARGMIN_I32,
    &EXPONENTIALS,
    &MOMENTS,
];
