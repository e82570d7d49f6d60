//! Many sequences at once: which rows each call of the model computes, and in which blocks of the KV cache.
//!
//! Every part here is a plain data structure without a GPU, threads or a clock. A caller loops:
//!
//! 1. [`Scheduler::submit`] queues requests; [`cancel`](Scheduler::cancel), [`fork`](Scheduler::fork) and
//!    [`rewind`](Scheduler::rewind) may be called at any time;
//! 2. [`Scheduler::plan_step`] returns the rows of the next step ([`BatchStep`]), also while earlier steps are in flight: tokens that
//!    are not known yet are fed back on the GPU ([`RowToken::Feedback`]);
//! 3. the GPU runs the steps in their order, and [`Scheduler::finish_step`] takes the sampled tokens of the oldest;
//! 4. [`Scheduler::take_events`] returns new tokens and the requests that ended.
//!
//! ```
//! use std::time::Duration;
//! use pteron_llm::batch::{Event, Request, Scheduler, SchedulerConfig};
//!
//! let mut scheduler = Scheduler::new(SchedulerConfig::new(64, 1024, 32_000));
//! let request = scheduler.submit(Request { max_tokens: Some(1), ..Request::new(vec![1, 2, 3]) }, Duration::ZERO)?;
//! let planned = scheduler.plan_step(Duration::ZERO).expect("three rows of prefill");
//! assert_eq!(planned.step.tokens.len(), 3);
//! scheduler.finish_step(planned.id, &[42])?;                  // what the GPU sampled
//! assert!(matches!(&scheduler.take_events()[0], Event::Tokens { tokens, .. } if *tokens == [42]));
//! assert!(scheduler.tokens(request).is_none());               // it has ended
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rules
//!
//! - **Order.** Decode rows come first, one per sequence. The remaining rows of a step go to prefill chunks: to requests that have
//!   waited longer than [`SchedulerConfig::aging`] in the order of arrival, then to the key that was given fewest rows.
//! - **Memory.** A pool of blocks of 32 positions, never exceeded. A request starts when its tokens fit. When a block is missing,
//!   cached blocks are evicted, least recently used first; then the youngest request is preempted: it loses its blocks, is queued
//!   again, and continues from its tokens with the same text. The oldest running request always goes on.
//! - **Prefix cache.** A full block is published when the step that computed it has finished. A request whose next block is being
//!   computed by another waits for it. Forks share blocks until one of them writes.
//! - **Speculation.** Up to [`MAX_DRAFT`] draft tokens of a sequence are verified in one step, from prompt lookup or from the caller.
//!   The text is the same as without.

mod budget;
mod finish;
mod plan;
mod pool;
mod queue;
mod request;
mod scheduler;
mod sequence;
mod speculation;
mod step;
mod table;
#[cfg(test)]
mod tests;

pub use budget::{BudgetError, MemoryBudget, pool_blocks};
pub use plan::PlannedStep;
pub use pool::{AdapterId, BlockCounts, BlockPool, PrefixScope};
pub use request::{ApiKeyId, DraftSource, EndReason, Event, Request, RequestId, StepError, SubmitError};
pub use scheduler::{Scheduler, SchedulerConfig, Statistics};
pub use speculation::{MAX_DRAFT, PromptLookup};
pub use step::{
    BLOCK_POSITIONS, BatchStep, BlockCopy, RowToken, SampleRow, SequenceRows, Slot, TokenMask, TokenUse, blocks_for,
};
