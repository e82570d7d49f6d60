//! Order, limits, ends, preemption and speculation.

use std::sync::Arc;
use std::time::Duration;

use super::harness::Harness;
use super::model::VOCABULARY;
use crate::batch::{ApiKeyId, DraftSource, EndReason, Request, RowToken, SchedulerConfig, StepError, SubmitError};
use crate::sampling::Sampling;
use crate::tokenizer::TokenId;

fn config() -> SchedulerConfig {
    SchedulerConfig { max_sequences: 8, max_rows: 64, max_chunk: 64, ..SchedulerConfig::new(40, 256, VOCABULARY) }
}

/// A request whose tokens no other shares.
fn request(first: TokenId, tokens: usize, max_tokens: usize) -> Request {
    let mut prompt = vec![first; tokens];
    prompt.iter_mut().enumerate().skip(1).for_each(|(index, token)| *token = u32::try_from(index % 39).unwrap());
    let sampling = Arc::new(Sampling::default().with_seed(1));
    Request { max_tokens: Some(max_tokens), sampling, ..Request::new(prompt) }
}

#[test]
fn decode_rows_come_first_and_prefill_gets_the_rest() {
    let mut harness = Harness::new(config());
    let first = harness.submit(request(1, 20, 50)).unwrap();
    harness.plan();
    let second = harness.submit(request(2, 150, 50)).unwrap();
    harness.plan();
    let planned = harness.steps[1].0.clone();
    assert_eq!(planned.requests, [first, second]);
    assert!(matches!(planned.step.tokens[0], RowToken::Feedback(_)), "the token of the first step is not known yet");
    // 63 rows are left, and chunks end with a block while the prompt goes on.
    assert_eq!(planned.step.sequences[1].row_count, 32);
    assert_eq!(planned.step.samples.len(), 1);
    harness.drain();
}

#[test]
fn decode_rows_take_turns_where_the_limit_admits_few() {
    let mut harness = Harness::new(SchedulerConfig { max_rows: 2, max_chunk: 2, ..config() });
    for first in 0..6 {
        harness.submit(request(first, 2, 30)).unwrap();
    }
    harness.drain();
    assert!(harness.longest_wait <= 6 * 31 / 2 + 6, "{}", harness.longest_wait);
}

#[test]
fn a_key_with_one_request_does_not_wait_for_a_key_with_many() {
    let mut harness = Harness::new(config());
    for first in 0..6 {
        harness.submit(Request { key: ApiKeyId(1), ..request(first, 120, 8) }).unwrap();
    }
    harness.plan();
    harness.finish();
    let other = harness.submit(Request { key: ApiKeyId(2), ..request(9, 32, 8) }).unwrap();
    harness.plan();
    assert!(harness.steps[0].0.requests.contains(&other));
    harness.drain();
}

#[test]
fn old_requests_go_first_whatever_their_share() {
    let mut harness = Harness::new(SchedulerConfig { max_sequences: 2, aging: Duration::from_millis(30), ..config() });
    harness.submit(Request { key: ApiKeyId(1), ..request(0, 200, 50) }).unwrap();
    let old = harness.submit(Request { key: ApiKeyId(1), ..request(1, 200, 5) }).unwrap();
    // The other key always has a request waiting, and was given fewer rows.
    let mut steps = 0;
    while harness.texts.contains_key(&old) {
        if harness.scheduler.statistics().queued < 2 {
            harness.submit(Request { key: ApiKeyId(2), ..request(2, 20, 2) }).unwrap();
        }
        harness.plan();
        harness.finish();
        steps += 1;
    }
    assert!(steps < 120, "{steps}");
    harness.drain();
}

#[test]
fn a_large_request_is_not_starved_by_small_ones() {
    let mut harness =
        Harness::new(SchedulerConfig { aging: Duration::from_millis(50), ..SchedulerConfig { blocks: 8, ..config() } });
    let mut large = None;
    let mut steps = 0;
    while steps < 40 || large.is_some_and(|id| harness.texts.contains_key(&id)) {
        if harness.scheduler.statistics().queued < 4 {
            harness.submit(request(steps % VOCABULARY, 20, 20)).unwrap();
        }
        if steps == 20 {
            large = Some(harness.submit(request(3, 200, 40)).unwrap());
        }
        harness.plan();
        harness.finish();
        harness.check();
        steps += 1;
    }
    assert!(steps < 250, "{steps}");
    harness.drain();
}

#[test]
fn requests_that_cannot_run_are_refused_with_numbers() {
    let mut harness = Harness::new(SchedulerConfig { max_queued: 2, ..SchedulerConfig { blocks: 3, ..config() } });
    let refused = |harness: &mut Harness, request: Request| harness.submit(request).unwrap_err();
    assert_eq!(refused(&mut harness, request(0, 90, 10)), SubmitError::NeverFits { needed: 4, total: 3 });
    assert_eq!(refused(&mut harness, request(0, 256, 1)), SubmitError::PromptTooLong { tokens: 256, context: 256 });
    assert_eq!(refused(&mut harness, Request::new(vec![])), SubmitError::EmptyPrompt);
    assert_eq!(refused(&mut harness, request(0, 5, 0)), SubmitError::NoTokens);
    let error = refused(&mut harness, Request { max_tokens: Some(1), ..Request::new(vec![1, 40]) });
    assert_eq!(error, SubmitError::TokenOutOfRange { token: 40, vocabulary: 40 });
    let sampling = Arc::new(Sampling::default().with_top_p(2.0));
    assert!(matches!(refused(&mut harness, Request { sampling, ..request(0, 5, 5) }), SubmitError::Sampling(_)));
    harness.submit(request(0, 86, 10)).unwrap();
    harness.submit(request(1, 5, 10)).unwrap();
    assert_eq!(refused(&mut harness, request(0, 5, 5)), SubmitError::QueueFull { queued: 2, limit: 2 });
    harness.drain();
}

#[test]
fn requests_end_at_their_deadline_queued_or_running() {
    let mut harness = Harness::new(SchedulerConfig { max_sequences: 1, ..config() });
    let deadline = Some(Duration::from_millis(10));
    harness.submit(Request { deadline, ..request(0, 10, 200) }).unwrap();
    harness.submit(Request { deadline, ..request(1, 10, 200) }).unwrap();
    harness.drain();
    assert!(harness.ended.iter().all(|(_, reason, _)| *reason == EndReason::DeadlineExceeded));
    assert_eq!(harness.ended.len(), 2);
    assert!(harness.ended[0].2.tokens.len() > 10, "the first ran");
}

#[test]
fn cancelled_requests_free_their_blocks_while_rows_are_in_flight() {
    let mut harness = Harness::new(config());
    let first = harness.submit(request(0, 100, 50)).unwrap();
    let second = harness.submit(request(1, 100, 50)).unwrap();
    harness.plan();
    harness.plan();
    harness.scheduler.cancel(first);
    harness.scheduler.cancel(second);
    harness.take_events();
    harness.check();
    assert_eq!(harness.scheduler.statistics().blocks.used, 0);
    // New requests may use the blocks at once: their rows run after those in flight.
    harness.submit(request(2, 100, 20)).unwrap();
    harness.drain();
}

#[test]
fn rows_after_a_stop_token_are_dropped() {
    let mut harness = Harness::new(config());
    for first in 0..8 {
        harness.submit(Request { stop_tokens: (0..10).collect(), ..request(first, 40, 100) }).unwrap();
    }
    harness.drain();
    assert!(harness.ended.iter().all(|(_, reason, _)| matches!(reason, EndReason::StopToken(_))));
}

#[test]
fn preempted_requests_continue_with_the_same_text() {
    let mut harness = Harness::new(SchedulerConfig { blocks: 8, ..config() });
    for first in 0..6 {
        harness.submit(request(first, 20, 150)).unwrap();
    }
    harness.drain();
    assert!(harness.scheduler.statistics().preemptions > 2);
    assert!(harness.ended.iter().all(|(_, reason, text)| *reason == EndReason::MaxTokens && text.tokens.len() == 170));
    // Nobody overtakes an older request of the same size.
    assert!(harness.ended.is_sorted_by_key(|(id, ..)| *id));
}

#[test]
fn speculation_takes_fewer_steps_for_the_same_text() {
    let run = |draft: DraftSource, seed: u64| {
        let mut harness = Harness::new(config());
        let sampling = Arc::new(Sampling::default().with_seed(seed));
        harness.submit(Request { draft, sampling, ..request(0, 50, 150) }).unwrap();
        harness.drain();
        let statistics = harness.scheduler.statistics();
        (harness.ended.remove(0).2.tokens, statistics.steps, statistics.drafted)
    };
    let ((plain, plain_steps, none), (text, steps, drafted)) =
        (run(DraftSource::None, 2), run(DraftSource::PromptLookup, 2));
    assert_eq!(plain, text);
    assert!(none == 0 && drafted > 0 && steps * 2 < plain_steps, "{steps} steps instead of {plain_steps}");
    // Free text: no drafts, no waiting.
    let ((plain, plain_steps, _), (text, steps, drafted)) = (run(DraftSource::None, 1), run(DraftSource::PromptLookup, 1));
    assert_eq!((plain, plain_steps), (text, steps));
    assert!(drafted <= 4, "{drafted}");
}

#[test]
fn results_of_another_step_are_refused_and_change_nothing() {
    let mut harness = Harness::new(config());
    harness.submit(request(0, 40, 5)).unwrap();
    assert_eq!(harness.scheduler.finish_step(0, &[1]), Err(StepError::OutOfOrder { expected: None, got: 0 }));
    harness.plan();
    harness.plan();
    assert_eq!(harness.scheduler.finish_step(1, &[1]), Err(StepError::OutOfOrder { expected: Some(0), got: 1 }));
    assert_eq!(harness.scheduler.finish_step(0, &[]), Err(StepError::SampleCount { expected: 1, got: 0 }));
    assert!(!harness.plan(), "two steps are in flight");
    harness.drain();
}

#[test]
fn abandoned_steps_are_run_again() {
    let mut harness = Harness::new(config());
    for first in 0..3 {
        harness.submit(request(first, 70, 30)).unwrap();
    }
    for _ in 0..12 {
        harness.plan();
        harness.plan();
        harness.finish();
        harness.scheduler.abandon_steps();
        harness.steps.clear();
        harness.check();
    }
    harness.drain();
    assert!(harness.ended.iter().all(|(_, reason, _)| *reason == EndReason::MaxTokens));
}
