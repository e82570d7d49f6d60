//! Drawings of graphs: complete, and every edge connects existing nodes.

use std::collections::BTreeSet;

use super::{programs, pteron};

/// Runs over all fixtures that have a graph.
fn each(language: &str, check: impl Fn(&str, &str)) {
    let mut drawn = 0;
    for path in programs() {
        let run = pteron(["inspect", &path, "--graph", language]);
        match run.code {
            Some(0) => {
                check(&path, &run.out);
                drawn += 1;
            }
            _ => {
                let reasons = ["computes nothing, so there is no graph to draw", "is not supported"];
                assert!(reasons.iter().any(|reason| run.err.contains(reason)), "{path}: {}", run.err);
            }
        }
    }
    // A handful of fixtures have no graph, or calls that are rejected.
    assert!(drawn + 20 > programs().len(), "{drawn} of {}", programs().len());
}

/// Text outside quoted strings, where brackets must pair.
fn unquoted(text: &str, escapes: bool) -> String {
    let mut out = String::new();
    let mut characters = text.chars();
    let mut quoted = false;
    while let Some(character) = characters.next() {
        match character {
            '"' => quoted = !quoted,
            '\\' if quoted && escapes => drop(characters.next()),
            _ if !quoted => out.push(character),
            _ => {}
        }
    }
    assert!(!quoted, "a string does not end");
    out
}

fn expect_edges(path: &str, nodes: &BTreeSet<String>, edges: &[(String, String)]) {
    for (from, to) in edges {
        assert!(nodes.contains(from) && nodes.contains(to), "{path}: {from} to {to}");
    }
}

#[test]
fn dot_is_whole() {
    each("dot", |path, text| {
        let bare = unquoted(text, true);
        for (open, close) in [('{', '}'), ('[', ']')] {
            assert_eq!(bare.matches(open).count(), bare.matches(close).count(), "{path}: {open}{close}");
        }
        assert!(text.starts_with("digraph ") && text.ends_with("}\n"), "{path}");
        let (mut nodes, mut edges) = (BTreeSet::new(), Vec::new());
        for line in bare.lines().map(str::trim).filter(|line| line.starts_with("g")) {
            let words: Vec<_> = line.split_whitespace().collect();
            match words[..] {
                [from, "->", to, ..] => edges.push((from.to_owned(), to.to_owned())),
                [node, ..] => assert!(nodes.insert(node.to_owned()), "{path}: {node} twice"),
                [] => {}
            }
        }
        expect_edges(path, &nodes, &edges);
        assert!(nodes.len() >= 2 || edges.is_empty(), "{path}");
    });
}

#[test]
fn mermaid_is_whole() {
    each("mermaid", |path, text| {
        let bare = unquoted(text, false);
        for (open, close) in [('[', ']'), ('(', ')')] {
            assert_eq!(bare.matches(open).count(), bare.matches(close).count(), "{path}: {open}{close}");
        }
        let lines: Vec<_> = bare.lines().map(str::trim).collect();
        let count = |word: &str| lines.iter().filter(|line| line.split(' ').next() == Some(word)).count();
        assert_eq!((count("flowchart"), count("subgraph")), (1, count("end")), "{path}");
        let (mut nodes, mut edges) = (BTreeSet::new(), Vec::new());
        for line in lines.iter().filter(|line| line.starts_with('g')) {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                [from, arrow, to] if arrow.contains("->|") => edges.push((from.to_owned(), to.to_owned())),
                [node] => {
                    let end = node.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(node.len());
                    assert!(nodes.insert(node[..end].to_owned()), "{path}: {node} twice");
                }
                ref other => panic!("{path}: {other:?}"),
            }
        }
        expect_edges(path, &nodes, &edges);
    });
}

#[test]
fn a_method_can_be_chosen() {
    let path = "fixtures/ops/two_methods/program.pte";
    let all = pteron(["inspect", path, "--graph", "dot"]).out;
    let labels = all.lines().filter_map(|line| line.trim().strip_prefix("label=\"")?.split(':').next());
    let names: Vec<_> = labels.filter(|label| !label.contains(',')).collect();
    assert_eq!(names.len(), 2, "{all}");
    let one = pteron(["inspect", path, "--graph", "dot", "--method", names[1]]).out;
    assert!(one.contains(&format!("label=\"{}, graph 0 of 1 on the GPU", names[1])), "{one}");
    assert!(!one.contains(&format!("label=\"{}", names[0])), "{one}");
    let run = pteron(["inspect", path, "--graph", "dot", "--method", "nothing"]);
    assert_eq!(run.code, Some(1));
    let known = names.join(", ");
    assert_eq!(run.err, format!("error: {path}: it has no method \"nothing\"; its methods with a graph are: {known}\n"));
}

/// One graph of an XNNPACK delegate, jumps between GPU graphs, and a kernel on the host.
#[test]
fn pictures_look_like_this() {
    for (name, folder) in
        [("xnnpack", "xnnpack/xnnpack_fp32_linear"), ("branch", "ops/branch"), ("host", "ops/portable_nonzero")]
    {
        let path = &format!("fixtures/{folder}/program.pte");
        let run = pteron(["inspect", path, "--graph", "mermaid"]);
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{path}");
        insta::assert_snapshot!(format!("graph_{name}"), run.out);
    }
}

#[test]
fn a_constant_method_has_no_picture() {
    let path = "fixtures/ops/constant_methods/program.pte";
    let run = pteron(["inspect", path, "--graph", "mermaid", "--method", "get_eos_ids"]);
    assert_eq!(run.code, Some(1));
    let reason = "method \"get_eos_ids\" computes nothing, so there is no graph to draw";
    assert_eq!(run.err, format!("error: {path}: {reason}\n"));
}
