//! Resizing: replans the operators affected by the live dims of a call's inputs, in order, each once; the plans are checked,
//! then committed at once.

use crate::budget::Budget;
use crate::error::{Error, OpError, Result};
use crate::graph::DecodedGraph;
use crate::kernel::reach::{BoundLengths, DispatchView, Lengths, Reached};
use crate::live::{Live, TensorId};
use crate::plan::{Bind, BoundsCx, Caps, Dispatch, PARAM_SLOT, Plan, PlanCx, Recipe, Recipes};
use crate::shape::Dims;

/// A graph at its current shape: live values, every operator's plan, and every operator's recipes.
#[derive(Debug)]
pub struct Planned {
    live: Live,
    plans: Vec<Plan>,
    recipes: Vec<Recipes>,
    step_bases: Vec<u32>,
    bounds: Vec<Dims>,
    lengths: Lengths,
    caps: Caps,
}

/// An input of a call: its dims, and its integers where the host has them.
#[derive(Clone, Copy, Debug)]
pub struct LiveInput<'a> {
    /// The input's dims in this call.
    pub dims: Dims,
    /// Its integers, for inputs of integers.
    pub values: Option<&'a [i32]>,
}

/// A resize that is planned and checked. It changes nothing until it is [committed](Planned::commit).
#[derive(Debug)]
pub struct PlannedResize {
    live: Live,
    plans: Vec<(usize, Plan)>,
}

impl PlannedResize {
    /// The live values after the resize.
    #[must_use]
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// The operators whose plans are new, in order.
    pub fn affected(&self) -> impl Iterator<Item = usize> + '_ {
        self.plans.iter().map(|(node, _)| *node)
    }
}

impl Planned {
    /// Plans a graph at its bounds; loading is the first resize. `input_bounds` may be smaller than the graph's.
    ///
    /// # Errors
    /// An operator that rejects its arguments or its bounds.
    pub fn at_bounds(graph: &DecodedGraph, input_bounds: &[Dims], caps: Caps) -> Result<Self> {
        let mut bounds = graph.tensor_bounds();
        for (&input, &bound) in graph.inputs.iter().zip(input_bounds) {
            bounds[input.index()] = bound;
        }
        Self::at_tensor_bounds(graph, bounds, caps)
    }

    /// The same with bounds of all tensors, by value id, which may be smaller than the graph's.
    ///
    /// # Errors
    /// As [`at_bounds`](Self::at_bounds).
    pub(crate) fn at_tensor_bounds(graph: &DecodedGraph, bounds: Vec<Dims>, caps: Caps) -> Result<Self> {
        crate::graph::check_bounds(graph, &bounds)?;
        let mut budget = graph.size().plan_budget();
        let mut recipes = Vec::with_capacity(graph.nodes.len());
        let mut step_bases = Vec::with_capacity(graph.nodes.len());
        let mut step_base = 0u32;
        for node in &graph.nodes {
            let of = |error: OpError| error.of(node.name, node.call);
            let node_recipes = node.op.recipes(&BoundsCx::new(&bounds, caps)).map_err(of)?;
            debug_assert!(
                node_recipes.list.iter().all(|recipe| node
                    .def
                    .kernels
                    .iter()
                    .any(|&known| std::ptr::eq(known, recipe.variant.kernel))),
                "{} uses a kernel that its registry entry does not list",
                node.name,
            );
            charge(&mut budget, &node_recipes)?;
            step_bases.push(step_base);
            let next = u32::try_from(node_recipes.step_words).ok().and_then(|words| step_base.checked_add(words));
            step_base = next.ok_or_else(|| of(OpError::new("plan", "needs more step words than kernels index")))?;
            recipes.push(node_recipes);
        }
        let plans = vec![Plan::default(); graph.nodes.len()];
        let lengths = Lengths::new(graph, &bounds, &recipes);
        let mut planned = Self { live: Live::new(bounds.clone()), plans, recipes, step_bases, bounds, lengths, caps };
        let all = planned.plan_where(graph, planned.live.clone(), |_, _| true)?;
        planned.commit(all);
        Ok(planned)
    }

    /// Plans the operators that a call's inputs affect. `self` does not change, also on error.
    ///
    /// # Errors
    /// An operator that rejects the live shapes or scalars, or that would need more than its recipes reserved.
    pub fn resize(&self, graph: &DecodedGraph, inputs: &[LiveInput<'_>]) -> Result<PlannedResize> {
        let mut live = self.live.clone();
        let mut changed = vec![false; graph.tensors.len()];
        for (index, (&tensor, input)) in graph.inputs.iter().zip(inputs).enumerate() {
            let bound = self.bounds[tensor.index()];
            if !input.dims.fits(&bound) {
                return Err(Error::Input { index, reason: format!("has shape {}, allowed is up to {bound}", input.dims) });
            }
            changed[tensor.index()] |= live.set_dims(tensor, input.dims);
            if let Some(values) = input.values {
                changed[tensor.index()] |= live.set_host_values(tensor, values);
            }
        }
        // A changed value of an input affects only operators that read it on the host; changed dims affect all readers.
        let dims_changed: Vec<bool> = (0..)
            .map(TensorId)
            .zip(&changed)
            .map(|(tensor, &changed)| changed && live.dims(tensor) != self.live.dims(tensor))
            .collect();
        self.plan_where(graph, live, |node, marks| {
            let flow = &graph.nodes[node].flow;
            flow.host_reads.iter().any(|tensor| changed[tensor.index()])
                || flow.reads.iter().chain(&flow.mutates).any(|t| dims_changed[t.index()] || marks.tensors[t.index()])
                || flow.scalar_reads.iter().any(|scalar| marks.scalars[scalar.index()])
        })
    }

    /// Plans the operators for which `affected` holds, in order. Each sees the changes of those before it.
    fn plan_where(
        &self,
        graph: &DecodedGraph,
        mut live: Live,
        affected: impl Fn(usize, &Changed) -> bool,
    ) -> Result<PlannedResize> {
        let mut changed = Changed { tensors: vec![false; graph.tensors.len()], scalars: vec![false; graph.tensors.len()] };
        let mut plans = Vec::new();
        for (index, node) in graph.nodes.iter().enumerate() {
            if !affected(index, &changed) {
                continue;
            }
            let cx = PlanCx::new(&live, BoundsCx::new(&self.bounds, self.caps), self.step_bases[index]);
            let plan = node.op.plan(&cx).map_err(|error| error.of(node.name, node.call))?;
            self.check(graph, index, &plan)?;
            for &(tensor, dims) in &plan.outputs {
                changed.tensors[tensor.index()] |= live.set_dims(tensor, dims);
            }
            for &(scalar, value) in &plan.scalars {
                changed.scalars[scalar.index()] |= live.set_scalar(scalar, value);
            }
            plans.push((index, plan));
        }
        Ok(PlannedResize { live, plans })
    }

    /// Checks that a plan stays within the resources its recipes reserved.
    fn check(&self, graph: &DecodedGraph, index: usize, plan: &Plan) -> Result<()> {
        let node = &graph.nodes[index];
        let recipes = &self.recipes[index];
        for &(tensor, dims) in &plan.outputs {
            let bound = self.bounds[tensor.index()];
            if !dims.fits(&bound) {
                let operator = format!("{} (call {})", node.name, node.call);
                return Err(Error::Capacity { operator, tensor: tensor.0, dims, bound });
            }
        }
        let fail = |reason: String| Err(OpError::new("plan", reason).of(node.name, node.call).into());
        for (scratch, &used) in plan.scratch.iter().enumerate() {
            let reserved = recipes.scratch.get(scratch).copied().unwrap_or(0);
            if used > reserved {
                return fail(format!("needs {used} bytes of scratch {scratch}, but {reserved} were reserved"));
            }
        }
        if plan.step_words.len() > recipes.step_words {
            return fail(format!("sets {} step words, but {} were reserved", plan.step_words.len(), recipes.step_words));
        }
        let mut used = vec![0u32; recipes.list.len()];
        for step in &plan.steps {
            let Some(recipe) = recipes.list.get(step.recipe) else {
                return fail(format!("names recipe {}, but there are {}", step.recipe, recipes.list.len()));
            };
            used[step.recipe] += 1;
            if used[step.recipe] > recipe.max_dispatches {
                return fail(format!("dispatches recipe {} more than {} times", step.recipe, recipe.max_dispatches));
            }
            if step.params.len() > PARAM_SLOT {
                return fail(format!("has {} bytes of parameters, more than {PARAM_SLOT}", step.params.len()));
            }
            self.check_reach(graph, index, recipe, plan, step)?;
        }
        Ok(())
    }

    /// Checks that a kernel without bounds checks stays within the buffers that its recipe binds.
    fn check_reach(&self, graph: &DecodedGraph, index: usize, recipe: &Recipe, plan: &Plan, step: &Dispatch) -> Result<()> {
        if recipe.variant.kernel.is_checked() {
            return Ok(());
        }
        let lengths = self.lengths(index);
        // Parameters without a known reach are rejected.
        let reached = self.reached(index, plan, step).filter(|reached| reached.bindings() == recipe.binds.len());
        let reject = |binding: usize, reach, length| {
            let node = &graph.nodes[index];
            let operator = format!("{} (call {})", node.name, node.call);
            Err(Error::OutOfBounds { operator, kernel: recipe.variant.label, binding, reach, length })
        };
        let Some(reached) = reached else { return reject(0, u64::MAX, 0) };
        for (binding, (&bind, &bytes)) in recipe.binds.iter().zip(reached.bytes()).enumerate() {
            let length = lengths.length(bind);
            if bytes > length {
                return reject(binding + 1, bytes, length);
            }
        }
        Ok(())
    }

    /// The reach of an operator's dispatch, if its kernel has no bounds checks.
    pub(crate) fn reached(&self, node: usize, plan: &Plan, step: &Dispatch) -> Option<Reached> {
        let variant = &self.recipes[node].list.get(step.recipe)?.variant;
        let (step_base, step_words) = (self.step_bases[node], plan.step_words.as_slice());
        let view = DispatchView { params: &step.params, variant, grid: step.grid, step_base, step_words };
        variant.kernel.reach?(&view)
    }

    /// The bytes of the buffers that an operator's recipes bind, as they are allocated at load.
    pub(crate) fn lengths(&self, node: usize) -> BoundLengths<'_> {
        self.lengths.of(node, &self.recipes[node])
    }

    /// Commits a planned resize. Returns the operators whose plans differ from before.
    pub fn commit(&mut self, change: PlannedResize) -> Vec<usize> {
        self.live = change.live;
        let mut differ = Vec::new();
        for (node, plan) in change.plans {
            if self.plans[node] != plan {
                differ.push(node);
                self.plans[node] = plan;
            }
        }
        differ
    }

    /// The live values.
    #[must_use]
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// The capabilities that plans are made for.
    #[must_use]
    pub fn caps(&self) -> Caps {
        self.caps
    }

    /// Each operator's current plan, in order.
    #[must_use]
    pub fn plans(&self) -> &[Plan] {
        &self.plans
    }

    /// Each operator's recipes, in order.
    #[must_use]
    pub fn recipes(&self) -> &[Recipes] {
        &self.recipes
    }

    /// The largest dims of each tensor, by value id.
    #[must_use]
    pub fn bounds(&self) -> &[Dims] {
        &self.bounds
    }

    /// The offset of each operator's words in the per-step block.
    #[must_use]
    pub fn step_bases(&self) -> &[u32] {
        &self.step_bases
    }

    /// The context that an operator's plan and reference see now.
    #[must_use]
    pub fn cx(&self, node: usize) -> PlanCx<'_> {
        PlanCx::new(&self.live, BoundsCx::new(&self.bounds, self.caps), self.step_bases[node])
    }
}

/// Charges an operator's recipes and the plans that dispatch them.
pub(crate) fn charge(budget: &mut Budget, recipes: &Recipes) -> Result<()> {
    let Recipes { list, scratch, joined, .. } = recipes;
    let items =
        list.iter().map(|recipe| recipe.binds.len()).chain(joined.iter().map(|joined| joined.parts.len())).sum::<usize>();
    let dispatches = list.iter().fold(0u64, |sum, recipe| sum.saturating_add(recipe.max_dispatches.into()));
    budget.steps(items + list.len() + scratch.len())?;
    budget.memory::<Recipe>(list.len())?;
    budget.memory::<Bind>(items)?;
    budget.bytes(dispatches.saturating_mul((size_of::<Dispatch>() + PARAM_SLOT) as u64))
}

/// The values that operators have changed so far in one resize, by value id.
struct Changed {
    tensors: Vec<bool>,
    scalars: Vec<bool>,
}

#[cfg(test)]
mod tests;
