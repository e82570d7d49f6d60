//! `aten.index.Tensor` with indices of several dimensions.

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::index_offsets::IndexList;
use crate::live::TensorId;
use crate::plan::{Bind, BoundsCx, Op, Plan, PlanCx, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::HostTensors;
use crate::strided_copy::{BY_INDEX, Params};

#[derive(Debug)]
struct MultiIndex {
    from: TensorId,
    indices: IndexList,
    elem: Elem,
    out: TensorId,
}

pub(super) fn decode(args: &mut Args<'_>, from: TensorId, list: &[Option<TensorId>]) -> Result<Box<dyn Op>, OpError> {
    let indices = IndexList::decode(args, from, list)?;
    let elem = args.info(from).elem;
    Ok(Box::new(MultiIndex { from, indices, elem, out: args.output_of("out", elem)? }))
}

impl Op for MultiIndex {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let mut recipes = Recipes::of(BY_INDEX.recipes(self.elem, self.from, Bind::Scratch(0), self.out));
        recipes.list.extend(self.indices.recipes(0));
        recipes.scratch.push(self.indices.scratch(cx)?);
        Ok(recipes)
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let indexed = self.indices.layout(cx)?;
        let mut plan = Plan::new(self.out, indexed.dims, None);
        if indexed.dims.count() == 0 {
            return Ok(plan);
        }
        let gathers = BY_INDEX.recipes(self.elem, self.from, Bind::Scratch(0), self.out).len();
        plan.steps = self.indices.dispatches(cx, &indexed, gathers)?;
        let given = Params { limit: indexed.limit, index_stride: indexed.unit, ..Params::default() };
        let (step, _) = BY_INDEX.dispatch(self.elem, (&indexed.axes, indexed.unit.into()), given)?;
        plan.steps.extend(step);
        plan.scratch.push(indexed.indices.count().saturating_mul(4));
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let indexed = self.indices.layout(cx)?;
        let offsets = self.indices.reference(cx, &indexed, tensors);
        let Some(from) = tensors.get(self.from) else { return Ok(()) };
        let data = from.data.gather(&offsets);
        tensors.set(self.out, indexed.dims, data);
        Ok(())
    }
}
