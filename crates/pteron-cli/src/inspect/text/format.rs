//! Formats shapes, values and bars.

use crate::inspect::report::{Argument, ArgumentTensor, Literal};

/// A shape: `1 × 128 × 64`; a tensor without dimensions is a scalar.
pub(super) fn shape(dims: &[u32]) -> String {
    join(dims.iter().map(ToString::to_string))
}

/// A shape with its bounds: where sizes may be smaller, every one above 1 is marked, since the file does not say which move.
pub(super) fn bounded(tensor: &ArgumentTensor) -> String {
    join(tensor.shape.iter().map(|&dim| match tensor.dynamism {
        "bound" if dim > 1 => format!("≤{dim}"),
        "unbound" => "?".to_owned(),
        _ => dim.to_string(),
    }))
}

fn join(dims: impl Iterator<Item = String>) -> String {
    let dims: Vec<_> = dims.collect();
    if dims.is_empty() { "scalar".to_owned() } else { dims.join(" × ") }
}

/// Type and shape of a method's argument.
pub(super) fn argument(argument: &Argument) -> (&str, String) {
    match &argument.tensor {
        Some(tensor) => (tensor.dtype, bounded(tensor)),
        None => (argument.kind, String::new()),
    }
}

pub(super) fn literal(value: &Literal) -> String {
    let list = |items: &[Literal]| format!("[{}]", items.iter().map(literal).collect::<Vec<_>>().join(", "));
    match value {
        Literal::Null => "None".to_owned(),
        Literal::Bool(value) => value.to_string(),
        Literal::Int(value) => value.to_string(),
        Literal::Float(value) => format!("{value:?}"),
        Literal::Text(value) => format!("{value:?}"),
        Literal::List(items) => list(items),
        Literal::Tensor { dtype, shape: dims, elements } => {
            let values = elements.as_deref().map(list).unwrap_or_default();
            format!("{dtype} {} {values}", shape(dims)).trim_end().to_owned()
        }
    }
}

/// A bar of `part / whole` of `width` characters, in eighths.
pub(super) fn bar(part: usize, whole: usize, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part.saturating_mul(width * 8) / whole.max(1)).clamp(1, width * 8);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(dynamism: &'static str) -> ArgumentTensor {
        ArgumentTensor { name: None, dtype: "int64", shape: vec![1, 127], dynamism, bytes: 1016 }
    }

    #[test]
    fn shapes_show_their_bounds() {
        assert_eq!(bounded(&tensor("static")), "1 × 127");
        assert_eq!(bounded(&tensor("bound")), "1 × ≤127");
        assert_eq!(bounded(&tensor("unbound")), "? × ?");
        assert_eq!(shape(&[]), "scalar");
    }

    #[test]
    fn values_look_as_in_python() {
        assert_eq!(literal(&Literal::List(vec![Literal::Int(2), Literal::Int(3)])), "[2, 3]");
        assert_eq!(literal(&Literal::Float(1.0)), "1.0");
        assert_eq!(literal(&Literal::Text("a\n".to_owned())), "\"a\\n\"");
        let elements = Some(vec![Literal::Int(7)]);
        assert_eq!(literal(&Literal::Tensor { dtype: "int64", shape: vec![1], elements }), "int64 1 [7]");
        assert_eq!(literal(&Literal::Tensor { dtype: "int64", shape: vec![99], elements: None }), "int64 99");
    }

    #[test]
    fn bars_are_never_empty_nor_too_long() {
        assert_eq!(bar(1, 1, 3), "███");
        assert_eq!(bar(1, 1000, 3), "▏");
        assert_eq!(bar(1, 2, 3), "█▌");
        assert_eq!(bar(usize::MAX, 1, 3), "███");
        assert_eq!(bar(0, 0, 3), "▏");
    }
}
