//! Shapes by name, and by numbers.

use crate::decoder::{Biases, Decoder, Pairs, Part, Rotary, Scaling, Weight};
use crate::error::{Error, Result};

/// What the sizes of a family's models have in common.
#[derive(Clone, Copy)]
struct Family {
    epsilon: f64,
    theta: f64,
    /// By how much Llama 3.1 and later stretch slow frequencies.
    stretch: Option<f64>,
    head_norms: bool,
    biases: Biases,
    context: u32,
}

const LLAMA_2: Family =
    Family { epsilon: 1e-5, theta: 1e4, stretch: None, head_norms: false, biases: Biases::None, context: 4096 };
const LLAMA_3_1: Family = Family { theta: 5e5, stretch: Some(8.0), context: 131_072, ..LLAMA_2 };
const LLAMA_3_2: Family = Family { stretch: Some(32.0), ..LLAMA_3_1 };
/// Version 0.3, which has no sliding window.
const MISTRAL: Family = Family { theta: 1e6, context: 32_768, ..LLAMA_2 };
const QWEN_2_5: Family = Family { epsilon: 1e-6, theta: 1e6, biases: Biases::Inputs, context: 32_768, ..LLAMA_2 };
const QWEN_3: Family = Family { biases: Biases::None, head_norms: true, context: 40_960, ..QWEN_2_5 };
const SMOLLM_2: Family = Family { theta: 1e5, context: 8192, ..LLAMA_2 };

/// A model: its name, its family, whether its output is its embedding; then tokens, width, layers, heads, heads of keys and values,
/// numbers in a head and between gate and down projection.
type Shape = (&'static str, Family, bool, [u32; 7]);

/// As the models' published configurations have them.
static SHAPES: &[Shape] = &[
    ("llama-2-7b", LLAMA_2, false, [32_000, 4096, 32, 32, 32, 128, 11_008]),
    ("llama-3.1-8b", LLAMA_3_1, false, [128_256, 4096, 32, 32, 8, 128, 14_336]),
    ("llama-3.2-1b", LLAMA_3_2, true, [128_256, 2048, 16, 32, 8, 64, 8192]),
    ("llama-3.2-3b", LLAMA_3_2, true, [128_256, 3072, 28, 24, 8, 128, 8192]),
    ("mistral-7b", MISTRAL, false, [32_768, 4096, 32, 32, 8, 128, 14_336]),
    ("qwen2.5-0.5b", QWEN_2_5, true, [151_936, 896, 24, 14, 2, 64, 4864]),
    ("qwen2.5-1.5b", QWEN_2_5, true, [151_936, 1536, 28, 12, 2, 128, 8960]),
    ("qwen3-0.6b", QWEN_3, true, [151_936, 1024, 28, 16, 8, 128, 3072]),
    ("qwen3-1.7b", QWEN_3, true, [151_936, 2048, 28, 16, 8, 128, 6144]),
    ("qwen3-4b", QWEN_3, true, [151_936, 2560, 36, 32, 8, 128, 9728]),
    ("qwen3-8b", QWEN_3, false, [151_936, 4096, 36, 32, 8, 128, 12_288]),
    ("smollm2-135m", SMOLLM_2, true, [49_152, 576, 30, 9, 3, 64, 1536]),
    ("smollm2-360m", SMOLLM_2, true, [49_152, 960, 32, 15, 5, 64, 2560]),
    ("smollm2-1.7b", Family { theta: 1.3e5, ..SMOLLM_2 }, true, [49_152, 2048, 24, 32, 32, 64, 8192]),
];

/// Beyond these a shape is a slip of the keyboard, and would fill memory before anything is written.
const MOST_LAYERS: u32 = 10_000;
const MOST_WEIGHTS: u128 = 1 << 42;

/// Takes a value into a decoder; `None` if it cannot be read.
type Set = fn(&mut Decoder, &str) -> Option<()>;

/// What can be set, and what kind of value it takes.
static KEYS: &[(&str, &str, Set)] = &[
    ("layers", "a whole number", |decoder, value| set(&mut decoder.layers, value)),
    ("width", "a whole number", |decoder, value| set(&mut decoder.width, value)),
    ("heads", "a whole number", |decoder, value| set(&mut decoder.heads, value)),
    ("kv", "a whole number", |decoder, value| set(&mut decoder.key_value_heads, value)),
    ("head", "a whole number", |decoder, value| set(&mut decoder.head_width, value)),
    ("hidden", "a whole number", |decoder, value| set(&mut decoder.hidden, value)),
    ("vocab", "a whole number", |decoder, value| set(&mut decoder.vocabulary, value)),
    ("context", "a whole number", |decoder, value| set(&mut decoder.trained_context, value)),
    ("theta", "a number", |decoder, value| set(&mut decoder.rotary.theta, value)),
    ("epsilon", "a number", |decoder, value| set(&mut decoder.norm_epsilon, value)),
    ("tied", "true or false", |decoder, value| set(&mut decoder.tied, value)),
    ("head_norms", "true or false", |decoder, value| set(&mut decoder.head_norms, value)),
    ("biases", "none, inputs or all", |decoder, value| {
        decoder.biases = match value {
            "none" => Biases::None,
            "inputs" => Biases::Inputs,
            "all" => Biases::All,
            _ => return None,
        };
        Some(())
    }),
];

fn set<T: std::str::FromStr>(field: &mut T, value: &str) -> Option<()> {
    *field = value.parse().ok()?;
    Some(())
}

/// The names of shapes that are known.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().map(|(name, ..)| *name)
}

/// Reads a shape: a name (`llama-3.2-1b`), numbers (`layers=2,width=256,heads=4,kv=2,hidden=512,vocab=1000,head=64`), or a name and
/// numbers that differ from it (`qwen3-8b,layers=2`). Without `kv` every head has keys of its own; without `head` they share the
/// width.
///
/// # Errors
/// What is not known, missing, or does not fit together; the text says what would.
pub fn parse(text: &str) -> Result<Decoder> {
    let mut items = text.split(',').map(str::trim).peekable();
    let named = items.next_if(|item| !item.contains('='));
    let mut decoder = match named {
        None => blank(),
        Some(name) => by_name(name)?,
    };
    for item in items {
        let Some((key, value)) = item.split_once('=') else {
            return Err(Error::Option(format!("`{item}` in the shape `{text}` is no `key=value`")));
        };
        let Some((_, kind, set)) = KEYS.iter().find(|(known, ..)| *known == key) else {
            let known: Vec<_> = KEYS.iter().map(|(key, ..)| *key).collect();
            return Err(Error::Option(format!("shapes have no `{key}`; there are {}", known.join(", "))));
        };
        if set(&mut decoder, value).is_none() {
            return Err(Error::Option(format!("`{key}` of a shape is {kind}, not `{value}`")));
        }
    }
    complete(&mut decoder);
    check(&decoder)?;
    Ok(decoder)
}

fn by_name(name: &str) -> Result<Decoder> {
    let shape = SHAPES.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name)).ok_or_else(|| Error::Unsupported {
        what: format!("the shape `{name}`"),
        alternatives: names().map(str::to_owned).chain(["layers=…,width=…,heads=…,hidden=…,vocab=…".to_owned()]).collect(),
    })?;
    Ok(decoder(shape))
}

/// No sizes, and frequencies for any context.
fn blank() -> Decoder {
    decoder(&("", Family { stretch: None, ..LLAMA_3_1 }, false, [0; 7]))
}

fn decoder(&(_, family, tied, sizes): &Shape) -> Decoder {
    let [vocabulary, width, layers, heads, key_value_heads, head_width, hidden] = sizes;
    let scaling = family.stretch.map(|factor| Scaling::Llama3 {
        factor,
        low_frequency_factor: 1.0,
        high_frequency_factor: 4.0,
        original_context: 8192,
    });
    Decoder {
        vocabulary,
        width,
        layers,
        heads,
        key_value_heads,
        head_width,
        hidden,
        norm_epsilon: family.epsilon,
        // Random weights are in the order that programs want.
        rotary: Rotary { theta: family.theta, scaling, pairs: Pairs::Neighbours },
        head_norms: family.head_norms,
        biases: family.biases,
        tied,
        trained_context: family.context,
    }
}

/// Sizes that follow from others.
fn complete(decoder: &mut Decoder) {
    if decoder.key_value_heads == 0 {
        decoder.key_value_heads = decoder.heads;
    }
    if decoder.head_width == 0 {
        decoder.head_width = decoder.width.checked_div(decoder.heads).unwrap_or(0);
    }
}

fn check(decoder: &Decoder) -> Result<()> {
    let refuse = |problem: String| Err(Error::Option(format!("the shape {problem}")));
    let Decoder { heads, key_value_heads, head_width, width, hidden, .. } = *decoder;
    let sizes = [
        ("layers", decoder.layers),
        ("width", width),
        ("heads", heads),
        ("kv", key_value_heads),
        ("head", head_width),
        ("hidden", hidden),
        ("vocab", decoder.vocabulary),
        ("context", decoder.trained_context),
    ];
    if let Some((key, _)) = sizes.iter().find(|(_, size)| *size == 0) {
        return refuse(format!("has no `{key}`, or it is 0"));
    }
    if !heads.is_multiple_of(key_value_heads) {
        return refuse(format!("has {heads} heads, which {key_value_heads} heads of keys (`kv`) cannot share evenly"));
    }
    if let Some((key, size)) =
        [("head", head_width), ("width", width), ("hidden", hidden)].iter().find(|(_, size)| size % 2 != 0)
    {
        return refuse(format!("has `{key}={size}`; numbers are stored and rotated in pairs, so it must be even"));
    }
    if decoder.layers > MOST_LAYERS || heads.checked_mul(head_width).is_none() || count(decoder) > MOST_WEIGHTS {
        return refuse("is larger than any model there is".to_owned());
    }
    Ok(())
}

/// How many weights there are.
fn count(decoder: &Decoder) -> u128 {
    let numbers = |weight| u128::from(decoder.matrix(weight).count());
    let layer: u128 = Part::ALL.into_iter().map(|part| numbers(Weight::Layer(0, part))).sum();
    u128::from(decoder.layers) * layer + 2 * numbers(Weight::Embedding)
}
