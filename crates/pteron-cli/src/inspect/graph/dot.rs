//! The DOT language of Graphviz.

use super::model::{Cluster, Kind};

const HEAD: &str = "  rankdir=TB;
  node [fontname=\"Helvetica\", fontsize=11];
  edge [fontname=\"Helvetica\", fontsize=9, color=\"#667788\"];
";

pub(super) fn render(title: &str, clusters: &[Cluster]) -> String {
    let mut out = format!("digraph {} {{\n{HEAD}", quote(title));
    for (index, cluster) in clusters.iter().enumerate() {
        out += &format!("  subgraph cluster_{index} {{\n    label={};\n", quote(&cluster.title));
        for (number, node) in cluster.nodes.iter().enumerate() {
            let label = quote(&node.lines.join("\n"));
            out += &format!("    g{index}n{number} [label={label}, {}];\n", look(node.kind));
        }
        for edge in &cluster.edges {
            let dashes = if edge.is_tensor { "" } else { ", style=dashed" };
            out += &format!("    g{index}n{} -> g{index}n{} [label={}{dashes}];\n", edge.from, edge.to, quote(&edge.label));
        }
        out += "  }\n";
    }
    out += "}\n";
    out
}

fn look(kind: Kind) -> &'static str {
    match kind {
        Kind::Call => "shape=box, style=\"rounded,filled\", fillcolor=\"#eef4ff\"",
        Kind::Input => "shape=invhouse, style=filled, fillcolor=\"#d9f2d9\"",
        Kind::Output => "shape=house, style=filled, fillcolor=\"#ffe3cc\"",
        Kind::Constant => "shape=note, style=filled, fillcolor=\"#f2f2f2\"",
        Kind::State => "shape=cylinder, style=filled, fillcolor=\"#fff3b0\"",
        Kind::Loose => "shape=ellipse, style=dashed",
    }
}

/// Quotes a string. Line breaks are kept; other control characters are replaced.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            control if control.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_cannot_be_left() {
        assert_eq!(quote("a\"b\\c\nd\u{1b}"), "\"a\\\"b\\\\c\\nd\u{fffd}\"");
    }
}
