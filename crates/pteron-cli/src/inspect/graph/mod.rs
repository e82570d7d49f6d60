//! A picture of methods as they run: delegates of every backend and kernel calls joined into GPU graphs, before operators are
//! fused, and the host's steps between them.

mod dot;
mod gpu;
mod mermaid;
mod method;
mod model;

use std::path::Path;

use pteron_format::program::ExecutionPlan;
use pteron_format::{Bytes, EscapedText, Pte};

use crate::failure::{Failure, Reason};
use crate::inspect::args::GraphLanguage;
use model::Picture;

/// Draws one method, or all, in a graph language.
pub(super) fn draw<B: Bytes>(
    path: &Path,
    pte: &Pte<B>,
    method: Option<&str>,
    language: GraphLanguage,
) -> Result<String, Failure> {
    let fail = |reason| Failure::file(path, reason);
    let mut picture = Picture::default();
    for plan in choose(pte, method).map_err(fail)? {
        method::add(&mut picture, pte, plan).map_err(fail)?;
    }
    let title = path.display().to_string();
    Ok(match language {
        GraphLanguage::Dot => dot::render(&title, &picture),
        GraphLanguage::Mermaid => mermaid::render(&title, &picture),
    })
}

/// The methods to draw: the named one, or all that compute.
fn choose<'a, B: Bytes>(pte: &'a Pte<B>, method: Option<&str>) -> Result<Vec<&'a ExecutionPlan>, Reason> {
    let computing: Vec<&ExecutionPlan> = pte.program().plans.iter().filter(|plan| !plan.is_constant()).collect();
    let Some(name) = method else {
        let none = || Reason::NoGraph { what: "the program".to_owned() };
        return if computing.is_empty() { Err(none()) } else { Ok(computing) };
    };
    match pte.program().plan(name) {
        Some(plan) if !plan.is_constant() => Ok(vec![plan]),
        Some(plan) => Err(Reason::NoGraph { what: format!("method {:?}", plan.name) }),
        None => {
            let names: Vec<_> = computing.iter().map(|plan| EscapedText::name(&plan.name).to_string()).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Err(Reason::NoMethod { name: name.to_owned(), known })
        }
    }
}
