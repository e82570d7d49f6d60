//! Graphs of delegates as a program contains them: their bytes, and the arguments of a call.

use pteron_format::vulkan::{self, ConstantSource, Graph};
use pteron_format::{ScalarType, xnnpack};

use super::program::border;
use crate::xnnpack_sample::Build;

/// The most bytes that a graph's own constants take.
const MOST_STORED: u64 = 1 << 16;

/// An argument of a delegate call.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its element type.
    pub scalar_type: ScalarType,
    /// Its largest sizes.
    pub sizes: Vec<u32>,
    /// Whether the delegate writes it.
    pub output: bool,
}

/// A delegate's graph.
#[derive(Debug)]
pub struct Part {
    backend: &'static str,
    ports: Vec<Port>,
    blob: Vec<u8>,
}

impl Part {
    /// A graph for Vulkan whose constants are zeros inside its own bytes; `None` if it cannot be written.
    #[must_use]
    pub fn vulkan(mut graph: Graph) -> Option<Self> {
        let longest = graph.constants.iter().map(|constant| constant.len).max().unwrap_or(0).min(MOST_STORED);
        graph.constants.iter_mut().for_each(|constant| constant.source = ConstantSource::Stored(0));
        let blob = vulkan::write_blob(&graph, &vec![0; longest as usize]).ok()?;
        let port = |id: &vulkan::ValueId, output| {
            let tensor = graph.value(*id).and_then(vulkan::Value::as_tensor);
            let (scalar_type, sizes) = tensor
                .map_or((ScalarType::Float, Vec::new()), |tensor| (border(tensor.border_dtype()), tensor.dims.clone()));
            Port { scalar_type, sizes, output }
        };
        let inputs = graph.inputs.iter().map(|id| port(id, false));
        let ports = inputs.chain(graph.outputs.iter().map(|id| port(id, true))).collect();
        Some(Self { backend: vulkan::BACKEND_ID, ports, blob })
    }

    /// A graph for XNNPACK, with the bytes of its constants; `None` if it cannot be written.
    #[must_use]
    pub(crate) fn xnnpack(Build { graph, stored }: Build) -> Option<Self> {
        let blob = xnnpack::write_blob(&graph, &stored).ok()?;
        let mut externals: Vec<_> = graph.externals().collect();
        externals.sort_by_key(|(_, external)| external.index);
        let port = |(id, external): (xnnpack::ValueId, xnnpack::External)| {
            let sizes = graph.value(id).map(|value| value.dims.clone()).unwrap_or_default();
            Port { scalar_type: ScalarType::Float, sizes, output: external.output }
        };
        let ports = externals.into_iter().map(port).collect();
        Some(Self { backend: xnnpack::BACKEND_ID, ports, blob })
    }

    /// The backend that the graph is for.
    #[must_use]
    pub fn backend(&self) -> &'static str {
        self.backend
    }

    /// The arguments of a call, in order.
    #[must_use]
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// The graph's bytes.
    #[must_use]
    pub fn into_blob(self) -> Vec<u8> {
        self.blob
    }
}
