//! The prefix cache, forks and rewinds.

use super::harness::Harness;
use super::model::VOCABULARY;
use crate::batch::pool::{BlockKey, BlockPool, Lookup, Parent};
use crate::batch::{AdapterId, PrefixScope, Request, RequestId, SchedulerConfig};
use crate::tokenizer::TokenId;

fn harness() -> Harness {
    Harness::new(SchedulerConfig {
        max_sequences: 8,
        max_rows: 64,
        max_chunk: 64,
        ..SchedulerConfig::new(40, 256, VOCABULARY)
    })
}

fn prompt(count: u32) -> Vec<TokenId> {
    (0..count).map(|index| index * index % VOCABULARY).collect()
}

fn request(tokens: Vec<TokenId>) -> Request {
    Request { max_tokens: Some(4), ..Request::new(tokens) }
}

fn rows(harness: &Harness) -> u64 {
    harness.scheduler.statistics().rows
}

#[test]
fn concurrent_requests_compute_a_shared_prefix_once() {
    let mut harness = harness();
    for own in 0..4 {
        harness.submit(request([prompt(150), vec![own]].concat())).unwrap();
    }
    harness.drain();
    // Four whole blocks are shared; each computes 23 rows of the fifth, and 3 of the generated tokens. The first step may also begin
    // requests that it later makes wait, never a whole block.
    assert_eq!(rows(&harness), 128 + 4 * (23 + 3));
    assert_eq!(harness.scheduler.statistics().hit_positions, 3 * 128);
}

#[test]
fn a_waiting_request_takes_over_when_the_one_it_waits_for_is_cancelled() {
    let mut harness = harness();
    let first = harness.submit(request(prompt(200))).unwrap();
    let second = harness.submit(request(prompt(200))).unwrap();
    assert!(harness.plan());
    assert_eq!(harness.steps[0].0.requests, [first]);
    assert!(harness.plan());
    assert_eq!(harness.steps[1].0.requests, [first], "the second waits");
    harness.finish();
    harness.scheduler.cancel(first);
    harness.take_events();
    harness.check();
    assert!(harness.plan());
    let step = &harness.steps[1].0;
    assert_eq!((step.requests.as_slice(), step.step.sequences[0].position), ([second].as_slice(), 64));
    harness.drain();
}

#[test]
fn a_repeated_prompt_computes_only_its_last_rows() {
    let mut harness = harness();
    harness.submit(request(prompt(160))).unwrap();
    harness.drain();
    harness.submit(request(prompt(160))).unwrap();
    harness.plan();
    let rows = harness.steps[0].0.step.sequences[0];
    // The last block is computed again: its last row gives the logits.
    assert_eq!((rows.position, rows.row_count), (128, 32));
    harness.drain();
}

#[test]
fn generated_tokens_are_cached_for_the_next_turn() {
    let mut harness = harness();
    harness.submit(Request { max_tokens: Some(50), ..Request::new(prompt(50)) }).unwrap();
    harness.drain();
    let text = harness.ended[0].2.tokens.clone();
    harness.submit(request([text, vec![1, 2]].concat())).unwrap();
    harness.plan();
    assert_eq!(harness.steps[0].0.step.sequences[0].position, 96);
    harness.drain();
}

#[test]
fn adapters_and_salts_share_nothing() {
    let mut harness = harness();
    let scopes = [
        PrefixScope::default(),
        PrefixScope { adapter: Some(AdapterId(0)), salt: 0 },
        PrefixScope { adapter: Some(AdapterId(1)), salt: 0 },
        PrefixScope { adapter: None, salt: 1 },
    ];
    for scope in scopes {
        harness.submit(Request { scope, ..request(prompt(100)) }).unwrap();
        harness.drain();
    }
    assert_eq!(harness.scheduler.statistics().hit_positions, 0);
}

#[test]
fn equal_blocks_after_different_prefixes_share_nothing() {
    let mut harness = harness();
    for first in 0..3 {
        harness.submit(request([vec![first; 32], prompt(64)].concat())).unwrap();
        harness.drain();
    }
    assert_eq!(harness.scheduler.statistics().hit_positions, 0);
}

#[test]
fn a_block_that_is_written_again_is_another_parent() {
    let mut pool = BlockPool::new(3);
    let key = |parent| BlockKey { parent, tokens: [7; 32] };
    let root = Parent::Root(PrefixScope::default());
    let (first, second) = (pool.allocate().unwrap(), pool.allocate().unwrap());
    assert_eq!(pool.publish(first, key(root)), first);
    let child = key(pool.parent(first));
    assert_eq!(pool.publish(second, child.clone()), second);
    assert_eq!(pool.look_up(&child), Lookup::Cached(second));
    pool.overwrite(first);
    assert_eq!(pool.look_up(&key(root)), Lookup::Missing);
    assert_eq!(pool.publish(first, key(root)), first);
    // The same place and tokens, but the block before it has changed.
    assert_eq!(pool.look_up(&key(pool.parent(first))), Lookup::Missing);
}

#[test]
fn the_least_recently_used_block_is_evicted_and_ends_go_before_starts() {
    let mut harness =
        Harness::new(SchedulerConfig { max_rows: 256, max_chunk: 256, ..SchedulerConfig::new(6, 160, VOCABULARY) });
    let submit = |harness: &mut Harness, first: TokenId| {
        harness.submit(Request { max_tokens: Some(1), ..Request::new([vec![first; 64], vec![0]].concat()) }).unwrap();
        harness.drain();
        let position = harness.scheduler.statistics().hit_positions;
        harness.scheduler.statistics.hit_positions = 0;
        position
    };
    assert_eq!((submit(&mut harness, 1), submit(&mut harness, 2)), (0, 0));
    // Both are cached, in four of six blocks. Using the first again makes the second the one to evict.
    assert_eq!(submit(&mut harness, 1), 64);
    assert_eq!(submit(&mut harness, 3), 0);
    assert_eq!(submit(&mut harness, 1), 64);
    assert_eq!(submit(&mut harness, 2), 32, "its second block was evicted, its first was not");
}

/// Runs a request until it has generated this many tokens.
fn generate(harness: &mut Harness, id: RequestId, count: usize) {
    let end = harness.texts[&id].tokens.len() + count;
    while harness.texts[&id].tokens.len() < end {
        while harness.plan() {}
        harness.finish();
    }
}

#[test]
fn a_fork_shares_blocks_until_one_writes() {
    let mut harness = harness();
    let parent = harness.submit(Request { max_tokens: Some(60), ..Request::new(prompt(70)) }).unwrap();
    generate(&mut harness, parent, 10);
    let used = harness.scheduler.statistics().blocks.used;
    let child = harness.fork(parent, 75, Request { max_tokens: Some(30), ..Request::new(vec![3]) }).unwrap();
    harness.check();
    assert_eq!(harness.scheduler.statistics().blocks.used, used, "a fork takes no block");
    assert_eq!(harness.gpu.copies, 0);
    harness.drain();
    assert_eq!(harness.gpu.copies, 1);
    assert!(harness.ended.iter().any(|(id, _, text)| *id == child && text.tokens.len() == 106));
}

#[test]
fn a_rewind_drops_the_tail_and_leaves_forks_alone() {
    let mut harness = harness();
    let first = harness.submit(Request { max_tokens: Some(90), ..Request::new(prompt(70)) }).unwrap();
    generate(&mut harness, first, 40);
    let second = harness.fork(first, 100, Request { max_tokens: Some(20), ..Request::new(vec![]) }).unwrap();
    harness.rewind(first, 40, &[1, 2, 3]).unwrap();
    harness.check();
    assert_eq!(harness.scheduler.tokens(first).unwrap().len(), 43);
    harness.drain();
    assert!(harness.ended.iter().any(|(id, _, text)| *id == second && text.tokens.len() == 120));
    assert!(harness.ended.iter().any(|(id, _, text)| *id == first && text.tokens.len() == 160));
}
