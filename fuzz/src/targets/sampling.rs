//! The choice of the next token on the host: any options, any logits, any history.

use pteron_llm::{History, Sampler, Sampling, SamplingError};

use crate::generate::cursor::Cursor;
use crate::oracle::error_text;
use crate::seeds;
use crate::target::{Outcome, Target};

/// The target.
pub const TARGET: Target = Target {
    name: "sampling",
    attacks: "pteron-llm: sampling from hostile logits",
    run,
    seeds: seeds::entropy,
    max_len: 1024,
    ..Target::DEFAULT
};

/// The most logits.
const MOST_LOGITS: usize = 64;

fn wild(cursor: &mut Cursor<'_>, usual: f32) -> f32 {
    match cursor.below(10) {
        0 => cursor.float() as f32,
        1 => f32::from_bits(cursor.word()),
        2 | 3 => cursor.ordinary_float().abs() as f32,
        4 | 5 => f32::from(cursor.byte()) / 255.0,
        _ => usual,
    }
}

fn sampling(cursor: &mut Cursor<'_>) -> Sampling {
    let mut sampling = Sampling::default()
        .with_temperature(wild(cursor, 1.0))
        .with_top_k(if cursor.flip() { 0 } else { cursor.word() % 80 })
        .with_top_p(wild(cursor, 1.0))
        .with_min_p(wild(cursor, 0.0))
        .with_repetition_penalty(wild(cursor, 1.0))
        .with_presence_penalty(wild(cursor, 0.0))
        .with_frequency_penalty(wild(cursor, 0.0));
    sampling.logit_bias = (0..cursor.below(4)).map(|_| (cursor.word() % 70, wild(cursor, f32::NEG_INFINITY))).collect();
    sampling.with_seed(cursor.long()).with_logprobs(cursor.flip().then(|| cursor.word() % 80))
}

fn run(bytes: &[u8]) -> Outcome {
    let mut cursor = Cursor::new(bytes);
    let cursor = &mut cursor;
    let options = sampling(cursor);
    let mut sampler = match Sampler::new(options.clone()) {
        Ok(sampler) => sampler,
        Err(error) => {
            error_text(&error);
            return "refused options";
        }
    };
    let hostile = cursor.one_in(4);
    let count = cursor.below(MOST_LOGITS + 1);
    let logit = |cursor: &mut Cursor<'_>| if hostile { wild(cursor, 0.0) } else { cursor.ordinary_float() as f32 };
    let logits: Vec<f32> = (0..count).map(|_| logit(cursor)).collect();
    let tokens = |cursor: &mut Cursor<'_>| (0..cursor.below(8)).map(|_| cursor.word() % 70).collect::<Vec<u32>>();
    let (prompt, generated) = (tokens(cursor), tokens(cursor));
    let history = History { prompt: &prompt, generated: &generated };
    let first = sampler.sample(&logits, &history);
    let again = Sampler::new(options.clone()).and_then(|mut fresh| fresh.sample(&logits, &history));
    // By their text, because NaN is unlike itself.
    let [first_text, again] = [&first, &again].map(|choice| format!("{choice:?}"));
    assert!(first_text == again, "the same seed chose {first_text} and {again}");
    match first {
        Ok(choice) => {
            let token = choice.token as usize;
            assert!(token < logits.len(), "token {token} of {}", logits.len());
            let forbidden = options.logit_bias.iter().any(|&(id, bias)| id == choice.token && bias == f32::NEG_INFINITY);
            assert!(!forbidden, "a token that is forbidden was chosen");
            assert!(choice.logprob.is_none_or(|logprob| logprob <= 1e-6), "{choice:?}");
            assert!(choice.top_logprobs.len() <= options.logprobs.unwrap_or(0) as usize, "{choice:?}");
            "chosen"
        }
        Err(error) => {
            error_text(&error);
            match error {
                SamplingError::Logit { .. } => "refused logits",
                _ => "refused",
            }
        }
    }
}
