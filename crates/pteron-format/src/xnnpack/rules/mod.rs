//! Rules about the operands of each kind of node. Ids are indices, and values are valid.

mod images;
mod movement;
mod products;

use super::verify::fail;
use super::*;
use crate::error::{Item, Problem, Result};

pub(super) fn verify(graph: &Graph, index: usize, node: &Node) -> Result<()> {
    let rules = Rules { graph, index, kind: &node.kind };
    rules.output_range(node)?;
    rules.kind()
}

struct Rules<'a> {
    graph: &'a Graph,
    index: usize,
    kind: &'a NodeKind,
}

const ACTIVATIONS: &str = "a float type, qint8 or quint8";

impl<'a> Rules<'a> {
    fn fail<T>(&self, problem: Problem) -> Result<T> {
        fail(Item::Node { index: self.index, kind: self.kind.name() }, problem)
    }

    fn value(&self, id: ValueId) -> &'a Value {
        &self.graph.values[id.index()]
    }

    fn kind(&self) -> Result<()> {
        match *self.kind {
            NodeKind::Unary { op, input, output } => self.unary(op, input, output),
            NodeKind::Softmax { input, output } => {
                self.activations(&[input, output])?;
                self.at_least("the input's rank", self.value(input).dims.len(), 1, "1 or more")?;
                self.equal_dims(input, output)
            }
            NodeKind::Binary { op, inputs: [a, b], output } => {
                let slopes = op == BinaryOp::PRelu && self.value(a).dtype.is_float() && self.value(b).dtype.is_float();
                // Slopes may be floats of another size.
                self.activations(&[a, if slopes { a } else { b }, output])?;
                self.broadcast_rank(a, b, output)
            }
            NodeKind::BatchMatrixMultiply { inputs: [a, b], output, .. } => {
                self.activations(&[a, b, output])?;
                let rank = self.value(a).dims.len().min(self.value(b).dims.len());
                self.at_least("the rank of the matrices", rank, 2, "2 or more")?;
                self.broadcast_rank(a, b, output)
            }
            NodeKind::Convert { input, output } => self.convert(input, output),
            NodeKind::FullyConnected { input, filter, bias, output, transposed_filter } => {
                self.fully_connected(input, filter, bias, output, transposed_filter)
            }
            NodeKind::Convolution(ref params) => self.convolution(params),
            NodeKind::Pool { padding, kernel, stride, dilation, input, output, .. } => {
                self.same_type(&[input, output])?;
                self.window(padding, kernel, stride, dilation)?;
                self.pooled(padding, kernel, dilation, input, output)
            }
            NodeKind::ArgMaxPool { padding, kernel, input, output, indices } => {
                self.arg_max(padding, kernel, input, output, indices)
            }
            NodeKind::GlobalAveragePool { input, output } => {
                self.activations(&[input, output])?;
                let [batch, _, _, channels] = self.image("the input's rank", input)?;
                self.expect_dims(output, &[batch, 1, 1, channels])
            }
            NodeKind::ResizeBilinear { size, input, output, .. } => {
                self.same_type(&[input, output])?;
                self.positive("the new size", &[size.height, size.width])?;
                let [batch, _, _, channels] = self.image("the input's rank", input)?;
                self.expect_dims(output, &[batch, size.height, size.width, channels])
            }
            NodeKind::Concatenate { .. }
            | NodeKind::Transpose { .. }
            | NodeKind::Reshape { .. }
            | NodeKind::Slice { .. }
            | NodeKind::Pad { .. } => self.movement(),
        }
    }

    fn output_range(&self, node: &Node) -> Result<()> {
        let clamps = matches!(node.kind, NodeKind::Unary { op: UnaryOp::Clamp, .. });
        match node.output_range {
            None if clamps => self.fail(Problem::Missing { what: "the output range" }),
            None => Ok(()),
            Some(_) if !node.kind.has_output_range() => {
                let (found, expected) = ("present", "absent on this kind of node");
                self.fail(Problem::Kind { what: "the output range", found, expected })
            }
            Some(OutputRange { min, max }) if min <= max => Ok(()),
            Some(OutputRange { min, max }) => {
                let (found, expected) = (format!("{min} to {max}"), "a minimum that is not above the maximum");
                self.fail(Problem::Number { what: "the output range", found: found.into(), expected })
            }
        }
    }

    fn expect_size(&self, what: &'static str, found: usize, expected: usize) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        self.fail(Problem::Size { what, found: found as u64, expected: expected as u64 })
    }

    fn at_least(&self, what: &'static str, found: usize, least: usize, expected: &'static str) -> Result<()> {
        if found >= least {
            return Ok(());
        }
        self.fail(Problem::Number { what, found: found.to_string().into(), expected })
    }

    fn expect_dim(&self, what: &'static str, found: u32, expected: u64) -> Result<()> {
        if u64::from(found) == expected {
            return Ok(());
        }
        self.fail(Problem::Size { what, found: found.into(), expected })
    }

    fn expect_dims(&self, output: ValueId, expected: &[u32]) -> Result<()> {
        let found = &self.value(output).dims;
        self.expect_size("the output's rank", found.len(), expected.len())?;
        found.iter().zip(expected).try_for_each(|(&found, &dim)| self.expect_dim("a dim of the output", found, dim.into()))
    }

    fn equal_dims(&self, input: ValueId, output: ValueId) -> Result<()> {
        self.expect_dims(output, &self.value(input).dims)
    }

    fn expect_type(&self, what: &'static str, found: DataType, is: bool, expected: &'static str) -> Result<()> {
        if is {
            return Ok(());
        }
        self.fail(Problem::Kind { what, found: found.name(), expected })
    }

    /// The values have one element type, and one that nodes compute with.
    fn activations(&self, ids: &[ValueId]) -> Result<()> {
        let Some(first) = ids.first().map(|&id| self.value(id).dtype) else { return Ok(()) };
        let computes = first.is_float() || matches!(first, DataType::QInt8 | DataType::QUInt8);
        self.expect_type("the input's element type", first, computes, ACTIVATIONS)?;
        ids.iter()
            .map(|&id| self.value(id).dtype)
            .try_for_each(|found| self.expect_type("an operand's element type", found, found == first, first.name()))
    }

    /// The values have one element type, with one scale and zero point.
    fn same_type(&self, ids: &[ValueId]) -> Result<()> {
        self.activations(ids)?;
        let first = ids.first().and_then(|&id| self.value(id).quantization.as_ref());
        if ids.iter().all(|&id| self.value(id).quantization.as_ref() == first) {
            return Ok(());
        }
        let (found, expected) = ("another scale or zero point", "that of the first input");
        self.fail(Problem::Kind { what: "an operand's quantisation", found, expected })
    }

    fn broadcast_rank(&self, a: ValueId, b: ValueId, output: ValueId) -> Result<()> {
        let expected = self.value(a).dims.len().max(self.value(b).dims.len());
        self.expect_size("the output's rank", self.value(output).dims.len(), expected)
    }

    fn unary(&self, op: UnaryOp, input: ValueId, output: ValueId) -> Result<()> {
        match op {
            UnaryOp::Clamp | UnaryOp::Copy => self.same_type(&[input, output])?,
            _ => self.activations(&[input, output])?,
        }
        if let UnaryOp::Elu { alpha: parameter } | UnaryOp::LeakyRelu { slope: parameter } = op
            && !parameter.is_finite()
        {
            let found = parameter.to_string();
            return self.fail(Problem::Number { what: "the parameter", found: found.into(), expected: "a finite number" });
        }
        self.equal_dims(input, output)
    }

    fn convert(&self, input: ValueId, output: ValueId) -> Result<()> {
        let [from, to] = [input, output].map(|id| self.value(id).dtype);
        let quantised = |dtype| matches!(dtype, DataType::QInt8 | DataType::QUInt8);
        self.expect_type("the input's element type", from, from.is_float() || quantised(from), ACTIVATIONS)?;
        let dynamic = to == DataType::QdInt8 && from.is_float();
        let expected = "a float type, qint8 or quint8, or qdint8 of floats";
        self.expect_type("the output's element type", to, to.is_float() || quantised(to) || dynamic, expected)?;
        self.equal_dims(input, output)
    }
}
