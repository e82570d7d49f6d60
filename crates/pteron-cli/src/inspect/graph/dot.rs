//! The DOT language of Graphviz.

use super::model::{Kind, Picture};

const HEAD: &str = "  rankdir=TB;
  node [fontname=\"Helvetica\", fontsize=11];
  edge [fontname=\"Helvetica\", fontsize=9, color=\"#667788\"];
";

pub(super) fn render(title: &str, picture: &Picture) -> String {
    let mut out = format!("digraph {} {{\n{HEAD}", quote(title));
    for (index, cluster) in picture.clusters.iter().enumerate() {
        out += &format!("  subgraph cluster_{index} {{\n    label={};\n", quote(cluster));
        for (number, node) in picture.nodes_of(index) {
            let label = quote(&node.lines.join("\n"));
            out += &format!("    {} [label={label}, {}];\n", picture.name(number), look(node.kind));
        }
        out += "  }\n";
    }
    for edge in &picture.edges {
        let dashes = if edge.is_tensor { "" } else { ", style=dashed" };
        let (from, to) = (picture.name(edge.from), picture.name(edge.to));
        out += &format!("  {from} -> {to} [label={}{dashes}];\n", quote(&edge.label));
    }
    out += "}\n";
    out
}

fn look(kind: Kind) -> &'static str {
    match kind {
        Kind::Call => "shape=box, style=\"rounded,filled\", fillcolor=\"#eef4ff\"",
        Kind::Host => "shape=box, style=filled, fillcolor=\"#f3e3ff\"",
        Kind::Jump => "shape=diamond, style=filled, fillcolor=\"#f3e3ff\"",
        Kind::Input => "shape=invhouse, style=filled, fillcolor=\"#d9f2d9\"",
        Kind::Output => "shape=house, style=filled, fillcolor=\"#ffe3cc\"",
        Kind::Constant => "shape=note, style=filled, fillcolor=\"#f2f2f2\"",
        Kind::State => "shape=cylinder, style=filled, fillcolor=\"#fff3b0\"",
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
