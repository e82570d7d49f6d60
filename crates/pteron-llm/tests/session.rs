//! Sessions on real programs: the bundled model against PyTorch's greedy texts, and a tiny Llama for long runs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::path::PathBuf;

use pteron::{Gpu, GpuOptions, LoadOptions, Program, block_on};
use pteron_llm::{
    ChatRequest, ContextOverflow, Error, FinishReason, GenerationOptions, Message, Model, ModelOptions, ParseSpecial,
    PartialMetadata, SampleOn, Sampling, Session, ShowSpecial, StepPipeline, TokenId, Tokenizer, benchmark_decode,
    with_token_sampling,
};
use serde_json::{Value, json};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn gpu() -> Gpu {
    let options = GpuOptions::default().with_adapter(std::env::var("PTERON_ADAPTER").ok());
    block_on(Gpu::open(&options)).expect("tests need an adapter; the test command installs one in software")
}

fn demo() -> Model {
    let tokenizer = Tokenizer::open(root().join("models/demo/tokenizer.json")).unwrap();
    let program = Program::open(root().join("models/demo/model.pte")).unwrap();
    block_on(Model::load(&gpu(), &program, tokenizer, &ModelOptions::default())).unwrap()
}

/// A tokenizer of the 256 bytes, for a model that knows nothing but ids.
fn bytes() -> Tokenizer {
    // Bytes that do not print stand as characters from 256 on, as byte-level tokenizers have them.
    let printable = |byte: u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let mut others = 256..;
    let mut vocabulary = serde_json::Map::new();
    for byte in 0..256u32 {
        let code = if printable(byte) { byte } else { others.next().unwrap() };
        vocabulary.insert(char::from_u32(code).unwrap().to_string(), byte.into());
    }
    let level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": level, "post_processor": null, "decoder": level,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": []},
    });
    Tokenizer::from_bytes(file.to_string().as_bytes()).unwrap()
}

fn tiny(metadata: PartialMetadata) -> Model {
    let program = Program::open(root().join("fixtures/llama/tiny_4w/program.pte")).unwrap();
    let options = ModelOptions::default().with_metadata(metadata);
    block_on(Model::load(&gpu(), &program, bytes(), &options)).unwrap()
}

fn greedy(max_tokens: usize, sample_on: SampleOn) -> GenerationOptions {
    GenerationOptions::default().with_max_tokens(max_tokens).with_ignore_eos(true).with_sample_on(sample_on)
}

/// The tokens of a text, and the text in pieces put together.
fn generate(session: &mut Session, prompt: &[TokenId], options: GenerationOptions) -> (Vec<TokenId>, String) {
    let mut generation = session.generate(prompt, options).unwrap();
    let mut text = String::new();
    while let Some(piece) = block_on(generation.next()).unwrap() {
        text += &piece.text;
    }
    (generation.generated().to_vec(), text)
}

fn goldens() -> Vec<(String, Vec<TokenId>, Vec<TokenId>)> {
    let file = std::fs::read(root().join("models/demo/goldens.json")).unwrap();
    let goldens: Value = serde_json::from_slice(&file).unwrap();
    let ids = |value: &Value| serde_json::from_value(value.clone()).unwrap();
    let prompts = goldens["prompts"].as_array().unwrap();
    prompts
        .iter()
        .map(|row| (row["prompt"].as_str().unwrap().to_owned(), ids(&row["prompt_ids"]), ids(&row["ids"])))
        .collect()
}

fn check_goldens(sample_on: SampleOn) {
    let model = demo();
    let goldens = goldens();
    assert_eq!(goldens.len(), 10);
    let mut session = Session::new(&model).unwrap();
    for (prompt, prompt_ids, expected) in goldens {
        let own = model.tokenizer().encode(&prompt, ParseSpecial::No).unwrap();
        assert_eq!(own, prompt_ids[1..], "{prompt:?} as tokens");
        let (tokens, text) = generate(&mut session, &prompt_ids, greedy(expected.len(), sample_on));
        assert_eq!(tokens, expected, "{prompt:?} with tokens chosen on the {sample_on:?}");
        assert_eq!(text, model.tokenizer().decode(&tokens, ShowSpecial::No));
    }
}

#[test]
fn greedy_texts_are_those_of_pytorch_with_tokens_chosen_on_the_gpu() {
    check_goldens(SampleOn::Gpu);
}

#[test]
fn greedy_texts_are_those_of_pytorch_with_tokens_chosen_on_the_host() {
    check_goldens(SampleOn::Host);
}

#[test]
fn a_prompt_in_any_two_pieces_is_followed_by_the_same_token() {
    let model = demo();
    let (_, mut prompt, ids) = goldens().swap_remove(0);
    prompt.extend(&ids[..18]);
    let argmax = |logits: Vec<f32>| (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
    let mut session = Session::new(&model).unwrap();
    let expected = argmax(block_on(session.logits(&prompt)).unwrap());
    for split in 1..prompt.len() {
        session.rewind(0).unwrap();
        block_on(session.logits(&prompt[..split])).unwrap();
        assert_eq!(session.tokens(), &prompt[..split]);
        assert_eq!(argmax(block_on(session.logits(&prompt)).unwrap()), expected, "in pieces of {split} and the rest");
    }
}

#[test]
fn forks_and_rewinds_go_on_as_a_fresh_session_would() {
    let model = tiny(PartialMetadata::default());
    let prompt: Vec<TokenId> = (10..30).collect();
    let expected = generate(&mut Session::new(&model).unwrap(), &prompt, greedy(40, SampleOn::Gpu)).0;
    let mut session = Session::new(&model).unwrap();
    let long: Vec<TokenId> = (10..70).collect();
    generate(&mut session, &long, greedy(20, SampleOn::Gpu));
    let mut fork = session.fork().unwrap();
    session.rewind(20).unwrap();
    assert_eq!(session.tokens(), prompt);
    assert_eq!(generate(&mut session, &prompt, greedy(40, SampleOn::Gpu)).0, expected, "rewound");
    // Only the common prefix stays in the cache.
    assert_eq!(generate(&mut fork, &prompt, greedy(40, SampleOn::Host)).0, expected, "forked");
    let error = session.rewind(1000).unwrap_err().to_string();
    assert!(error.contains("cannot go back to token 1000"), "{error}");
}

#[test]
fn a_continued_conversation_runs_only_new_tokens() {
    let model = tiny(PartialMetadata::default());
    let mut session = Session::new(&model).unwrap();
    let prompt: Vec<TokenId> = (1..20).collect();
    let (reply, _) = generate(&mut session, &prompt, greedy(10, SampleOn::Gpu));
    let next = [&prompt[..], &reply, &[7, 8, 9]].concat();
    // All but the last token of the reply are in the cache: no step has run on that one.
    let kept = session.tokens().iter().zip(&next).take_while(|(own, new)| own == new).count();
    assert!(kept >= prompt.len() + reply.len() - 1, "{kept}");
    let expected = generate(&mut Session::new(&model).unwrap(), &next, greedy(10, SampleOn::Host)).0;
    assert_eq!(generate(&mut session, &next, greedy(10, SampleOn::Gpu)).0, expected);
}

#[test]
fn two_texts_at_once_do_not_mix() {
    let model = tiny(PartialMetadata::default());
    let prompts = [vec![5, 6, 7], vec![200, 100, 50, 25]];
    let alone =
        prompts.each_ref().map(|prompt| generate(&mut Session::new(&model).unwrap(), prompt, greedy(30, SampleOn::Gpu)).0);
    let mut sessions = [Session::new(&model).unwrap(), Session::new(&model).unwrap()];
    let [first, second] = &mut sessions;
    let mut texts = [
        first.generate(&prompts[0], greedy(30, SampleOn::Gpu)).unwrap(),
        second.generate(&prompts[1], greedy(30, SampleOn::Gpu)).unwrap(),
    ];
    while texts.iter().any(|text| text.finish().is_none()) {
        for text in &mut texts {
            block_on(text.next()).unwrap();
        }
    }
    assert_eq!(texts.map(|text| text.generated().to_vec()), alone);
}

#[test]
fn a_full_context_stops_or_drops_the_oldest() {
    let model = tiny(PartialMetadata::default().with_context_length(32));
    let prompt: Vec<TokenId> = (1..20).collect();
    for sample_on in [SampleOn::Gpu, SampleOn::Host] {
        let mut session = Session::new(&model).unwrap();
        let options = greedy(0, sample_on).with_max_tokens(None);
        let mut text = session.generate(&prompt, options.clone()).unwrap();
        while block_on(text.next()).unwrap().is_some() {}
        // Thirteen more fit after nineteen, and one is known that does not.
        assert_eq!((text.finish(), text.generated().len()), (Some(FinishReason::ContextFull), 14), "{sample_on:?}");
        let endless = options.with_overflow(ContextOverflow::DropOldest { keep: 2 }).with_max_tokens(100);
        let mut text = session.generate(&prompt, endless).unwrap();
        while block_on(text.next()).unwrap().is_some() {}
        assert_eq!((text.finish(), text.generated().len()), (Some(FinishReason::MaxTokens), 100), "{sample_on:?}");
        drop(text);
        assert!(session.tokens().len() <= 32 && session.tokens()[..2] == prompt[..2], "{:?}", session.tokens());
    }
}

#[test]
fn stop_strings_tokens_and_limits_end_texts() {
    let model = demo();
    let mut session = Session::new(&model).unwrap();
    let (_, prompt, ids) = goldens().swap_remove(0);
    let whole = model.tokenizer().decode(&ids, ShowSpecial::No);
    let stop = whole.split(' ').nth(4).unwrap().to_owned();
    let options = greedy(64, SampleOn::Gpu).with_stop_string(&stop);
    let (_, text) = generate(&mut session, &prompt, options);
    assert_eq!(text, whole[..whole.find(&stop).unwrap()]);
    let options = greedy(64, SampleOn::Host).with_stop_tokens([ids[5]]);
    let first = ids.iter().position(|id| *id == ids[5]).unwrap();
    assert_eq!(generate(&mut session, &prompt, options).0, ids[..first]);
    assert_eq!(generate(&mut session, &prompt, greedy(0, SampleOn::Gpu)).0, [0u32; 0]);
}

#[test]
fn a_seed_gives_the_same_text_again_on_either_side() {
    let model = tiny(PartialMetadata::default());
    for sample_on in [SampleOn::Gpu, SampleOn::Host] {
        let text = |seed| {
            let sampling = Sampling::default().with_temperature(1.0).with_seed(seed);
            let options = greedy(40, sample_on).with_sampling(sampling);
            generate(&mut Session::new(&model).unwrap(), &[1, 2, 3], options).0
        };
        assert_eq!(text(4), text(4), "{sample_on:?}");
        assert_ne!(text(4), text(5), "{sample_on:?}");
    }
    let sampling = Sampling::default().with_logprobs(3);
    let mut session = Session::new(&model).unwrap();
    let mut text = session.generate(&[1, 2, 3], greedy(2, SampleOn::Gpu).with_sampling(sampling)).unwrap();
    let piece = block_on(text.next()).unwrap().unwrap();
    assert!(piece.logprob.is_some_and(|logprob| logprob <= 0.0) && piece.top_logprobs.len() == 3, "{piece:?}");
}

#[test]
fn bad_prompts_and_unfit_programs_are_rejected() {
    let model = tiny(PartialMetadata::default());
    let mut session = Session::new(&model).unwrap();
    let mut error = |prompt: &[TokenId]| session.generate(prompt, GenerationOptions::default()).unwrap_err();
    assert!(matches!(error(&[]), Error::EmptyPrompt));
    assert!(error(&[1; 200]).to_string().contains("the prompt has 200 tokens, but the context has room for 128"));
    assert!(error(&[256]).to_string().contains("token 256 is not in the model's vocabulary of 256"));
    let program = Program::open(root().join("fixtures/llama/tiny_4w/program.pte")).unwrap();
    let tokenizer = Tokenizer::open(root().join("models/demo/tokenizer.json")).unwrap();
    let error = block_on(Model::load(&gpu(), &program, tokenizer, &ModelOptions::default())).unwrap_err().to_string();
    assert!(error.contains("the tokenizer has 6144 tokens, but the program has logits for 256"), "{error}");
    let program = Program::open(root().join("fixtures/ops/linear_bias/program.pte")).unwrap();
    let error = block_on(Model::load(&gpu(), &program, bytes(), &ModelOptions::default())).unwrap_err().to_string();
    assert!(error.contains("must take tokens [1, S] and a position [1]"), "{error}");
}

#[test]
fn ten_thousand_steps_with_rewinds_leave_memory_as_it_was() {
    let model = tiny(PartialMetadata::default());
    let mut session = Session::new(&model).unwrap();
    let mut turns = |count: usize| {
        for turn in 0..count {
            let seed = u32::try_from(turn % 50).unwrap();
            session.rewind(session.tokens().len().min(20)).unwrap();
            let prompt = [session.tokens(), &[seed, seed + 1]].concat();
            assert_eq!(generate(&mut session, &prompt, greedy(100, SampleOn::Gpu)).0.len(), 100);
        }
    };
    turns(2);
    let before = pteron_counts(&model);
    let host = allocation_counter::measure(|| turns(98));
    assert_eq!(pteron_counts(&model), before, "buffers, bind groups and pipelines made");
    assert!(host.bytes_current.abs() < 64 * 1024, "{} bytes more on the host", host.bytes_current);
}

/// Counts of all resources created on the model's device.
fn pteron_counts(model: &Model) -> (u64, u64, u64, u64) {
    let counts = model.method().gpu().expect("it computes").counts();
    (counts.buffers, counts.buffer_bytes, counts.bind_groups, counts.pipelines)
}

/// Long conversations lose their oldest turns, a system's message and the newest one stay.
#[test]
fn a_conversation_is_shortened_to_the_context() {
    let model = tiny(PartialMetadata::default().with_kv_cache(true));
    let context = model.metadata().context_length as usize;
    let turn = |index: usize| [Message::user(format!("question {index}?")), Message::assistant(format!("answer {index}."))];
    let prompt = |messages: &[Message], partial: &str, reserve: usize| {
        let request = ChatRequest::new().messages(messages.to_vec()).with_reply_prefix(partial).with_max_tokens(reserve);
        let prompt = model.chat_prompt(&request).unwrap();
        // Texts begin with token 1, which this tokenizer takes for a character.
        (model.tokenizer().decode(&prompt.tokens[1..], ShowSpecial::No), prompt.dropped_messages)
    };
    let few: Vec<Message> = turn(0).into_iter().chain([Message::user("last?")]).collect();
    assert_eq!(prompt(&few, "", 0), ("question 0?\n\nanswer 0.\n\nlast?".to_owned(), 0));
    assert_eq!(prompt(&few, " so far", 0).0, "question 0?\n\nanswer 0.\n\nlast? so far");
    let many: Vec<Message> =
        [Message::system("be brief")].into_iter().chain((0..40).flat_map(turn)).chain([Message::user("last?")]).collect();
    for reserve in [0, 16, 1000] {
        let (text, dropped) = prompt(&many, "", reserve);
        let room = context - reserve.min(64);
        assert!(text.starts_with("be brief\n\nquestion") && text.ends_with("last?"), "{text}");
        assert!(text.len() < room && dropped % 2 == 0 && dropped > 0, "{} of {room}, {dropped} dropped", text.len());
        // One turn more would not have fitted.
        let more = [&many[..1], &many[dropped - 1..]].concat();
        let whole: Vec<&str> = more.iter().map(|message| message.content.as_str()).collect();
        assert!(whole.join("\n\n").len() >= room, "{reserve}");
    }
    let long = [Message::user("x".repeat(2 * context))];
    assert_eq!(prompt(&long, "", 0).1, 0, "the only message stays, and is refused when it is run");
    assert_eq!(prompt(&[turn(0).to_vec(), long.to_vec()].concat(), "", 0).1, 2);
}

/// Measuring a step changes nothing, in the middle of a text and where the cache is full.
#[test]
fn a_profile_leaves_the_conversation_as_it_is() {
    let model = tiny(PartialMetadata::default().with_kv_cache(true));
    let context = model.metadata().context_length as usize;
    let (mut session, mut other) = (Session::new(&model).unwrap(), Session::new(&model).unwrap());
    let prompt: Vec<TokenId> = (0..20).collect();
    let expected = generate(&mut other, &prompt, greedy(8, SampleOn::Gpu));
    generate(&mut session, &prompt, greedy(1, SampleOn::Gpu));
    let profiles = block_on(session.profile()).unwrap();
    assert!(profiles.iter().any(|profile| !profile.dispatches.is_empty()));
    assert_eq!(session.tokens().len(), 20);
    assert_eq!(generate(&mut session, &prompt, greedy(8, SampleOn::Gpu)), expected);
    let full: Vec<TokenId> = (0..context).map(|at| TokenId::try_from(at % 200).unwrap()).collect();
    let logits = block_on(session.logits(&full)).unwrap();
    block_on(session.profile()).unwrap();
    assert_eq!(session.tokens(), full);
    let again = block_on(session.logits(&full)).unwrap();
    assert!(logits.iter().zip(&again).all(|(a, b)| (a - b).abs() < 1e-3), "the last position is as it was");
}

#[test]
fn decode_is_benchmarked_before_weights_arrive() {
    let program = Program::open(root().join("models/demo/model.pte")).unwrap();
    let options = with_token_sampling(LoadOptions::default()).unwrap();
    let streaming = block_on(program.load_streaming(&gpu(), "forward", &options)).unwrap();
    let mut told = Vec::new();
    let go_on = |steps| {
        told.push(steps);
        steps < 7
    };
    let ran = block_on(benchmark_decode(&streaming, 4, go_on)).unwrap();
    // Steps that are in flight when it stops run to their end.
    let in_flight = u32::try_from(StepPipeline::DEPTH).unwrap() - 1;
    assert_eq!(told, (1..=7).collect::<Vec<_>>());
    assert!((8..=7 + in_flight).contains(&ran), "{ran}");
}
