//! Reducers: associative operations with an identity, as WGSL expressions. `reducers.wgsl` defines the functions they call.

use crate::kernel::Variant;

/// An associative reduction: how an element becomes an accumulator, and how accumulators combine.
#[derive(Debug)]
pub(crate) struct Reducer {
    /// The types of an element and of a vector of four.
    pub(crate) elements: [&'static str; 2],
    /// The accumulator's type, and its bytes in a buffer.
    pub(crate) accumulator: &'static str,
    pub(crate) bytes: u64,
    /// The accumulator of no elements.
    identity: &'static str,
    /// The accumulator of the element `v` at index `k` of its row.
    lift: &'static str,
    /// The accumulator of a vector `v` of four consecutive elements, where that is faster than combining four.
    lift_vec4: Option<&'static str>,
    /// The accumulator of four elements `a` to `d` that are strided in a row, where that is faster and indices do not matter.
    lift_strided: Option<&'static str>,
    /// Combines the accumulators `a` and `b`.
    combine: &'static str,
    /// The same where all of `b` is after `a` in the row, and `a` is not the identity.
    combine_ordered: &'static str,
    /// The type and the expression of the result of an accumulator `a`, where it has one.
    pub(crate) result: Option<(&'static str, &'static str)>,
}

/// The loads of a reducing kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Elements of the tensor.
    Elements,
    /// Vectors of four elements.
    Vec4,
    /// Accumulators of segments, from an earlier pass.
    Partials,
    /// Unsigned bytes of the tensor, converted to elements.
    Bytes,
    /// Signed bytes of the tensor, converted to elements.
    SignedBytes,
    /// Integers of the tensor, converted to elements.
    Integers,
}

impl Source {
    pub(crate) const ALL: [Self; 6] =
        [Self::Elements, Self::Vec4, Self::Partials, Self::Bytes, Self::SignedBytes, Self::Integers];

    /// Whether loads are converted to elements.
    pub(crate) fn converts(self) -> bool {
        matches!(self, Self::Bytes | Self::SignedBytes | Self::Integers)
    }
}

const FLOATS: [&str; 2] = ["f32", "vec4<f32>"];
const INTEGERS: [&str; 2] = ["i32", "vec4<i32>"];
/// Floats as their bits.
const BITS: [&str; 2] = ["u32", "vec4<u32>"];

const LIFT_EACH_LANE: &str = "combine(combine(lift(v.x, 4u * k), lift(v.y, 4u * k + 1u)), \
    combine(lift(v.z, 4u * k + 2u), lift(v.w, 4u * k + 3u)))";
const LIFT_EACH_LOAD: &str = "combine_ordered( \
    combine_ordered(lift_load(a, k), lift_load(b, k + params.threads_per_segment)), \
    combine_ordered(lift_load(c, k + 2u * params.threads_per_segment), lift_load(d, k + 3u * params.threads_per_segment)))";

impl Reducer {
    /// A sum in an accumulator of one word.
    const fn word(elements: [&'static str; 2], accumulator: &'static str) -> Self {
        Self {
            elements,
            accumulator,
            bytes: 4,
            identity: "A()",
            lift: "v",
            lift_vec4: None,
            lift_strided: None,
            combine: "a + b",
            combine_ordered: "combine(a, b)",
            result: None,
        }
    }

    /// Argmax over pairs of a key and an index. The identity loses against every pair.
    const fn argmax(elements: [&'static str; 2], lift: &'static str, lift_vec4: &'static str) -> Self {
        Self {
            bytes: 8,
            identity: "vec2<u32>(0u, 0xffffffffu)",
            lift,
            lift_vec4: Some(lift_vec4),
            combine: "argmax_of_two(a, b)",
            combine_ordered: "select(a, b, b.x > a.x)",
            result: Some(("u32", "a.y")),
            ..Self::word(elements, "vec2<u32>")
        }
    }

    /// Completes a kernel variant with this reducer for a kind of load.
    pub(crate) fn applied(&self, to: Variant, source: Source) -> Variant {
        let [element, vec4] = self.elements;
        let (load, lift_load) = match source {
            Source::Elements | Source::Bytes | Source::SignedBytes | Source::Integers => (element, "lift(v, k)"),
            Source::Vec4 => (vec4, self.lift_vec4.unwrap_or(LIFT_EACH_LANE)),
            Source::Partials => (self.accumulator, "v"),
        };
        // A signed word extends the sign of its bytes.
        let (word, loaded) = match source {
            Source::Bytes => ("u32", "E(extractBits(source[at / 4u], 8u * (at % 4u), 8u))"),
            Source::SignedBytes => ("i32", "E(extractBits(source[at / 4u], 8u * (at % 4u), 8u))"),
            Source::Integers => ("i32", "E(source[at])"),
            Source::Elements | Source::Vec4 | Source::Partials => (load, "source[at]"),
        };
        let one_by_one = load == element && source != Source::Partials;
        let strided = self.lift_strided.filter(|_| one_by_one).unwrap_or(LIFT_EACH_LOAD);
        to.with_type("A", self.accumulator)
            .with_type("B", word)
            .with_type("S", load)
            .with_type("E", element)
            .with_function("fn load(at: u32) -> S", loaded)
            .with_function("fn identity() -> A", self.identity)
            .with_function("fn lift(v: E, k: u32) -> A", self.lift)
            .with_function("fn lift_load(v: S, k: u32) -> A", lift_load)
            .with_function("fn lift_strided(a: S, b: S, c: S, d: S, k: u32) -> A", strided)
            .with_function("fn combine(a: A, b: A) -> A", self.combine)
            .with_function("fn combine_ordered(a: A, b: A) -> A", self.combine_ordered)
    }
}

/// The sum, times a factor.
pub(crate) static SUM_F32: Reducer = Reducer { result: Some(("f32", "a * params.extra")), ..Reducer::word(FLOATS, "f32") };
pub(crate) static SUM_I32: Reducer = Reducer { result: Some(("i32", "a")), ..Reducer::word(INTEGERS, "i32") };

/// The maximum of floats, by keys that order NaN above everything; the minimum is the maximum of negated floats.
pub(crate) static MAX_F32: Reducer = Reducer {
    lift: "float_key(v)",
    combine: "max(a, b)",
    result: Some(("u32", "float_of_key(a)")),
    ..Reducer::word(BITS, "u32")
};
pub(crate) static MIN_F32: Reducer = Reducer {
    lift: "float_key(v ^ SIGN)",
    combine: "max(a, b)",
    result: Some(("u32", "float_of_key(a) ^ SIGN")),
    ..Reducer::word(BITS, "u32")
};
pub(crate) static MAX_I32: Reducer = Reducer {
    identity: "i32(-2147483648)",
    combine: "max(a, b)",
    result: Some(("i32", "a")),
    ..Reducer::word(INTEGERS, "i32")
};
pub(crate) static MIN_I32: Reducer =
    Reducer { identity: "2147483647", combine: "min(a, b)", result: Some(("i32", "a")), ..Reducer::word(INTEGERS, "i32") };

/// The index of the maximum or minimum.
pub(crate) static ARGMAX_F32: Reducer = Reducer::argmax(
    BITS,
    "vec2<u32>(comparison_key(v), k)",
    "argmax_of_four(vec4<u32>(comparison_key(v.x), comparison_key(v.y), comparison_key(v.z), comparison_key(v.w)), k)",
);
pub(crate) static ARGMIN_F32: Reducer = Reducer::argmax(
    BITS,
    "vec2<u32>(comparison_key(v ^ SIGN), k)",
    "argmax_of_four(vec4<u32>(comparison_key(v.x ^ SIGN), comparison_key(v.y ^ SIGN), comparison_key(v.z ^ SIGN), comparison_key(v.w ^ SIGN)), k)",
);
pub(crate) static ARGMAX_I32: Reducer = Reducer::argmax(
    INTEGERS,
    "vec2<u32>(bitcast<u32>(v) ^ SIGN, k)",
    "argmax_of_four(bitcast<vec4<u32>>(v) ^ vec4<u32>(SIGN), k)",
);
pub(crate) static ARGMIN_I32: Reducer = Reducer::argmax(
    INTEGERS,
    "vec2<u32>(~bitcast<u32>(v) ^ SIGN, k)",
    "argmax_of_four(~bitcast<vec4<u32>>(v) ^ vec4<u32>(SIGN), k)",
);

/// Online softmax: the maximum, and the sum of exponentials relative to it.
pub(crate) static SOFTMAX_STATS: Reducer = Reducer {
    bytes: 8,
    identity: "vec2<f32>(LOWEST, 0.0)",
    lift: "softmax_stats_of_one(v)",
    lift_vec4: Some("softmax_stats_of_four(v)"),
    lift_strided: Some("softmax_stats_of_four(vec4<f32>(a, b, c, d))"),
    combine: "combine_softmax_stats(a, b)",
    ..Reducer::word(FLOATS, "vec2<f32>")
};

/// Welford moments: count, mean and sum of squared deviations. A vec3 takes 16 bytes.
pub(crate) static MOMENTS: Reducer = Reducer {
    bytes: 16,
    lift: "vec3<f32>(1.0, v, 0.0)",
    lift_vec4: Some("moments_of_four(v)"),
    lift_strided: Some("moments_of_four(vec4<f32>(a, b, c, d))"),
    combine: "combine_moments(a, b)",
    ..Reducer::word(FLOATS, "vec3<f32>")
};

/// The sum of squared deviations from the mean, times a factor.
pub(crate) static VARIANCE: Reducer = Reducer {
    bytes: 16,
    lift: "vec3<f32>(1.0, v, 0.0)",
    lift_vec4: Some("moments_of_four(v)"),
    lift_strided: Some("moments_of_four(vec4<f32>(a, b, c, d))"),
    combine: "combine_moments(a, b)",
    result: Some(("f32", "a.z * params.extra")),
    ..Reducer::word(FLOATS, "vec3<f32>")
};

/// Whether any element is not zero; NaN is not.
pub(crate) static ANY_F32: Reducer = Reducer {
    lift: "select(0u, 1u, (v & 0x7fffffffu) != 0u)",
    combine: "a | b",
    result: Some(("u32", "a")),
    ..Reducer::word(BITS, "u32")
};
pub(crate) static ANY_I32: Reducer = Reducer {
    lift: "select(0u, 1u, v != 0)",
    combine: "a | b",
    result: Some(("u32", "a")),
    ..Reducer::word(INTEGERS, "u32")
};

/// Whether no element is zero.
pub(crate) static ALL_F32: Reducer = Reducer {
    identity: "1u",
    lift: "select(0u, 1u, (v & 0x7fffffffu) != 0u)",
    combine: "a & b",
    result: Some(("u32", "a")),
    ..Reducer::word(BITS, "u32")
};
pub(crate) static ALL_I32: Reducer = Reducer {
    identity: "1u",
    lift: "select(0u, 1u, v != 0)",
    combine: "a & b",
    result: Some(("u32", "a")),
    ..Reducer::word(INTEGERS, "u32")
};

/// The product.
pub(crate) static PROD_F32: Reducer =
    Reducer { identity: "1.0", combine: "a * b", result: Some(("f32", "a")), ..Reducer::word(FLOATS, "f32") };
pub(crate) static PROD_I32: Reducer =
    Reducer { identity: "1", combine: "a * b", result: Some(("i32", "a")), ..Reducer::word(INTEGERS, "i32") };

/// Every reducer.
pub(crate) static REDUCERS: &[&Reducer] = &[
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
    &SOFTMAX_STATS,
    &MOMENTS,
    &VARIANCE,
    &ANY_F32,
    &ANY_I32,
    &ALL_F32,
    &ALL_I32,
    &PROD_F32,
    &PROD_I32,
];
