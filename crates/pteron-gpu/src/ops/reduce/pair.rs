//! Two reductions of one tensor, whose results are two outputs.

use super::Reduction;
use crate::error::OpError;
use crate::plan::{Bind, BoundsCx, Op, Plan, PlanCx, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::HostTensors;

#[derive(Debug)]
pub(super) struct Pair {
    pub(super) first: Reduction,
    pub(super) second: Reduction,
}

impl Op for Pair {
    /// The recipes and the scratch of the second follow those of the first.
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let (mut both, second) = (self.first.recipes(cx)?, self.second.recipes(cx)?);
        let moved = |bind: &mut Bind| {
            if let Bind::Scratch(index) = bind {
                *index += both.scratch.len();
            }
        };
        let list = second.list.into_iter().map(|mut recipe| {
            recipe.binds.iter_mut().for_each(moved);
            recipe
        });
        let list: Vec<_> = list.collect();
        both.list.extend(list);
        both.scratch.extend(second.scratch);
        Ok(both)
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let first = self.first.recipes(&cx.bounds)?;
        let (mut both, second) = (self.first.plan(cx)?, self.second.plan(cx)?);
        both.outputs.extend(second.outputs);
        both.scratch.resize(first.scratch.len(), 0);
        both.scratch.extend(second.scratch);
        both.steps.extend(second.steps.into_iter().map(|mut step| {
            step.recipe += first.list.len();
            step
        }));
        Ok(both)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        self.first.reference(cx, tensors)?;
        self.second.reference(cx, tensors)
    }
}
