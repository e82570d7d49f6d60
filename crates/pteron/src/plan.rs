//! A call's plan without a GPU: which operators run after fusing, and how many dispatches each takes.

use pteron_gpu::engine::SharedBudget;
use pteron_gpu::graph::{DecodedGraph, Role};
use pteron_gpu::live::TensorId;
use pteron_gpu::memory::Memory;
use pteron_gpu::plan::Caps;
use pteron_gpu::resize::{LiveInput, Planned};
use pteron_gpu::shape::Dims;

use crate::conversion::to_gpu;
use crate::error::{Error, Result};
use crate::options::LoadOptions;
use crate::program::Program;
use crate::tensor::Tensor;

/// An operator of a method after fusing, at the shapes of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedOperator {
    /// Its name. Names that begin with `pteron.` are fused or internal.
    pub name: &'static str,
    /// The number of dispatches; 0 where its output shares the memory of its input.
    pub dispatches: usize,
    /// The tensors it reads.
    pub reads: Vec<Operand>,
    /// The tensors it writes or changes in place.
    pub writes: Vec<Operand>,
}

/// A tensor of a planned operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operand {
    /// A number that names it within the method.
    pub id: u32,
    /// Its dims in this call.
    pub shape: Vec<u32>,
    /// Whether it is a constant of the program.
    pub constant: bool,
}

impl Program {
    /// Plans a call of a method on a device with portable kernels alone, without opening one. Nothing is loaded or run.
    ///
    /// # Errors
    /// No such method, inputs that do not match it, an operator that is not supported, or a method of several graphs, whose shapes
    /// are known only when it runs.
    pub fn plan_call(&self, method: &str, inputs: &[Tensor], options: &LoadOptions) -> Result<Vec<PlannedOperator>> {
        let caps = Caps { max_binding: u64::MAX, ..Caps::PORTABLE };
        let (outline, mut outlined) = self.outline(caps, &SharedBudget::new(None), method, options)?;
        let (Some((graph, _, _)), Some(taken)) = (outlined.pop(), outline.instructions.inputs_of_only_graph()) else {
            let reason = "is several graphs, and shapes between them are known only when it runs".to_owned();
            return Err(Error::Unsupported { method: method.to_owned(), reason });
        };
        let bounds: Vec<Dims> = graph.inputs.iter().map(|&input| graph.info(input).bound).collect();
        let mut planned = Planned::at_bounds(&graph, &bounds, caps)?;
        // Inputs that nothing reads are no inputs of the graph.
        let converted = taken.into_iter().map(|index| {
            let missing = || Error::Input { method: method.to_owned(), index, reason: "is missing".to_owned() };
            let tensor = inputs.get(index).ok_or_else(missing)?;
            let data = to_gpu(tensor, |reason| Error::Input { method: method.to_owned(), index, reason })?;
            let values: Option<Vec<i32>> = tensor.to_i64().map(|values| {
                #[allow(clippy::cast_possible_truncation, reason = "`to_gpu` has checked the range")]
                values.into_iter().map(|value| value as i32).collect()
            });
            Ok((data.dims, values))
        });
        let converted = converted.collect::<Result<Vec<_>>>()?;
        let live: Vec<LiveInput<'_>> =
            converted.iter().map(|(dims, values)| LiveInput { dims: *dims, values: values.as_deref() }).collect();
        let change = planned.resize(&graph, &live)?;
        planned.commit(change);
        let aliased = Memory::plan(&graph, &planned)?.aliased;
        Ok(operators(&graph, &planned, &aliased))
    }
}

fn operators(graph: &DecodedGraph, planned: &Planned, aliased: &[bool]) -> Vec<PlannedOperator> {
    let operand = |&tensor: &TensorId| Operand {
        id: tensor.0,
        shape: planned.live().dims(tensor).to_vec(),
        constant: matches!(graph.role(tensor), Role::Constant(_)),
    };
    let nodes = graph.nodes.iter().zip(planned.plans()).zip(aliased);
    let operator = nodes.map(|((node, plan), &aliased)| PlannedOperator {
        name: node.name,
        dispatches: if aliased { 0 } else { plan.steps.len() },
        reads: node.flow.reads.iter().map(operand).collect(),
        writes: node.flow.writes.iter().chain(&node.flow.mutates).map(operand).collect(),
    });
    operator.collect()
}
