//! Requests that are refused, time out, are cancelled or fail, and who may submit them.

use super::*;

#[test]
fn requests_beyond_the_limits_are_refused() {
    let engine = tiny_engine(EngineOptions::default().with_max_sequences(1).with_max_queue(2));
    let refused = |request: EngineRequest| engine.submit(request).unwrap_err();
    assert!(matches!(refused(request(&[], &greedy(1))), EngineError::Submit(SubmitError::EmptyPrompt)));
    assert!(matches!(refused(request(&[1], &greedy(0))), EngineError::Submit(SubmitError::NoTokens)));
    let error = refused(request(&[1; 129], &greedy(1))).to_string();
    assert!(error.contains("129 tokens") && error.contains("128"), "{error}");
    let error = refused(request(&[256], &greedy(1))).to_string();
    assert!(error.contains("token 256 is not in the model's vocabulary of 256"), "{error}");
    let invalid = |sampling| greedy(1).with_sampling(sampling);
    let error = refused(request(&[1], &invalid(Sampling::default().with_temperature(-1.0)))).to_string();
    assert!(error.contains("temperature is -1"), "{error}");
    let error = refused(request(&[1], &invalid(Sampling::default().with_logit_bias([(256, 1.0)])))).to_string();
    assert!(error.contains("token 256"), "{error}");
    let endless = greedy(1).with_overflow(ContextOverflow::DropOldest { keep: 1 });
    assert!(matches!(refused(request(&[1], &endless)), EngineError::Options(_)));
    assert!(matches!(refused(request(&[1], &greedy(1).with_stop_string(""))), EngineError::Options(_)));
    // One runs, two wait.
    let mut streams = Vec::new();
    let full = loop {
        match engine.submit(request(&[1, 2, 3], &greedy(100))) {
            Ok(stream) => streams.push(stream),
            Err(error) => break error,
        }
    };
    assert!(matches!(full, EngineError::Submit(SubmitError::QueueFull { limit: 2, .. })), "{full}");
    assert!((2..=3).contains(&streams.len()), "{}", streams.len());
    // A place is free as soon as a stream is dropped.
    streams.pop();
    streams.push(engine.submit(request(&[4], &greedy(2))).unwrap());
    engine.drain();
    assert!(matches!(refused(request(&[1], &greedy(1))), EngineError::Draining));
    streams.iter_mut().for_each(|stream| assert!(collect(stream).is_ok()));
    assert!(engine.wait_idle(Duration::from_secs(60)));
}

#[test]
fn timeouts_end_requests_that_run_and_that_wait() {
    let engine = tiny_engine(EngineOptions::default().with_max_sequences(1));
    let mut running = engine.submit(request(&[1, 2], &greedy(100))).unwrap();
    running.next_blocking().unwrap().unwrap();
    let mut late = engine.submit(request(&[3], &greedy(1)).with_timeout(Duration::ZERO)).unwrap();
    assert!(matches!(late.next_blocking(), Err(EngineError::DeadlineExceeded)));
    assert!(late.next_blocking().unwrap().is_none());
    assert!(collect(&mut running).is_ok());
    // One whose constraint never answers, while nothing else runs.
    let slow = request(&[3], &greedy(1)).with_constraint(Box::new(Slow)).with_timeout(Duration::from_millis(50));
    let start = Instant::now();
    assert!(matches!(engine.submit(slow).unwrap().next_blocking(), Err(EngineError::DeadlineExceeded)));
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(engine.statistics().failed, 2);
}

/// A constraint that takes longer than its request may.
struct Slow;

impl TokenConstraint for Slow {
    fn mask(&mut self) -> Result<TokenMask, ConstraintError> {
        std::thread::sleep(Duration::from_secs(6));
        Ok(Arc::new([u32::MAX; 8]))
    }

    fn accept(&mut self, _: TokenId) -> Result<(), ConstraintError> {
        Ok(())
    }

    fn is_complete(&self) -> bool {
        false
    }
}

#[test]
fn dropped_streams_cancel_their_requests() {
    let engine = tiny_engine(EngineOptions::default().with_max_sequences(2));
    let mut streams: Vec<_> = (0..6).map(|token| engine.submit(request(&[token], &greedy(120))).unwrap()).collect();
    streams[0].next_blocking().unwrap().unwrap();
    drop(streams);
    assert!(engine.wait_idle(Duration::from_secs(60)));
    let statistics = engine.statistics();
    assert_eq!((statistics.cancelled, statistics.finished, statistics.blocks_used), (6, 0, 0));
    // The engine goes on, also when only a stream is left of it.
    let mut last = engine.submit(request(&[9], &greedy(20))).unwrap();
    drop(engine);
    assert_eq!(collect(&mut last).unwrap(), alone(tiny_model(), &[9], &greedy(20)));
}

/// Allows the even tokens, and ends the text after some.
struct Even {
    left: usize,
    failure: Failure,
}

/// How a constraint fails when it is asked for its third mask.
#[derive(Clone, Copy)]
enum Failure {
    None,
    Error,
    Panic,
    WrongSize,
    ForbidsAll,
}

impl TokenConstraint for Even {
    fn mask(&mut self) -> Result<TokenMask, ConstraintError> {
        match self.failure {
            _ if self.left > 2 => {}
            Failure::None => {}
            Failure::Error => return Err(ConstraintError::new("a test")),
            Failure::Panic => panic!("a test of panics"),
            Failure::WrongSize => return Ok(Arc::new([1])),
            Failure::ForbidsAll => return Ok(Arc::new([0; 8])),
        }
        Ok(Arc::new([0x5555_5555; 8]))
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        assert_eq!(token % 2, 0);
        self.left -= 1;
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.left == 0
    }
}

#[test]
fn constraints_end_their_own_requests_alone() {
    let engine = tiny_engine(EngineOptions::default().with_max_sequences(8));
    let even = |failure| request(&[5, 6, 7], &greedy(50)).with_constraint(Box::new(Even { left: 4, failure }));
    let other = engine.submit(request(&[1, 2, 3], &greedy(40)));
    let failures = [Failure::Error, Failure::Panic, Failure::WrongSize, Failure::ForbidsAll];
    let failing: Vec<_> = failures.into_iter().map(|failure| engine.submit(even(failure)).unwrap()).collect();
    let outcome = collect(&mut engine.submit(even(Failure::None)).unwrap()).unwrap();
    // A session with a bias against the odd tokens, until the constraint is complete.
    let odd = (0..128).map(|token| (2 * token + 1, f32::NEG_INFINITY));
    let expected = alone(tiny_model(), &[5, 6, 7], &greedy(4).with_sampling(Sampling::default().with_logit_bias(odd)));
    assert_eq!((outcome.tokens.as_slice(), outcome.finish), (&expected.tokens[..], Some(FinishReason::ConstraintComplete)));
    for (index, mut stream) in failing.into_iter().enumerate() {
        // Two tokens come before the failure.
        for token in &expected.tokens[..2] {
            assert_eq!(stream.next_blocking().unwrap().unwrap().token, *token);
        }
        let error = stream.next_blocking().unwrap_err();
        let as_expected = match index {
            3 => matches!(error, EngineError::Sampling(_)),
            _ => matches!(error, EngineError::Constraint(_)),
        };
        assert!(as_expected, "{index}: {error}");
        assert!(stream.next_blocking().unwrap().is_none());
    }
    assert_eq!(collect(&mut other.unwrap()).unwrap(), alone(tiny_model(), &[1, 2, 3], &greedy(40)));
    assert_eq!(engine.statistics().failed, 4);
}

#[test]
fn threads_and_tasks_submit_at_once() {
    fn is_shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    fn is_send<T: Send>(_: &T) {}
    let engine = tiny_engine(EngineOptions::default().with_max_sequences(8));
    is_shared(&engine);
    let prompts: Vec<Vec<TokenId>> = (0..6).map(|index| vec![index, 10 * index, 7]).collect();
    let expected: Vec<_> = prompts.iter().map(|prompt| alone(tiny_model(), prompt, &greedy(12))).collect();
    std::thread::scope(|scope| {
        for (prompt, expected) in prompts.iter().zip(&expected) {
            let engine = engine.clone();
            scope.spawn(move || {
                for _ in 0..3 {
                    assert_eq!(&collect(&mut engine.submit(request(prompt, &greedy(12))).unwrap()).unwrap(), expected);
                }
            });
        }
        // One thread for all tasks: if a stream blocked it, they could not run at once.
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let tasks = tokio::task::LocalSet::new();
        for (prompt, expected) in prompts.iter().cloned().zip(expected.iter().cloned()) {
            let mut stream = engine.submit(request(&prompt, &greedy(12))).unwrap();
            is_send(&stream);
            tasks.spawn_local(async move {
                let mut tokens = Vec::new();
                while let Some(token) = stream.next().await.unwrap() {
                    tokens.push(token.token);
                }
                assert_eq!(tokens, expected.tokens);
            });
        }
        runtime.block_on(tasks);
    });
    let statistics = engine.statistics();
    assert_eq!((statistics.finished, statistics.generated_tokens), (24, 24 * 12));
    assert_eq!((statistics.time_to_first_token.count(), statistics.queue_time.count()), (24, 24));
    assert_eq!(statistics.inter_token.count(), 24 * 11);
}

#[test]
fn a_lost_device_ends_all_requests() {
    let gpu = new_gpu();
    let options = EngineOptions::default().with_max_sequences(2).with_model(exact());
    let engine = block_on(Engine::load(&gpu, &tiny(), ModelAssets::ids_only(), options)).unwrap();
    let mut streams: Vec<_> = (0..4).map(|token| engine.submit(request(&[token], &greedy(120))).unwrap()).collect();
    streams[0].next_blocking().unwrap().unwrap();
    gpu.destroy();
    let is_lost =
        |error: &EngineError| matches!(error, EngineError::Model(error) if matches!(**error, Error::DeviceLost(_)));
    for stream in &mut streams {
        let error = collect(stream).unwrap_err();
        assert!(is_lost(&error), "{error}");
    }
    assert!(engine.wait_idle(Duration::from_secs(60)));
    let error = engine.submit(request(&[1], &greedy(1))).unwrap_err();
    assert!(is_lost(&error), "{error}");
}
