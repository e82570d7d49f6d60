//! The end of a graph: outputs, and what state has become.

use std::collections::HashSet;

use pteron_format::program as file;

use super::{ALIAS, PlanValues, State, place};
use crate::error::Result;
use crate::frontend::Builder;
use crate::ir::ValueId;
use crate::ops;

/// A finished graph and its borders, in values of the plan.
#[derive(Debug, Default)]
pub(in crate::frontend) struct Finished {
    pub(in crate::frontend) builder: Option<Builder>,
    pub(in crate::frontend) inputs: Vec<file::ValueId>,
    pub(in crate::frontend) outputs: Vec<file::ValueId>,
    /// Outputs that are inputs as they came: from, to.
    pub(in crate::frontend) copies: Vec<(file::ValueId, file::ValueId)>,
}

impl PlanValues<'_> {
    /// Ends the graph: stores what state has become, and makes values outputs.
    pub(in crate::frontend) fn finish(mut self, outputs: &[file::ValueId]) -> Result<Finished> {
        let mut finished = Finished::default();
        let read: HashSet<ValueId> = self.builder.graph().calls.iter().flat_map(|call| &call.args).copied().collect();
        let mut taken: HashSet<ValueId> = HashSet::new();
        for &id in outputs {
            let value = self.tensor(id)?;
            // An input that calls read may have been changed in place.
            if let Some(from) = self.input_of(value).filter(|_| !read.contains(&value)) {
                if from != id {
                    finished.copies.push((from, id));
                }
                continue;
            }
            let Some(tensor) = self.builder.tensor_at(value) else { continue };
            let shared = tensor.constant.is_some() || taken.contains(&value);
            let value = if shared { self.copied(value)? } else { value };
            taken.insert(value);
            self.builder.output(value)?;
            finished.outputs.push(id);
        }
        self.store_states()?;
        for (&id, &input) in &self.inputs {
            self.builder.input(input)?;
            finished.inputs.push(id);
        }
        finished.builder = Some(self.builder);
        Ok(finished)
    }

    pub(super) fn copied(&mut self, value: ValueId) -> Result<ValueId> {
        let Some(tensor) = self.builder.tensor_at(value) else { return Ok(value) };
        let (dtype, dims) = (tensor.dtype, tensor.dims.clone());
        self.builder.compute(ALIAS, &[value], dtype, &dims)
    }

    /// Stores what each state has become, if that is another tensor.
    fn store_states(&mut self) -> Result<()> {
        let mut stores = Vec::new();
        for State { owner, tensor } in self.states.clone() {
            let last = place(self.plan_tensor(owner)?).and_then(|place| self.places.get(&place)).copied();
            let last = last.unwrap_or(owner);
            let same_len = self.plan_tensor(last)?.byte_len() == self.plan_tensor(owner)?.byte_len();
            let value = if last == owner || !same_len { self.tensor(owner)? } else { self.reinterpret(last, owner)? };
            if value == tensor {
                continue;
            }
            // The state of another buffer is read before any is stored.
            stores.push((if self.state_tensors.contains(&value) { self.copied(value)? } else { value }, tensor));
        }
        for (value, state) in stores {
            self.builder.call(ops::copy::STORE, &[value, state])?;
        }
        Ok(())
    }
}
