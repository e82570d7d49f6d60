//! Keeps `docs/operators.md` in sync with the registry and the exported programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use super::operators::{Fixture, fixture_graphs, samples};
use crate::ir::{self, Value};
use crate::ops::{OPS, OpDef};

/// The test coverage of an operator.
#[derive(Default)]
struct Tested {
    elements: BTreeSet<&'static str>,
    cases: usize,
    at_live_shapes: usize,
    by_hand: usize,
}

/// The element types of a call's tensors, including those in lists.
fn elements(graph: &ir::Graph, call: &ir::Call) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    for id in &call.args {
        match graph.value(*id) {
            Some(Value::Tensor(tensor)) => drop(found.insert(tensor.dtype.name())),
            Some(Value::ValueList(ids)) => {
                let tensors = ids.iter().filter_map(|id| graph.value(*id).and_then(Value::as_tensor));
                found.extend(tensors.map(|tensor| tensor.dtype.name()));
            }
            _ => {}
        }
    }
    found
}

/// Whether calls differ in shape.
fn is_live(fixture: &Fixture) -> bool {
    let shapes = fixture.calls.iter().map(|inputs| inputs.iter().map(|input| input.dims).collect::<Vec<_>>());
    shapes.collect::<std::collections::HashSet<_>>().len() > 1
}

fn tested() -> BTreeMap<String, Tested> {
    let mut all: BTreeMap<String, Tested> = BTreeMap::new();
    for fixture in fixture_graphs().iter().filter(|fixture| !fixture.calls.is_empty()) {
        let graph = &fixture.builder.graph;
        let mut seen = BTreeSet::new();
        for call in &graph.calls {
            let tested = all.entry(call.name.to_owned()).or_default();
            tested.elements.extend(elements(graph, call));
            if seen.insert(call.name) {
                tested.cases += 1;
                tested.at_live_shapes += usize::from(is_live(fixture));
            }
        }
    }
    for (builder, _) in samples() {
        for call in &builder.graph.calls {
            let tested = all.entry(call.name.to_owned()).or_default();
            tested.elements.extend(elements(&builder.graph, call));
            tested.by_hand += 1;
        }
    }
    all
}

fn page() -> String {
    let tested = tested();
    let in_files = |def: &&'static OpDef| def.names.iter().copied().filter(|name| def.is_in_files(name)).collect::<Vec<_>>();
    let names: BTreeSet<&str> = OPS.iter().flat_map(in_files).collect();
    let mut page = format!(
        "# Operators\n\nThe {} operators that a program may call, listed from the registry by a test \
         (`PTERON_BLESS=1 cargo test -p pteron-gpu --lib docs`). Each supports every live shape within the program's bounds. \
         *Elements* are the element types that tests cover, *cases* the exported programs with PyTorch's results that call the \
         operator, *at several shapes* those that call it at more than one shape; *by hand* counts graphs in \
         `src/tests/operators.rs`. Unsupported arguments are rejected at load, by argument and value.\n\n\
         | operator | elements | cases | at several shapes | by hand |\n|---|---|---:|---:|---:|\n",
        names.len()
    );
    let nothing = Tested::default();
    for name in names {
        let Tested { elements, cases, at_live_shapes, by_hand } = tested.get(name).unwrap_or(&nothing);
        let elements = elements.iter().copied().collect::<Vec<_>>().join(", ");
        writeln!(page, "| `{name}` | {elements} | {cases} | {at_live_shapes} | {by_hand} |").unwrap();
    }
    page
}

#[test]
fn operators_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operators.md");
    let page = page();
    if std::env::var_os("PTERON_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/operators.md is not current: run this test once with PTERON_BLESS=1");
}
