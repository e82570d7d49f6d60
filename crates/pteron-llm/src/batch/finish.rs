//! The results of a step.

use super::plan::PlannedRows;
use super::request::{EndReason, Event, RequestId, StepError};
use super::scheduler::Scheduler;
use crate::tokenizer::TokenId;

impl Scheduler {
    /// Takes the results of the oldest step in flight: one token for each of its samples, in their order. Rows of requests that have
    /// ended in the meantime are dropped. [`take_events`](Self::take_events) then returns the new tokens.
    ///
    /// # Errors
    /// Another step is the oldest in flight, or the number of tokens is not that of the step's samples. Nothing changes then.
    pub fn finish_step(&mut self, step: u64, sampled: &[TokenId]) -> Result<(), StepError> {
        let oldest = self.in_flight.front();
        let expected = oldest.filter(|oldest| oldest.id == step).map(|oldest| oldest.samples);
        let Some(expected) = expected else {
            return Err(StepError::OutOfOrder { expected: oldest.map(|oldest| oldest.id), got: step });
        };
        if expected != sampled.len() {
            return Err(StepError::SampleCount { expected, got: sampled.len() });
        }
        let rows = self.in_flight.pop_front().map(|step| step.rows).unwrap_or_default();
        for rows in rows {
            if let Some(reason) = self.finish_rows(&rows, &sampled[rows.samples.clone()]) {
                self.end(rows.request, reason);
            }
        }
        Ok(())
    }

    /// Takes the results of one sequence's rows. Returns why it ends, if it does.
    fn finish_rows(&mut self, rows: &PlannedRows, sampled: &[TokenId]) -> Option<EndReason> {
        let sequence = self.sequences.get_mut(&rows.request)?;
        if sequence.text_version != rows.text_version {
            return None;
        }
        // The sample after a wrong draft token is dropped: the model has seen another text than the one that was sampled.
        let (drafted, accepted) = (rows.draft.len(), rows.draft.iter().zip(sampled).take_while(|(a, b)| a == b).count());
        let valid = &sampled[..sampled.len().min(accepted + 1)];
        let (kept, end) = sequence.append(valid);
        if drafted > 0 {
            sequence.verifying = false;
        } else {
            sequence.pending -= sampled.len();
        }
        // A sequence that lost its blocks in the meantime keeps its tokens, and computes its rows again.
        if sequence.blocks_version == rows.blocks_version {
            sequence.computed = rows.position + rows.count - (drafted - accepted);
            if drafted > 0 {
                sequence.planned = sequence.computed;
                sequence.table.truncate(&mut self.pool, sequence.computed);
            }
            sequence.table.publish(&mut self.pool, &sequence.tokens, sequence.computed);
        }
        if let Some(lookup) = &mut sequence.lookup {
            lookup.observe(&sequence.tokens);
            lookup.record(drafted, accepted);
        }
        self.statistics.drafted += drafted as u64;
        self.statistics.accepted += accepted as u64;
        if rows.sampled {
            let samples = rows.samples.start..rows.samples.start + kept;
            let tokens = valid[..kept].to_vec();
            self.events.push(Event::Tokens { request: rows.request, tokens, samples, drafted, accepted });
        }
        end
    }

    /// Gives up all steps in flight, for example after the GPU failed: their rows count as never run. Requests with rows in them
    /// are queued again and continue with the same text.
    pub fn abandon_steps(&mut self) {
        let steps = std::mem::take(&mut self.in_flight);
        let requests: Vec<RequestId> = steps.iter().flat_map(|step| &step.rows).map(|rows| rows.request).collect();
        for request in requests {
            let Some(sequence) = self.sequences.get_mut(&request) else { continue };
            sequence.forget_in_flight();
            self.queue_again(request);
        }
    }
}
