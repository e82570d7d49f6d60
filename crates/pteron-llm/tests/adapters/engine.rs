//! Adapters of an engine: by name, per request, loaded and unloaded while it runs.

use std::time::Duration;

use pteron_llm::{
    Engine, EngineAdapter, EngineError, EngineOptions, EngineRequest, GeneratedToken, GenerationOptions, KvDtype,
    ModelAssets, Sampling, TokenStream,
};

use super::*;

const NAMES: [&str; 4] = ["one", "two", "three", "four"];

fn engine(adapters: Option<AdapterOptions>) -> Engine {
    let model = ModelOptions::default().with_precision(Precision::Full).with_kv_dtype(KvDtype::F32);
    let options = EngineOptions::default().with_max_sequences(6).with_max_rows(24).with_model(model).with_adapters(adapters);
    block_on(Engine::load(&GPU, &program(None, WeightFormat::Float32), ModelAssets::ids_only(), options)).unwrap()
}

fn request(prompt: &[TokenId], adapter: Option<&str>, count: usize) -> EngineRequest {
    let sampling = Sampling::default().with_logprobs(1);
    let options = GenerationOptions::default().with_max_tokens(count).with_ignore_eos(true).with_sampling(sampling);
    EngineRequest::new(prompt.to_vec()).with_options(options).with_adapter(adapter.map(str::to_owned))
}

fn collect(stream: &mut TokenStream) -> Vec<GeneratedToken> {
    std::iter::from_fn(|| stream.next_blocking().unwrap()).collect()
}

/// Compares the log probabilities of a text with those of a model of merged weights after the same tokens, and its tokens with the most
/// likely ones, unless the two are about equally likely.
#[track_caller]
fn assert_text_of(method: &Method, prompt: &[TokenId], text: &[GeneratedToken], context: &str) {
    let mut before = prompt.to_vec();
    for (index, token) in text.iter().enumerate() {
        let logits = alone(method, &before);
        let largest = logits.iter().copied().fold(f32::MIN, f32::max);
        let sum: f32 = logits.iter().map(|logit| (logit - largest).exp()).sum();
        let expected = logits[token.token as usize] - largest - sum.ln();
        let difference = (token.logprob.unwrap() - expected).abs();
        assert!(difference < 0.02, "{context}: token {index} has {:?}, expected {expected}", token.logprob);
        assert!(largest - logits[token.token as usize] < 0.02, "{context}: token {index} is not the most likely one");
        before.push(token.token);
    }
}

#[test]
fn requests_of_one_batch_choose_adapters_by_name() {
    let engine = engine(Some(room(4)));
    let adapters = four_adapters();
    for (name, adapter) in NAMES.iter().zip(&adapters) {
        engine.load_adapter(name, adapter.clone()).unwrap();
    }
    let methods: Vec<Method> = [None].into_iter().chain(adapters.iter().map(Some)).map(reference).collect();
    let requests: Vec<_> = (0..10).map(|index| (tokens(index, 3 + 4 * index), index as usize % 5)).collect();
    let streams = requests.iter().map(|(prompt, own)| {
        let name = own.checked_sub(1).map(|own| NAMES[own]);
        engine.submit(request(prompt, name, 12)).unwrap()
    });
    let streams: Vec<_> = streams.collect();
    for ((prompt, own), mut stream) in requests.iter().zip(streams) {
        let text = collect(&mut stream);
        assert_eq!(text.len(), 12);
        assert_text_of(&methods[*own], prompt, &text, &format!("adapter {own}, {} tokens", prompt.len()));
        // The same request alone.
        let name = own.checked_sub(1).map(|own| NAMES[own]);
        let alone = collect(&mut engine.submit(request(prompt, name, 12)).unwrap());
        assert_text_of(&methods[*own], prompt, &alone, &format!("adapter {own} alone"));
    }
    assert!(engine.adapters().iter().all(|adapter| adapter.requests == 0));
}

#[test]
fn prefixes_are_shared_among_requests_of_one_adapter() {
    let engine = engine(Some(room(2)));
    let [first, second, ..] = four_adapters();
    engine.load_adapter("one", first.clone()).unwrap();
    engine.load_adapter("two", second).unwrap();
    let prompt = tokens(3, 70);
    let cached = |adapter| {
        let mut stream = engine.submit(request(&prompt, adapter, 2)).unwrap();
        collect(&mut stream);
        stream.usage().cached_tokens
    };
    assert_eq!([None, Some("one"), Some("two")].map(cached), [0; 3]);
    assert_eq!([None, Some("one"), Some("two")].map(cached), [64; 3]);
    // An adapter of the same name is another one.
    engine.unload_adapter("one").unwrap();
    engine.load_adapter("one", first).unwrap();
    assert_eq!(cached(Some("one")), 0);
}

#[test]
fn adapters_come_and_go_while_requests_run() {
    let engine = engine(Some(room(1)));
    let [first, second, ..] = four_adapters();
    let methods = [&first, &second].map(|adapter| reference(Some(adapter)));
    engine.load_adapter("a", first.clone()).unwrap();
    let prompt = tokens(5, 9);
    let mut running = engine.submit(request(&prompt, Some("a"), 60)).unwrap();
    let mut text = vec![running.next_blocking().unwrap().unwrap()];
    let error = engine.load_adapter("a", second.clone()).unwrap_err();
    assert!(matches!(&error, EngineError::AdapterExists(name) if name == "a"), "{error}");
    let error = engine.load_adapter("b", second.clone()).unwrap_err().to_string();
    assert!(error.contains("all 1 slots hold an adapter"), "{error}");

    // It goes on with its adapter; its slot is free when it has ended.
    engine.unload_adapter("a").unwrap();
    let error = engine.submit(request(&prompt, Some("a"), 1)).unwrap_err();
    assert!(matches!(&error, EngineError::UnknownAdapter { name, .. } if name == "a"), "{error}");
    assert!(engine.unload_adapter("a").is_err());
    text.extend(collect(&mut running));
    assert_eq!(text.len(), 60);
    assert_text_of(&methods[0], &prompt, &text, "a text whose adapter was unloaded");
    engine.load_adapter("b", second).unwrap();
    let text = collect(&mut engine.submit(request(&prompt, Some("b"), 8)).unwrap());
    assert_text_of(&methods[1], &prompt, &text, "an adapter in a slot that was used before");
    let listed: Vec<(String, u32)> =
        engine.adapters().into_iter().map(|EngineAdapter { name, rank, .. }| (name, rank)).collect();
    assert_eq!(listed, [("b".to_owned(), 8)]);

    // A request that is cancelled leaves its adapter.
    let mut cancelled = engine.submit(request(&prompt, Some("b"), 80)).unwrap();
    cancelled.next_blocking().unwrap();
    engine.unload_adapter("b").unwrap();
    drop(cancelled);
    engine.load_adapter("c", first).unwrap();
    assert!(engine.wait_idle(Duration::from_secs(60)));
}

#[test]
fn what_the_engine_has_no_room_for_is_refused() {
    let without = engine(None);
    let [first, second, ..] = four_adapters();
    let error = without.load_adapter("a", first).unwrap_err();
    assert!(matches!(error, EngineError::Adapter(_)), "{error}");
    let error = without.submit(request(&[1], Some("a"), 1)).unwrap_err().to_string();
    assert_eq!(error, "there is no adapter \"a\"; there is none at all");
    let engine = engine(Some(AdapterOptions { max_rank: 4, ..room(2) }));
    let error = engine.load_adapter("a", second).unwrap_err().to_string();
    assert!(error.contains("rank is 8, but the model was loaded for ranks up to 4"), "{error}");
    assert!(engine.adapters().is_empty());
    let text = collect(&mut engine.submit(request(&tokens(1, 5), None, 4)).unwrap());
    assert_text_of(&reference(None), &tokens(1, 5), &text, "without an adapter");
}
