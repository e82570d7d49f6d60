//! Invariants of a graph, checked when one is read and again before one is written.

use super::*;
use crate::error::{Error, Item, Location, Problem, Result, Section};

/// The multiple that a group of 4-bit elements has.
const GROUP_UNIT: u32 = 32;

/// Checks a graph whose own bytes of constants are `stored` long.
pub(crate) fn verify(graph: &Graph, stored: u64) -> Result<()> {
    for (index, constant) in graph.constants.iter().enumerate() {
        // Numbered as in the file, where entry 0 stands for none.
        constant.verify(Item::Entry { kind: "constant", index: index + 1 }, stored)?;
    }
    for (index, value) in graph.values.iter().enumerate() {
        ValueVerifier { graph, index, value }.verify()?;
    }
    verify_externals(graph)?;
    verify_order(graph)?;
    graph.nodes.iter().enumerate().try_for_each(|(index, node)| rules::verify(graph, index, node))
}

pub(super) fn fail<T>(item: Item, problem: Problem) -> Result<T> {
    Err(Error::new(Location { section: Section::Graph, item }, problem))
}

/// No two values are one argument, and all arguments are among those the graph declares.
fn verify_externals(graph: &Graph) -> Result<()> {
    let (found, limit) = (graph.external_count.into(), MAX_EXTERNALS.into());
    if found > limit {
        return fail(Item::Whole, Problem::TooMany { what: "the number of externals", found, limit });
    }
    let mut seen = vec![false; graph.external_count as usize];
    for (id, external) in graph.externals() {
        let item = || Item::Value(id.index());
        match seen.get_mut(external.index as usize) {
            None => {
                return fail(
                    item(),
                    Problem::Index { what: "its external index", index: external.index.into(), len: found },
                );
            }
            Some(seen) if *seen => {
                return fail(item(), Problem::Duplicate { what: "the external index", name: external.index.to_string() });
            }
            Some(seen) => *seen = true,
        }
    }
    Ok(())
}

/// Values are written once and before they are read.
fn verify_order(graph: &Graph) -> Result<()> {
    let input = |value: &Value| value.external.is_some_and(|external| !external.output);
    let mut defined: Vec<bool> = graph.values.iter().map(|value| value.constant.is_some() || input(value)).collect();
    for (index, node) in graph.nodes.iter().enumerate() {
        let item = || Item::Node { index, kind: node.kind.name() };
        let len = graph.values.len() as u64;
        for id in node.kind.inputs() {
            let problem = match defined.get(id.index()) {
                Some(true) => continue,
                Some(false) => Problem::Undefined { what: "an input", id: id.0 },
                None => Problem::Index { what: "an input", index: id.0.into(), len },
            };
            return fail(item(), problem);
        }
        for id in node.kind.outputs() {
            let problem = match defined.get_mut(id.index()) {
                Some(defined) if !*defined => {
                    *defined = true;
                    continue;
                }
                Some(_) => Problem::Duplicate { what: "the definition of value", name: id.0.to_string() },
                None => Problem::Index { what: "an output", index: id.0.into(), len },
            };
            return fail(item(), problem);
        }
    }
    match graph.externals().find(|(id, _)| !defined[id.index()]) {
        None => Ok(()),
        Some((id, _)) => fail(Item::Value(id.index()), Problem::Missing { what: "the node that writes this output" }),
    }
}

struct ValueVerifier<'a> {
    graph: &'a Graph,
    index: usize,
    value: &'a Value,
}

impl ValueVerifier<'_> {
    fn fail<T>(&self, problem: Problem) -> Result<T> {
        fail(Item::Value(self.index), problem)
    }

    fn verify(&self) -> Result<()> {
        let rank = self.value.dims.len();
        if rank > MAX_RANK {
            let (found, limit) = (rank as u64, MAX_RANK as u64);
            return self.fail(Problem::TooMany { what: "the tensor's rank", found, limit });
        }
        if rank == 0 && self.value.dtype.is_4bit() {
            return self.fail(Problem::Missing { what: "a dim of 4-bit elements" });
        }
        let Some(expected) = self.value.byte_len() else {
            return self.fail(Problem::Overflow { what: "the tensor's size" });
        };
        if let Some(id) = self.value.constant {
            self.constant(id, "its constant's id", "its constant's length in bytes", expected)?;
        }
        self.source()?;
        match &self.value.quantization {
            None if self.value.dtype.is_quantized() => self.fail(Problem::Missing { what: "its quantisation" }),
            None => Ok(()),
            Some(quantization) => self.quantization(quantization),
        }
    }

    fn constant(&self, id: ConstantId, what: &'static str, length: &'static str, expected: u64) -> Result<()> {
        let len = self.graph.constants.len() as u64;
        match self.graph.constants.get(id.index()) {
            // As in the file.
            None => self.fail(Problem::Index { what, index: i64::from(id.0) + 1, len: len + 1 }),
            Some(constant) if constant.len != expected => {
                self.fail(Problem::Size { what: length, found: constant.len, expected })
            }
            Some(_) => Ok(()),
        }
    }

    /// A value is a constant, an argument or neither, as its type allows.
    fn source(&self) -> Result<()> {
        use DataType as D;
        let kind = |found, expected| self.fail(Problem::Kind { what: "the value", found, expected });
        let found = match (self.value.constant, self.value.external) {
            (Some(_), Some(_)) => return kind("a constant and external", "one of the two"),
            (Some(_), None) => "a constant",
            (None, Some(_)) => "external",
            (None, None) => "neither a constant nor external",
        };
        let dtype = self.value.dtype;
        match dtype {
            D::QcInt8 | D::QcInt32 | D::QcInt4 | D::QbInt4 | D::QInt32 if self.value.constant.is_none() => {
                kind(found, "a constant, as its element type is one of weights and biases")
            }
            D::QdInt8 if self.value.constant.is_some() || self.value.external.is_some() => {
                kind(found, "written by a node, as its element type is qdint8")
            }
            _ => Ok(()),
        }
    }

    fn quantization(&self, quantization: &Quantization) -> Result<()> {
        use DataType as D;
        let expected = match self.value.dtype {
            D::QInt8 | D::QUInt8 | D::QInt32 => "per tensor",
            D::QcInt8 | D::QcInt32 | D::QcInt4 => "per channel",
            D::QdInt8 => "per token",
            D::QbInt4 => "per group",
            D::Float32 | D::Float16 | D::BFloat16 | D::Int32 => "none for its element type",
        };
        if quantization.name() != expected {
            return self.fail(Problem::Kind { what: "its quantisation", found: quantization.name(), expected });
        }
        match quantization {
            Quantization::PerTensor { scale, zero_point } => self.per_tensor(*scale, *zero_point),
            Quantization::PerToken { row_dims } => {
                let (found, limit) = (u64::from(*row_dims), self.value.dims.len() as u64);
                match *row_dims {
                    0 => self.fail(Problem::Missing { what: "the dims of a row" }),
                    _ if found > limit => self.fail(Problem::TooMany { what: "the number of dims in a row", found, limit }),
                    _ => Ok(()),
                }
            }
            Quantization::PerChannel { axis, scales } => {
                let channels = self.channels(*axis)?;
                self.scales(scales, channels.into(), size_of::<f32>() as u64)
            }
            Quantization::PerGroup { axis, group_size, scales } => self.per_group(*axis, *group_size, scales),
        }
    }

    fn per_tensor(&self, scale: f32, zero_point: i32) -> Result<()> {
        self.scale(scale)?;
        let (range, expected) = match self.value.dtype {
            DataType::QUInt8 => (0..=255, "0 to 255"),
            DataType::QInt8 => (-128..=127, "-128 to 127"),
            _ => (0..=0, "0"),
        };
        if range.contains(&zero_point) {
            return Ok(());
        }
        self.fail(Problem::Number { what: "its zero point", found: zero_point.to_string().into(), expected })
    }

    /// The dims are rows of whole groups.
    fn per_group(&self, axis: u32, group_size: u32, scales: &Scales) -> Result<()> {
        let &[rows, width] = self.value.dims.as_slice() else {
            let found = self.value.dims.len() as u64;
            return self.fail(Problem::Size { what: "the rank of a tensor with groups", found, expected: 2 });
        };
        if axis != 0 {
            return self.fail(Problem::Size { what: "the dim of channels", found: axis.into(), expected: 0 });
        }
        if group_size == 0 || !group_size.is_multiple_of(GROUP_UNIT) || !width.is_multiple_of(group_size) {
            let expected = "a multiple of 32 that divides the width";
            return self.fail(Problem::Number {
                what: "the size of a group",
                found: group_size.to_string().into(),
                expected,
            });
        }
        // In the tables they are float32; constants hold the upper half of each.
        self.scales(scales, u64::from(rows) * u64::from(width / group_size), size_of::<u16>() as u64)
    }

    fn channels(&self, axis: u32) -> Result<u32> {
        match self.value.dims.get(axis as usize) {
            Some(&channels) => Ok(channels),
            None => {
                let len = self.value.dims.len() as u64;
                self.fail(Problem::Index { what: "the dim of channels", index: axis.into(), len })
            }
        }
    }

    fn scales(&self, scales: &Scales, expected: u64, size: u64) -> Result<()> {
        let found = scales.count();
        if found != expected {
            return self.fail(Problem::Size { what: "the number of its scales", found, expected });
        }
        match scales {
            Scales::Inline(scales) => scales.iter().try_for_each(|&scale| self.scale(scale)),
            Scales::Constant { id, .. } => {
                self.constant(*id, "the id of its scales", "the length of its scales in bytes", found * size)
            }
        }
    }

    fn scale(&self, scale: f32) -> Result<()> {
        if scale.is_finite() && scale > 0.0 {
            return Ok(());
        }
        self.fail(Problem::Number {
            what: "its scale",
            found: scale.to_string().into(),
            expected: "a finite number above 0",
        })
    }
}
