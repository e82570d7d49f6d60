//! Random arrivals, cancels, forks, rewinds, evictions and preemptions.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::harness::Harness;
use super::model::{VOCABULARY, mix};
use crate::batch::{
    AdapterId, ApiKeyId, DraftSource, PrefixScope, Request, RequestId, SchedulerConfig, Statistics, SubmitError,
};
use crate::sampling::Sampling;
use crate::tokenizer::TokenId;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        usize::try_from(mix(self.0, 99) % bound as u64).unwrap()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn tokens(&mut self, count: usize) -> Vec<TokenId> {
        (0..count).map(|_| TokenId::try_from(self.below(VOCABULARY as usize)).unwrap()).collect()
    }

    /// Prompts that often share their start.
    fn prompt(&mut self) -> Vec<TokenId> {
        let family = self.below(3) as u64;
        let shared = self.below(100);
        let mut tokens: Vec<TokenId> =
            (0..shared as u64).map(|index| TokenId::try_from(mix(family, index) % u64::from(VOCABULARY)).unwrap()).collect();
        let own = 1 + self.below(30);
        tokens.extend(self.tokens(own));
        tokens
    }

    fn request(&mut self, now: Duration) -> Request {
        let mut sampling = Sampling::default().with_seed(self.below(6) as u64);
        if self.chance(10) {
            sampling = sampling.with_repetition_penalty(1.5);
        }
        let scope = PrefixScope { adapter: self.chance(15).then_some(AdapterId(1)), salt: u64::from(self.chance(10)) };
        let most = if self.chance(30) { 130 } else { 30 };
        Request {
            sampling: Arc::new(sampling),
            max_tokens: (!self.chance(3)).then(|| 1 + self.below(most)),
            stop_tokens: if self.chance(50) { vec![5] } else { Vec::new() },
            key: ApiKeyId(self.below(3) as u64),
            deadline: self.chance(5).then(|| now + Duration::from_millis(self.below(100) as u64)),
            scope,
            constrained: self.chance(10),
            draft: [DraftSource::None, DraftSource::PromptLookup, DraftSource::Caller][self.below(3)],
            ..Request::new(self.prompt())
        }
    }

    fn live(&mut self, harness: &Harness) -> Option<RequestId> {
        let count = harness.texts.len();
        (count > 0).then(|| *harness.texts.keys().nth(self.below(count)).unwrap())
    }
}

fn config(random: &mut Random) -> SchedulerConfig {
    let context = 160;
    SchedulerConfig {
        max_sequences: 1 + u32::try_from(random.below(8)).unwrap(),
        max_rows: 1 + random.below(100),
        max_chunk: 1 + random.below(64),
        max_draft_rows: random.below(24),
        max_queued: 1 + random.below(12),
        aging: Duration::from_millis(20 + random.below(200) as u64),
        max_in_flight: 1 + random.below(3),
        ..SchedulerConfig::new(5 + u32::try_from(random.below(10)).unwrap(), context, VOCABULARY)
    }
}

/// One random event.
fn event(harness: &mut Harness, random: &mut Random) {
    match random.below(100) {
        0..=11 => {
            let request = random.request(harness.now);
            match harness.submit(request) {
                Ok(_) | Err(SubmitError::QueueFull { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        12..=13 => {
            if let Some(id) = random.live(harness) {
                assert!(harness.scheduler.cancel(id) && !harness.scheduler.cancel(id));
                harness.take_events();
            }
        }
        14..=16 => fork(harness, random),
        17..=18 => rewind(harness, random),
        19 if random.chance(10) => {
            harness.scheduler.abandon_steps();
            harness.steps.clear();
        }
        19..=59 => {
            harness.plan();
        }
        _ => {
            harness.finish();
        }
    }
}

fn fork(harness: &mut Harness, random: &mut Random) {
    let Some(id) = random.live(harness) else { return };
    let mut request = random.request(harness.now);
    if random.chance(80) {
        request.scope = harness.texts[&id].request.scope;
    }
    let own = random.below(4);
    request.tokens = random.tokens(own);
    let known = harness.texts[&id].tokens.len();
    let at = known - random.below(known.min(40) + 1);
    match harness.fork(id, at, request) {
        Ok(_) | Err(SubmitError::QueueFull { .. } | SubmitError::EmptyPrompt | SubmitError::PromptTooLong { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

fn rewind(harness: &mut Harness, random: &mut Random) {
    let Some(id) = random.live(harness) else { return };
    let known = harness.texts[&id].tokens.len();
    let to = known - random.below(known.min(40) + 1);
    let own = random.below(3);
    let then = random.tokens(own);
    match harness.rewind(id, to, &then) {
        Ok(()) | Err(SubmitError::EmptyPrompt | SubmitError::PromptTooLong { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Runs events in rounds, each with new limits, and returns the sums of what happened.
fn run(seed: u64, rounds: u64, events: u64) -> (Statistics, usize, u64, usize) {
    let (mut sum, mut copies, mut longest_wait, mut ended) = (Statistics::default(), 0, 0, 0);
    for round in 0..rounds {
        let mut random = Random(mix(seed, round));
        let mut harness = Harness::new(config(&mut random));
        for _ in 0..events {
            event(&mut harness, &mut random);
            harness.check();
            ended += harness.ended.len();
            harness.ended.clear();
        }
        harness.drain();
        let statistics = harness.scheduler.statistics();
        sum.steps += statistics.steps;
        sum.rows += statistics.rows;
        sum.hit_positions += statistics.hit_positions;
        sum.evictions += statistics.evictions;
        sum.preemptions += statistics.preemptions;
        sum.drafted += statistics.drafted;
        sum.accepted += statistics.accepted;
        copies += harness.gpu.copies;
        longest_wait = longest_wait.max(harness.longest_wait);
        ended += harness.ended.len();
    }
    (sum, copies, longest_wait, ended)
}

/// Every request ends within this many steps. At most 20 are live, and one alone takes up to 160 tokens; with one row per step that is some
/// thousands.
const MOST_STEPS: u64 = 3_000;

fn check(seed: u64, rounds: u64, events: u64) {
    let (sum, copies, longest_wait, ended) = run(seed, rounds, events);
    println!("{ended} requests, {copies} copies, at most {longest_wait} steps from arrival to end, {sum:?}");
    assert!(sum.preemptions > 0 && sum.evictions > 0 && sum.hit_positions > 0 && copies > 0);
    assert!(sum.accepted > 0 && sum.accepted < sum.drafted);
    assert!(longest_wait <= MOST_STEPS, "{longest_wait}");
}

#[test]
fn batched_is_alone_under_random_events() {
    check(1, 40, 5_000);
}

#[test]
#[ignore = "a minute; run it after changing the scheduler"]
fn batched_is_alone_under_a_million_random_events() {
    check(2, 200, 5_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn batched_is_alone_for_any_seed(seed: u64, events in 1u64..300) {
        run(seed, 1, events);
    }
}
