//! A picture of the delegates' graphs: calls are nodes, tensors the edges between them.

mod dot;
mod mermaid;
mod model;
mod xnnpack;

use std::path::Path;

use pteron_format::program::ExecutionPlan;
use pteron_format::{Bytes, EscapedText, Pte};

use crate::failure::{Failure, Reason};
use crate::inspect::args::GraphLanguage;
use model::Cluster;

/// More than any picture can show.
const MOST_EDGES: usize = 1_000_000;

/// The graphs of one method, or of all, in a language for pictures.
pub(super) fn draw<B: Bytes>(
    path: &Path,
    pte: &Pte<B>,
    method: Option<&str>,
    language: GraphLanguage,
) -> Result<String, Failure> {
    let plans = choose(pte, method).map_err(|reason| Failure::file(path, reason))?;
    let mut clusters = Vec::new();
    let mut room = MOST_EDGES;
    for plan in &plans {
        for (index, delegate) in plan.delegates.iter().enumerate() {
            let title = format!("{}, delegate {index}", EscapedText::name(&plan.name));
            let cluster = match (pte.graph(delegate.data), pte.xnnpack(delegate.data)) {
                (Some(blob), _) => Some(Cluster::new(title, &blob.graph, room)),
                (None, Some(blob)) => Some(xnnpack::cluster(title, &blob.graph, room)),
                (None, None) => None,
            };
            if let Some(cluster) = cluster {
                let cluster = cluster.ok_or_else(|| Failure::file(path, Reason::Crowded { most: MOST_EDGES }))?;
                room = room.saturating_sub(cluster.edges.len());
                clusters.push(cluster);
            }
        }
    }
    Ok(match language {
        GraphLanguage::Dot => dot::render(&path.display().to_string(), &clusters),
        GraphLanguage::Mermaid => mermaid::render(&path.display().to_string(), &clusters),
    })
}

/// The methods to draw: the named one, or all that have a graph.
fn choose<'a, B: Bytes>(pte: &'a Pte<B>, method: Option<&str>) -> Result<Vec<&'a ExecutionPlan>, Reason> {
    let is_graph = |data| pte.graph(data).is_some() || pte.xnnpack(data).is_some();
    let has_graph = |plan: &ExecutionPlan| plan.delegates.iter().any(|delegate| is_graph(delegate.data));
    let drawable: Vec<&ExecutionPlan> = pte.program().plans.iter().filter(|plan| has_graph(plan)).collect();
    let Some(name) = method else {
        let none = || Reason::NoGraph { what: "the program".to_owned() };
        return if drawable.is_empty() { Err(none()) } else { Ok(drawable) };
    };
    match pte.program().plan(name) {
        Some(plan) if has_graph(plan) => Ok(vec![plan]),
        Some(plan) => Err(Reason::NoGraph { what: format!("method {:?}", plan.name) }),
        None => {
            let names: Vec<_> = drawable.iter().map(|plan| EscapedText::name(&plan.name).to_string()).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Err(Reason::NoMethod { name: name.to_owned(), known })
        }
    }
}
