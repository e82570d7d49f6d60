use proptest::prelude::*;

use super::*;

/// Logits whose probabilities at temperature 1 are easy to know.
fn logits(probabilities: &[f32]) -> Vec<f32> {
    probabilities.iter().map(|probability| probability.ln() + 3.0).collect()
}

fn sampler(options: Sampling) -> Sampler {
    Sampler::new(options).unwrap()
}

fn choose(options: &Sampling, logits: &[f32], history: &History<'_>) -> TokenId {
    sampler(options.clone()).sample(logits, history).unwrap().token
}

fn tokens(options: Sampling, logits: &[f32], count: usize) -> Vec<TokenId> {
    let mut sampler = sampler(options);
    (0..count).map(|_| sampler.sample(logits, &History::default()).unwrap().token).collect()
}

/// Pearson's statistic of drawn tokens against probabilities. Tokens without probability must not be drawn.
fn chi_square(options: Sampling, logits: &[f32], expected: &[f64]) -> f64 {
    const DRAWS: u32 = 40_000;
    let mut counts = vec![0.0; expected.len()];
    for token in tokens(options, logits, DRAWS as usize) {
        counts[token as usize] += 1.0;
    }
    let term = |(count, probability): (&f64, &f64)| {
        let expected = probability * f64::from(DRAWS);
        if expected == 0.0 {
            assert_eq!(*count, 0.0);
            return 0.0;
        }
        (count - expected).powi(2) / expected
    };
    counts.iter().zip(expected).map(term).sum()
}

const EIGHT: [f32; 8] = [0.30, 0.05, 0.20, 0.02, 0.25, 0.08, 0.04, 0.06];

fn normalised(weights: &[f64]) -> Vec<f64> {
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

/// The limits are the 99.99 % quantiles for one less than the number of tokens that can be drawn.
#[test]
fn draws_follow_the_distribution() {
    let temperature = Sampling { temperature: 1.0, seed: 11, ..Sampling::default() };
    let expected = EIGHT.map(f64::from);
    assert!(chi_square(temperature.clone(), &logits(&EIGHT), &expected) < 29.88);
    let hot = Sampling { temperature: 2.0, ..temperature.clone() };
    let expected = normalised(&EIGHT.map(|probability| f64::from(probability).sqrt()));
    assert!(chi_square(hot.clone(), &logits(&EIGHT), &expected) < 29.88);
    // The statistic can tell: the same draws are not those of the other temperature.
    assert!(chi_square(hot, &logits(&EIGHT), &EIGHT.map(f64::from)) > 1000.0);
}

#[test]
fn draws_follow_the_truncated_distributions() {
    let base = Sampling { temperature: 1.0, seed: 12, ..Sampling::default() };
    let top_k = Sampling { top_k: 3, ..base.clone() };
    let expected = normalised(&[0.30, 0.0, 0.20, 0.0, 0.25, 0.0, 0.0, 0.0]);
    assert!(chi_square(top_k, &logits(&EIGHT), &expected) < 18.42);
    // 0.30 + 0.25 + 0.20 are not yet 0.8; with 0.08 they are.
    let top_p = Sampling { top_p: 0.8, ..base.clone() };
    let expected = normalised(&[0.30, 0.0, 0.20, 0.0, 0.25, 0.08, 0.0, 0.0]);
    assert!(chi_square(top_p, &logits(&EIGHT), &expected) < 21.11);
    // At least 0.3 × 0.19.
    let min_p = Sampling { min_p: 0.19, ..base.clone() };
    let expected = normalised(&[0.30, 0.0, 0.20, 0.0, 0.25, 0.08, 0.0, 0.06]);
    assert!(chi_square(min_p, &logits(&EIGHT), &expected) < 23.51);
    // Top-p works on what top-k left: of 0.75, 0.55 are 73 %.
    let both = Sampling { top_k: 3, top_p: 0.7, ..base };
    let expected = normalised(&[0.30, 0.0, 0.0, 0.0, 0.25, 0.0, 0.0, 0.0]);
    assert!(chi_square(both, &logits(&EIGHT), &expected) < 15.14);
}

#[test]
fn a_seed_gives_the_same_tokens_everywhere_and_another_gives_others() {
    let options = Sampling { temperature: 1.0, seed: 42, ..Sampling::default() };
    let logits = [0.0, 1.0, 0.5, -1.0, 2.0, 0.25, -0.5, 1.5];
    let drawn = tokens(options.clone(), &logits, 24);
    assert_eq!(drawn, tokens(options.clone(), &logits, 24));
    assert_ne!(drawn, tokens(Sampling { seed: 43, ..options }, &logits, 24));
    // Written down once: these must not change between platforms or releases.
    assert_eq!(drawn, [4, 7, 7, 5, 4, 4, 2, 4, 4, 2, 4, 4, 4, 2, 2, 6, 7, 1, 5, 4, 4, 4, 7, 4]);
}

#[test]
fn a_rewound_sampler_repeats_itself() {
    let mut sampler = sampler(Sampling { temperature: 1.0, seed: 5, ..Sampling::default() });
    let logits = logits(&EIGHT);
    let draw = |sampler: &mut Sampler| sampler.sample(&logits, &History::default()).unwrap().token;
    let first: Vec<_> = (0..20).map(|_| draw(&mut sampler)).collect();
    assert_eq!(sampler.draws(), 20);
    sampler.rewind(5);
    let again: Vec<_> = (0..15).map(|_| draw(&mut sampler)).collect();
    assert_eq!(first[5..], again);
}

#[test]
fn greedy_takes_the_largest_and_of_equal_ones_the_first() {
    let greedy = Sampling::default();
    assert_eq!(choose(&greedy, &[1.0, 3.0, 2.0, 3.0], &History::default()), 1);
    assert_eq!(choose(&greedy, &[f32::NEG_INFINITY, -1e30], &History::default()), 1);
    assert_eq!(choose(&greedy, &[0.0, -0.0], &History::default()), 0);
}

#[test]
fn ties_at_the_edge_of_top_k_keep_the_smallest_ids() {
    let options = Sampling { temperature: 1.0, top_k: 2, ..Sampling::default() };
    let drawn = tokens(options, &[1.0, 2.0, 1.0, 1.0], 200);
    assert!(drawn.iter().all(|token| matches!(token, 0 | 1)) && drawn.contains(&0));
}

#[test]
fn penalties_are_those_computed_by_hand() {
    let history = History { prompt: &[0, 1], generated: &[2, 3, 3, 99] };
    let penalised = |options: Sampling, logits: &[f32]| {
        let mut sampler = sampler(options);
        sampler.sample(logits, &history).unwrap();
        // Twice, to see that nothing is left over from the first time.
        sampler.sample(logits, &history).unwrap();
        sampler.logits
    };
    let logits = [2.0, -2.0, 4.0, -4.0, 1.0];
    let repetition = Sampling { repetition_penalty: 2.0, ..Sampling::default() };
    assert_eq!(penalised(repetition, &logits), [1.0, -4.0, 2.0, -8.0, 1.0]);
    let presence = Sampling { presence_penalty: 0.5, ..Sampling::default() };
    assert_eq!(penalised(presence, &logits), [2.0, -2.0, 3.5, -4.5, 1.0]);
    let frequency = Sampling { frequency_penalty: 0.25, ..Sampling::default() };
    assert_eq!(penalised(frequency, &logits), [2.0, -2.0, 3.75, -4.5, 1.0]);
    // All together, then the bias.
    let all = Sampling {
        repetition_penalty: 2.0,
        presence_penalty: 0.5,
        frequency_penalty: 0.25,
        logit_bias: vec![(4, -3.0), (0, f32::NEG_INFINITY)],
        ..Sampling::default()
    };
    assert_eq!(penalised(all, &logits), [f64::NEG_INFINITY, -4.0, 1.25, -9.0, -2.0]);
}

#[test]
fn bias_can_force_and_forbid() {
    let forced = Sampling { logit_bias: vec![(2, 50.0)], ..Sampling::default() };
    assert_eq!(choose(&forced, &[9.0, 8.0, -9.0], &History::default()), 2);
    let forbidden = Sampling { temperature: 1.0, logit_bias: vec![(0, f32::NEG_INFINITY)], ..Sampling::default() };
    assert!(!tokens(forbidden, &[9.0, 0.0, 0.0], 100).contains(&0));
}

#[test]
fn log_probabilities_are_the_models_own() {
    let options = Sampling { temperature: 1.0, top_k: 1, logprobs: Some(3), seed: 1, ..Sampling::default() };
    let choice = sampler(options).sample(&logits(&EIGHT), &History::default()).unwrap();
    assert_eq!((choice.token, choice.top_logprobs.iter().map(|(token, _)| *token).collect()), (0, vec![0, 4, 2]));
    for ((_, logprob), probability) in choice.top_logprobs.iter().zip([0.30f32, 0.25, 0.20]) {
        assert!((logprob - probability.ln()).abs() < 1e-6);
    }
    assert_eq!(choice.logprob, Some(choice.top_logprobs[0].1));
    let none = sampler(Sampling::default()).sample(&[1.0, 2.0], &History::default()).unwrap();
    assert_eq!(none, SampledToken { token: 1, logprob: None, top_logprobs: vec![] });
    let all = Sampling { logprobs: Some(u32::MAX), ..Sampling::default() };
    assert_eq!(sampler(all).sample(&[1.0, 1.0], &History::default()).unwrap().top_logprobs.len(), 2);
}

#[test]
fn bad_logits_are_errors_that_draw_nothing() {
    let mut sampler = sampler(Sampling { temperature: 1.0, logit_bias: vec![(1, 1.0)], ..Sampling::default() });
    let mut error = |logits: &[f32]| sampler.sample(logits, &History::default()).unwrap_err();
    assert!(matches!(error(&[0.0, f32::NAN]), SamplingError::Logit { token: 1, .. }));
    assert!(matches!(error(&[f32::INFINITY, 0.0]), SamplingError::Logit { token: 0, .. }));
    assert!(matches!(error(&[f32::NEG_INFINITY; 2]), SamplingError::NoToken(_)));
    assert!(matches!(error(&[]), SamplingError::NoToken(_)));
    let error = error(&[1.0]);
    assert_eq!(error.to_string(), "logit_bias names token 1, but the model's vocabulary ends at 0");
    assert_eq!(sampler.draws(), 0);
}

#[test]
fn options_outside_of_their_range_are_named() {
    let error = |options: Sampling| Sampler::new(options).unwrap_err().to_string();
    let base = Sampling::default;
    assert_eq!(error(Sampling { temperature: -1.0, ..base() }), "temperature is -1, but must be from 0 to 100");
    assert_eq!(error(Sampling { temperature: f32::NAN, ..base() }), "temperature is NaN, but must be from 0 to 100");
    assert_eq!(error(Sampling { top_p: 0.0, ..base() }), "top_p is 0, but must be above 0 and at most 1");
    assert_eq!(error(Sampling { min_p: 1.5, ..base() }), "min_p is 1.5, but must be from 0 to 1");
    assert!(error(Sampling { repetition_penalty: 0.0, ..base() }).starts_with("repetition_penalty is 0, but"));
    assert!(error(Sampling { presence_penalty: 101.0, ..base() }).starts_with("presence_penalty is 101, but"));
    assert!(error(Sampling { frequency_penalty: f32::NAN, ..base() }).starts_with("frequency_penalty is NaN, but"));
    assert!(error(Sampling { logit_bias: vec![(3, f32::INFINITY)], ..base() }).starts_with("logit_bias of token 3 is inf"));
}

#[test]
fn options_can_be_read_from_json() {
    let options: Sampling = serde_json::from_str(r#"{"temperature": 0.7, "top_k": 40, "logit_bias": [[5, -1.5]]}"#).unwrap();
    assert_eq!(options, Sampling { temperature: 0.7, top_k: 40, logit_bias: vec![(5, -1.5)], ..Sampling::default() });
    assert!(serde_json::from_str::<Sampling>(r#"{"temprature": 1}"#).unwrap_err().to_string().contains("temprature"));
}

/// The tokens that may be drawn, by sorting everything and following the definitions word by word.
fn allowed(options: &Sampling, logits: &[f32]) -> Vec<TokenId> {
    let temperature = f64::from(options.temperature);
    let mut ranked: Vec<(TokenId, f64)> =
        (0..).zip(logits).map(|(token, &logit)| (token, f64::from(logit) / temperature)).collect();
    ranked.retain(|(_, logit)| logit.is_finite());
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    if options.top_k > 0 {
        ranked.truncate(options.top_k as usize);
    }
    let max = ranked[0].1;
    let sum: f64 = ranked.iter().map(|(_, logit)| (logit - max).exp()).sum();
    let mut before = 0.0;
    // A little room for sums that differ in their last digits.
    ranked.retain(|(_, logit)| {
        let keep = options.top_p == 1.0 || before < f64::from(options.top_p) + 1e-9;
        before += (logit - max).exp() / sum;
        keep
    });
    ranked.retain(|(_, logit)| (logit - max).exp() >= f64::from(options.min_p) - 1e-9);
    ranked.into_iter().map(|(token, _)| token).collect()
}

fn some_logits() -> impl Strategy<Value = Vec<f32>> {
    let logit = prop_oneof![4 => -20f32..20.0, 1 => Just(f32::NEG_INFINITY), 1 => Just(3.0f32), 1 => -3e38f32..3e38];
    (prop::collection::vec(logit, 0..300), -1e3f32..1e3).prop_map(|(mut logits, one)| {
        logits.push(one);
        logits
    })
}

proptest! {
    #[test]
    fn a_drawn_token_is_always_allowed(
        logits in some_logits(),
        temperature in 0.01f32..5.0,
        top_k in 0u32..400,
        top_p in prop_oneof![Just(1.0f32), 0.01f32..1.0],
        min_p in prop_oneof![Just(0.0f32), 0.0f32..=1.0],
        seed in any::<u64>(),
    ) {
        let options = Sampling { temperature, top_k, top_p, min_p, seed, ..Sampling::default() };
        let allowed = allowed(&options, &logits);
        for token in tokens(options, &logits, 8) {
            prop_assert!(allowed.contains(&token), "{} is not in {:?}", token, allowed);
        }
    }

    #[test]
    fn a_greedy_token_is_the_first_of_the_largest(logits in some_logits()) {
        let token = choose(&Sampling::default(), &logits, &History::default()) as usize;
        prop_assert!(logits[..token].iter().all(|logit| *logit < logits[token]));
        prop_assert!(logits[token..].iter().all(|logit| *logit <= logits[token]));
    }
}
