//! A method's parts without loading it: what would run on the GPU, what on the host, and what cannot run.

use std::collections::BTreeMap;

use pteron_format::program::{DataRef, ExecutionPlan};
use pteron_format::{Bytes, Pte};
use pteron_gpu::frontend::method::{self as lowering, DelegateGraph, LoweredMethod, Sources, Step};

use crate::error::{Error, Result};
use crate::host;

/// The parts of a method, as loading would join it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MethodSummary {
    /// The number of GPU graphs. Most methods are one.
    pub graphs: usize,
    /// The number of operator calls in them, before any is fused.
    pub calls: usize,
    /// The kernels that run on the host between graphs, with the number of their calls.
    pub host_kernels: Vec<(String, usize)>,
    /// The operators, kernels and delegates that are not supported, with the number of their calls. The other counts are 0 then.
    pub missing: Vec<(String, usize)>,
    /// Any other reason why the method cannot be joined.
    pub refused: Option<String>,
}

/// Describes a method; `None` if the program has no such method.
#[must_use]
pub fn summarize<B: Bytes>(pte: &Pte<B>, method: &str) -> Option<MethodSummary> {
    let plan = pte.program().plan(method)?;
    let lowered = match lower(pte, plan) {
        Ok(lowered) => lowered,
        Err(Error::UnsupportedOperators(missing)) => return Some(MethodSummary { missing, ..MethodSummary::default() }),
        Err(Error::Unsupported { reason, .. }) => {
            return Some(MethodSummary { refused: Some(reason), ..MethodSummary::default() });
        }
        Err(error) => return Some(MethodSummary { refused: Some(error.to_string()), ..MethodSummary::default() }),
    };
    let mut kernels = BTreeMap::<String, usize>::new();
    for step in &lowered.steps {
        if let Step::Host { operator, .. } = step
            && let Some(kernel) = plan.operators.get(*operator as usize)
        {
            *kernels.entry(kernel.to_string()).or_default() += 1;
        }
    }
    Some(MethodSummary {
        graphs: lowered.parts.len(),
        calls: lowered.parts.iter().map(|part| part.graph.graph.calls.len()).sum(),
        host_kernels: kernels.into_iter().collect(),
        ..MethodSummary::default()
    })
}

/// Joins a method into graphs and the steps between them, as loading does. For tools of this workspace: the types are internal.
///
/// # Errors
/// Everything that is not supported at once, by name, and any other reason why the method cannot be joined.
#[doc(hidden)]
pub fn lower<B: Bytes>(pte: &Pte<B>, plan: &ExecutionPlan) -> Result<LoweredMethod> {
    let sources = Sources { graph_of: &|data| delegate_graph(pte, data), on_host: &host::is_known };
    lowering::lower(plan, sources).map_err(|error| match error {
        pteron_gpu::Error::Unsupported(reason) => Error::Unsupported { method: plan.name.clone(), reason },
        other => other.into(),
    })
}

/// The names of the kernels that methods may call outside of delegates, on the GPU and on the host. For tools of this workspace.
#[doc(hidden)]
#[must_use]
pub fn kernel_names() -> Vec<String> {
    let mut names = pteron_gpu::frontend::portable::kernel_names();
    names.extend(host::names().map(str::to_owned));
    names.into_iter().collect()
}

/// The graph of a delegate, if its backend is supported.
pub(crate) fn delegate_graph<B: Bytes>(pte: &Pte<B>, data: DataRef) -> Option<DelegateGraph<'_>> {
    let vulkan = pte.graph(data).map(|blob| DelegateGraph::Vulkan(&blob.graph));
    vulkan.or_else(|| pte.xnnpack(data).map(|blob| DelegateGraph::Xnnpack(&blob.graph)))
}
