//! Methods without a GPU: loading and calling as usual, except that the caller computes the graphs.
//!
//! Only with the cargo feature `fuzzing`, and not part of the API: it may change or be removed at any time.

use pteron_format::program::ValueId;
use pteron_gpu::engine::{self, SharedBudget, TensorData};
use pteron_gpu::graph::DecodedGraph;
use pteron_gpu::plan::Caps;
use pteron_gpu::shape::Dims;

use crate::conversion::to_gpu;
use crate::error::{Error, Result};
use crate::interpreter::Interpreter;
use crate::method::{Method, TensorSpec};
use crate::options::LoadOptions;
use crate::program::Program;
use crate::tensor::Tensor;

/// A method that is not on a GPU, and its state.
#[derive(Debug)]
pub struct DryMethod {
    method: Method,
    graphs: Vec<(DecodedGraph, engine::LoadOptions)>,
    kept: Vec<(ValueId, Tensor)>,
}

impl DryMethod {
    /// Loads a method as [`Program::load`] does, up to memory planning, with a fresh state.
    ///
    /// # Errors
    /// As [`Program::load`] and [`Method::new_state`].
    pub fn new(program: &Program, caps: Caps, method: &str, options: &LoadOptions) -> Result<Self> {
        let (method, outlined) = program.outline(caps, &SharedBudget::new(None), method, options)?;
        let kept = method.instructions.initial_values(&program.files)?;
        let graphs = outlined.into_iter().map(|(graph, options, _)| (graph, options)).collect();
        Ok(Self { method, graphs, kept })
    }

    /// The types and bounds of the inputs.
    #[must_use]
    pub fn inputs(&self) -> &[TensorSpec] {
        self.method.inputs()
    }

    /// The types and largest shapes of the outputs.
    #[must_use]
    pub fn outputs(&self) -> &[TensorSpec] {
        self.method.outputs()
    }

    /// Bytes of host memory that values may take.
    #[must_use]
    pub fn host_memory(&self) -> u64 {
        self.method.host_memory
    }

    /// The tensors that are kept between calls.
    pub fn kept(&self) -> impl Iterator<Item = &Tensor> {
        self.kept.iter().map(|(_, tensor)| tensor)
    }

    /// The graphs, each with the bounds of its inputs where they are smaller than the file's.
    pub fn graphs(&self) -> impl Iterator<Item = (&DecodedGraph, &[Option<Dims>])> {
        self.graphs.iter().map(|(graph, options)| (graph, options.input_bounds.as_slice()))
    }

    /// Calls the method; `compute` computes the graphs.
    ///
    /// # Errors
    /// As [`Method::call`], or an error that `compute` returns.
    pub fn call(
        &mut self,
        inputs: &[Tensor],
        mut compute: impl FnMut(&DecodedGraph, &[TensorData<'_>]) -> Result<Vec<TensorData<'static>>>,
    ) -> Result<Vec<Tensor>> {
        self.method.check(inputs)?;
        let given = inputs.iter().map(|input| input.bytes().len() as u64).sum();
        let mut run = Interpreter::new(&self.method, given, &self.kept, inputs)?;
        while let Some(call) = run.next_call()? {
            let fail = |reason| Error::Input { method: self.method.name().to_owned(), index: 0, reason };
            let Some((graph, _)) = self.graphs.get(call.graph) else {
                return Err(fail(format!("has no graph {}", call.graph)));
            };
            let tensors = run.tensors(&call)?.into_iter().map(|tensor| to_gpu(tensor, fail)).collect::<Result<Vec<_>>>()?;
            let outputs = compute(graph, &tensors)?;
            run.take(&call, outputs)?;
        }
        run.finish(&mut self.kept)
    }
}
