//! Rules about an XNNPACK delegate's graph.

mod blob;
mod calls;
mod nodes;
mod values;

use pteron_format::xnnpack::{Graph, NodeKind, Value, read_blob, write_blob};
use pteron_format::{Pte, fuzzing, write};

use crate::common::check;
use crate::common::xnnpack::{Build, program_of, sample};
use crate::{Fault, assert_fault};

type Rule = (&'static str, fn(&mut Graph), Fault);

/// A graph is rejected when it is read alone, when it is written, and inside a program, where the location names the delegate.
fn check_rules(rules: &[Rule]) {
    for (rule, change, expected) in rules {
        let Build { mut graph, stored } = sample();
        change(&mut graph);
        let blob = fuzzing::write_xnnpack_blob(&graph, &stored).unwrap();
        assert_blob_refused(&blob, expected, rule);
        assert_fault(&write_blob(&graph, &stored).unwrap_err(), expected, rule);
    }
}

/// The same for a blob that no typed graph can be.
#[track_caller]
fn assert_blob_refused(blob: &[u8], expected: &Fault, rule: &str) {
    let (read, _) = check::reading(blob.len(), || read_blob(blob));
    assert!(read.is_none(), "{rule}: accepted");
    assert_fault(&read_blob(blob).unwrap_err(), expected, rule);
    let file = write(&program_of(blob.to_vec())).unwrap();
    let error = Pte::read(file.as_slice()).unwrap_err();
    let place = error.location.to_string();
    let inside = place.strip_prefix(r#"method "forward", graph of delegate 0"#);
    assert_eq!((inside, &error.problem), (expected.place.strip_prefix("graph"), &expected.problem), "{rule}");
}

/// The first node of a kind.
fn node<'a>(graph: &'a mut Graph, name: &str) -> &'a mut NodeKind {
    &mut graph.nodes.iter_mut().find(|node| node.kind.name() == name).expect("the sample has every kind").kind
}

/// The value that the first node of a kind writes.
fn output<'a>(graph: &'a mut Graph, name: &str) -> &'a mut Value {
    let id = node(graph, name).outputs().next().expect("every node writes something");
    &mut graph.values[id.index()]
}
