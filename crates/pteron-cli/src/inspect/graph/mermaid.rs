//! Mermaid, which Markdown viewers draw.

use super::model::{Kind, Picture};

/// The most edges that Mermaid draws by default.
const MOST_EDGES: usize = 500;

const LOOKS: &str = "  classDef call fill:#eef4ff,stroke:#5577aa
  classDef input fill:#d9f2d9,stroke:#4a8a4a
  classDef output fill:#ffe3cc,stroke:#b0723a
  classDef constant fill:#f2f2f2,stroke:#888888
  classDef state fill:#fff3b0,stroke:#a08a20
  classDef host fill:#f3e3ff,stroke:#8855aa
";

pub(super) fn render(title: &str, picture: &Picture) -> String {
    let edges = picture.edges.len();
    let mut out = format!("%% {}\n", title.replace(char::is_control, " "));
    if edges > MOST_EDGES {
        out += &format!("%% {edges} edges: raise maxEdges and maxTextSize in Mermaid's configuration\n");
    }
    out += "flowchart TD\n";
    for (index, cluster) in picture.clusters.iter().enumerate() {
        out += &format!("  subgraph g{index}[{}]\n", quote(cluster));
        for (number, node) in picture.nodes_of(index) {
            let label = node.lines.iter().map(|line| escape(line)).collect::<Vec<_>>().join("<br/>");
            out += &format!("    {}{}\n", picture.name(number), shape(node.kind, &label));
        }
        out += "  end\n";
    }
    for edge in &picture.edges {
        let arrow = if edge.is_tensor { "-->" } else { "-.->" };
        let (from, to) = (picture.name(edge.from), picture.name(edge.to));
        out += &format!("  {from} {arrow}|{}| {to}\n", quote(&edge.label));
    }
    out + LOOKS
}

/// A label in the shape of its kind, and the class that colours it.
fn shape(kind: Kind, label: &str) -> String {
    match kind {
        Kind::Call => format!("(\"{label}\"):::call"),
        Kind::Host => format!("[[\"{label}\"]]:::host"),
        Kind::Jump => format!("{{\"{label}\"}}:::host"),
        Kind::Input => format!("[\\\"{label}\"/]:::input"),
        Kind::Output => format!("[/\"{label}\"\\]:::output"),
        Kind::Constant => format!("[\"{label}\"]:::constant"),
        Kind::State => format!("[(\"{label}\")]:::state"),
    }
}

fn quote(text: &str) -> String {
    format!("\"{}\"", escape(text))
}

/// Escapes Mermaid's syntax characters as numbered entities: Mermaid has no backslash escapes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '#' | '&' | '<' | '>' | '`' | '\\' | '|' | ';' => out.push_str(&format!("#{};", u32::from(character))),
            control if control.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_cannot_be_left() {
        assert_eq!(quote("a\"b#c<d>\n"), "\"a#34;b#35;c#60;d#62; \"");
    }
}
