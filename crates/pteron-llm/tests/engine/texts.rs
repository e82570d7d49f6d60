//! The text of a request is that of a session, whatever runs beside it.

use pteron_convert::template::ConvertOptions;

use super::*;

#[test]
fn mixed_requests_get_the_texts_that_they_get_alone() {
    let engine = tiny_engine(EngineOptions::default().with_max_sequences(6).with_max_rows(16));
    let mut random = Random(1);
    let shared = random.tokens(70);
    let mut streams = Vec::new();
    for index in 0..24 {
        let own = 1 + random.below(40);
        let prompt = match index % 3 {
            0 => [&shared[..33 + index], &random.tokens(3)].concat(),
            _ => random.tokens(own),
        };
        let options = some_options(&mut random);
        let mut stream = engine.submit(request(&prompt, &options)).unwrap();
        match index % 5 {
            // Some are cancelled, at once or after a token.
            2 => drop(stream),
            4 => drop(stream.next_blocking().unwrap().unwrap()),
            _ => streams.push((prompt, options, stream)),
        }
    }
    for (prompt, options, mut stream) in streams {
        let outcome = collect(&mut stream).unwrap();
        assert_eq!(outcome, alone(tiny_model(), &prompt, &options), "{} tokens, {options:?}", prompt.len());
        assert_eq!((stream.usage().prompt_tokens, stream.usage().generated_tokens), (prompt.len(), outcome.tokens.len()));
    }
    let statistics = engine.statistics();
    assert!(statistics.cached_tokens >= 32, "{statistics:?}");
    assert_eq!((statistics.waiting, statistics.running, statistics.blocks_used), (0, 0, 0));
    assert_eq!((statistics.finished + statistics.cancelled, statistics.failed), (24, 0));
}

/// The bytes that leave room for some blocks beyond one full context, by the error of a budget that is too small.
fn budget_for(blocks: u64) -> u64 {
    let options = EngineOptions::default().with_max_sequences(4).with_max_rows(16).with_model(exact());
    let refused = block_on(Engine::load(&gpu(), &tiny(), ModelAssets::ids_only(), options.with_memory_budget(1)));
    let Err(Error::Budget(error)) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains(&error.needed.to_string()) && error.left == 0, "{error}");
    // A context of 128 positions has four blocks.
    error.weights + error.activations + error.needed / 4 * blocks
}

#[test]
fn preempted_requests_get_the_same_texts() {
    let options = EngineOptions::default().with_max_sequences(4).with_max_rows(16);
    let engine = tiny_engine(options.with_memory_budget(budget_for(5)));
    assert_eq!(engine.statistics().blocks_total, 5);
    let mut random = Random(2);
    let sampling = Sampling::default().with_temperature(0.7).with_seed(3);
    let requests: Vec<_> = (0..4)
        .map(|index| {
            let options = match index {
                0 => greedy(60),
                1 => greedy(60).with_sampling(sampling.clone().with_top_k(40)),
                _ => greedy(60).with_sampling(sampling.clone()),
            };
            (random.tokens(20 + index), options)
        })
        .collect();
    let mut streams: Vec<_> =
        requests.iter().map(|(prompt, options)| engine.submit(request(prompt, options)).unwrap()).collect();
    for ((prompt, options), stream) in requests.iter().zip(&mut streams) {
        assert_eq!(collect(stream).unwrap(), alone(tiny_model(), prompt, options), "{options:?}");
    }
    let statistics = engine.statistics();
    assert!(statistics.preemptions > 0, "{statistics:?}");
    assert_eq!(statistics.blocks_used, 0);
}

#[test]
fn a_full_context_ends_texts_as_in_a_session() {
    let engine = tiny_engine(EngineOptions::default().with_max_sequences(2));
    let mut random = Random(3);
    for length in [100, 127, 128] {
        let prompt = random.tokens(length);
        let outcome = collect(&mut engine.submit(request(&prompt, &greedy(1000))).unwrap()).unwrap();
        let expected = alone(tiny_model(), &prompt, &greedy(1000));
        assert_eq!(outcome.finish, Some(FinishReason::ContextFull));
        assert_eq!((outcome.tokens, outcome.text), (expected.tokens, expected.text), "{length} tokens");
    }
}

#[test]
fn equal_prefixes_are_computed_once() {
    let engine = tiny_engine(EngineOptions::default().with_max_sequences(4).with_max_rows(32));
    let prompt = Random(4).tokens(70);
    let used = |request: EngineRequest| {
        let mut stream = engine.submit(request).unwrap();
        let outcome = collect(&mut stream).unwrap();
        (stream.usage().cached_tokens, outcome)
    };
    let expected = alone(tiny_model(), &prompt, &greedy(8));
    assert_eq!(used(request(&prompt, &greedy(8))), (0, expected.clone()));
    // Two blocks of 32 positions.
    assert_eq!(used(request(&prompt, &greedy(8))), (64, expected.clone()));
    assert_eq!(used(request(&prompt, &greedy(8)).with_cache_salt(1)), (0, expected.clone()));
    // Two at once: the second waits for the first one's blocks.
    let other = [&prompt[10..], &[1]].concat();
    let streams = [0, 1].map(|_| engine.submit(request(&other, &greedy(4))).unwrap());
    let cached = streams.map(|mut stream| {
        collect(&mut stream).unwrap();
        stream.usage().cached_tokens
    });
    assert_eq!(cached, [0, 32]);
    assert_eq!(engine.statistics().cached_tokens, 96);
    assert!(engine.statistics().blocks_cached >= 4);
}

#[test]
fn speculation_leaves_texts_as_they_are() {
    let engine = tiny_engine(EngineOptions::default().with_max_sequences(4));
    let pattern: Vec<TokenId> = [3, 1, 4, 1, 5, 9, 2, 6].repeat(6);
    let drawn = Sampling::default().with_temperature(0.9).with_seed(5);
    for sampling in [Sampling::default(), drawn.clone(), drawn.with_top_k(30).with_repetition_penalty(1.1)] {
        let options = greedy(60).with_sampling(sampling);
        let expected = alone(tiny_model(), &pattern, &options);
        for draft in [DraftSource::None, DraftSource::PromptLookup] {
            let mut stream = engine.submit(request(&pattern, &options).with_draft(draft)).unwrap();
            assert_eq!(collect(&mut stream).unwrap(), expected, "{draft:?}, {options:?}");
        }
    }
    let statistics = engine.statistics();
    assert!(statistics.drafted > 0, "{statistics:?}");
    assert!(statistics.drafted >= statistics.accepted);
}

/// A model of random weights with the tokens of the tiny Llama.
fn another_tiny(vocabulary: u32) -> Program {
    let sizes = format!("layers=1,width=32,heads=2,kv=1,head=16,hidden=64,vocab={vocabulary}");
    let config = pteron_convert::synthetic::parse(&sizes).unwrap();
    let source = pteron_convert::Synthetic::new(config.clone(), 3);
    let floats = pteron_convert::template::WeightFormat::Float32;
    let options = ConvertOptions::new(128).with_embedding_format(floats).with_linear_format(floats);
    let template =
        pteron_convert::ProgramTemplate::new(&config, &options, &pteron_convert::Source::metadata(&source)).unwrap();
    let folder = pteron_files::TemporaryFolder::new("pteron-draft").unwrap();
    let path = folder.path().join("model.pte");
    let mut go_on = |_| std::ops::ControlFlow::Continue(());
    pteron_convert::convert(&source, template, pteron_convert::ScaleMethod::default(), &path, &mut go_on).unwrap();
    Program::from_bytes(std::fs::read(&path).unwrap(), Vec::new()).unwrap()
}

#[test]
fn draft_models_leave_texts_as_they_are() {
    let mut random = Random(8);
    let drawn = Sampling::default().with_temperature(0.9).with_seed(5);
    let samplings = [
        Sampling::default(),
        drawn.clone(),
        drawn.clone().with_top_k(30).with_repetition_penalty(1.1),
        drawn.with_seed(6),
        Sampling::default().with_logprobs(1),
    ];
    let prompts: Vec<_> = [3, 40, 70, 1, 12].into_iter().map(|length| random.tokens(length)).collect();
    let cases: Vec<_> =
        prompts.iter().zip(samplings).map(|(prompt, sampling)| (prompt, greedy(50).with_sampling(sampling))).collect();
    let mut accepted = Vec::new();
    for draft in [tiny(), another_tiny(256)] {
        let options = EngineOptions::default().with_max_sequences(6).with_draft_model(draft);
        let engine = tiny_engine(options);
        let streams: Vec<_> =
            cases.iter().map(|(prompt, options)| engine.submit(request(prompt, options)).unwrap()).collect();
        for ((prompt, options), mut stream) in cases.iter().zip(streams) {
            assert_eq!(collect(&mut stream).unwrap(), alone(tiny_model(), prompt, options), "{options:?}");
        }
        // One alone, whose drafts are the longest.
        let (prompt, options) = &cases[0];
        let before = engine.statistics();
        assert_eq!(
            collect(&mut engine.submit(request(prompt, options)).unwrap()).unwrap(),
            alone(tiny_model(), prompt, options)
        );
        let after = engine.statistics();
        assert!(after.drafted > before.drafted, "{after:?}");
        accepted.push((after.accepted - before.accepted, after.steps - before.steps));
        // A request may decline.
        let declined = request(prompt, options).with_draft(DraftSource::None);
        collect(&mut engine.submit(declined).unwrap()).unwrap();
        assert_eq!(engine.statistics().drafted, after.drafted);
    }
    // The model itself drafts as it writes: far fewer steps than the 50 tokens.
    assert!(accepted[0].0 >= 35 && accepted[0].1 <= 15, "{accepted:?}");
    assert!(accepted[1].0 < accepted[0].0, "{accepted:?}");
}

#[test]
fn a_draft_model_of_another_vocabulary_is_refused() {
    let options = EngineOptions::default().with_model(exact()).with_draft_model(another_tiny(200));
    let refused = block_on(Engine::load(&gpu(), &tiny(), ModelAssets::ids_only(), options)).unwrap_err();
    assert!(matches!(refused, Error::DraftVocabulary { draft: 200, model: 256 }), "{refused}");
    let engine = tiny_engine(EngineOptions::default());
    let asked = engine.submit(request(&[1], &greedy(1)).with_draft(DraftSource::Model)).unwrap_err().to_string();
    assert!(asked.contains("without a draft model"), "{asked}");
}

/// PyTorch's greedy continuations of the bundled model, whose best two logits are never close.
fn goldens() -> Vec<(Vec<TokenId>, Vec<TokenId>)> {
    let file = std::fs::read(root().join("models/demo/goldens.json")).unwrap();
    let goldens: Value = serde_json::from_slice(&file).unwrap();
    let ids = |value: &Value| serde_json::from_value(value.clone()).unwrap();
    goldens["prompts"].as_array().unwrap().iter().map(|row| (ids(&row["prompt_ids"]), ids(&row["ids"]))).collect()
}

#[test]
fn the_bundled_model_continues_all_prompts_at_once_as_pytorch_does() {
    let options = EngineOptions::default().with_model(exact()).with_max_rows(32);
    let engine = block_on(Engine::load(&gpu(), &demo_program(), demo_assets(), options)).unwrap();
    assert!(engine.tokenizer().is_some() && !engine.has_chat_template());
    let goldens = goldens();
    let requests = goldens.iter().zip([DraftSource::None, DraftSource::PromptLookup].iter().cycle());
    let streams = requests.map(|((prompt, expected), draft)| {
        let options = greedy(expected.len().min(40));
        engine.submit(request(prompt, &options).with_draft(*draft)).unwrap()
    });
    let streams: Vec<_> = streams.collect();
    for ((_, expected), mut stream) in goldens.iter().zip(streams) {
        let outcome = collect(&mut stream).unwrap();
        assert_eq!(outcome.tokens, expected[..expected.len().min(40)]);
        assert_eq!(outcome.text, engine.tokenizer().unwrap().decode(&outcome.tokens, ShowSpecial::No));
    }
    // Stop strings and tokens, on the GPU and on the host.
    let (prompt, ids) = &goldens[0];
    let whole = engine.tokenizer().unwrap().decode(ids, ShowSpecial::No);
    let stop = whole.split(' ').nth(4).unwrap();
    for place in [SampleOn::Gpu, SampleOn::Host] {
        let options = greedy(64).with_stop_string(stop).with_sample_on(place);
        let outcome = collect(&mut engine.submit(request(prompt, &options)).unwrap()).unwrap();
        assert_eq!(
            (outcome.text.as_str(), outcome.finish),
            (&whole[..whole.find(stop).unwrap()], Some(FinishReason::StopString(0)))
        );
        let logprobs = Sampling::default().with_logprobs(if place == SampleOn::Host { Some(2) } else { None });
        let options = greedy(64).with_stop_tokens([ids[5]]).with_sampling(logprobs);
        let mut stream = engine.submit(request(prompt, &options)).unwrap();
        let mut last = None;
        while let Some(token) = stream.next_blocking().unwrap() {
            assert_eq!(
                (token.logprob.is_some(), token.top_logprobs.len()),
                (place == SampleOn::Host, if token.logprob.is_some() { 2 } else { 0 })
            );
            last = Some(token);
        }
        assert_eq!(last.unwrap().finish, Some(FinishReason::StopToken(ids[5])));
        assert_eq!(stream.usage().generated_tokens, ids.iter().position(|id| *id == ids[5]).unwrap());
    }
}
