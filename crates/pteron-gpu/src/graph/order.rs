//! Ordering invariants between the calls of a decoded graph.

use super::{DecodedGraph, Node, Role};
use crate::error::{Error, OpError, Result};
use crate::live::{ScalarId, TensorId};

impl DecodedGraph {
    /// Checks that everything is written before it is read, constants are never written, and computed tensors are written
    /// once.
    pub(super) fn check_order(&self) -> Result<()> {
        let mut written = vec![false; self.tensors.len()];
        for (id, role) in self.roles.iter().enumerate() {
            written[id] = *role != Role::Computed;
        }
        let fail = |node: &Node, argument, tensor: TensorId, what: &str| {
            Err(OpError::new(argument, format!("is tensor {tensor}, {what}")).of(node.name, node.call).into())
        };
        for node in &self.nodes {
            for &tensor in node.flow.reads.iter().chain(&node.flow.mutates) {
                if !written[tensor.index()] {
                    return fail(node, "input", tensor, "which nothing has computed before");
                }
            }
            for &tensor in &node.flow.writes {
                if self.role(tensor) != Role::Computed {
                    return fail(node, "out", tensor, "which is an input or a constant");
                }
                if std::mem::replace(&mut written[tensor.index()], true) {
                    return fail(node, "out", tensor, "which was computed before");
                }
            }
        }
        self.check_in_place()?;
        self.check_scalars()?;
        match self.outputs.iter().find(|output| !written[output.index()]) {
            None => Ok(()),
            Some(output) => Err(Error::Tensor { tensor: output.0, reason: "is an output, but nothing computes it".into() }),
        }
    }

    /// Checks that a tensor whose memory an operator takes over is computed for that operator alone, with the dims of the output.
    fn check_in_place(&self) -> Result<()> {
        let mut readers = vec![0usize; self.tensors.len()];
        for tensor in self.nodes.iter().flat_map(|node| node.flow.reads.iter().chain(&node.flow.mutates)) {
            readers[tensor.index()] += 1;
        }
        self.outputs.iter().for_each(|output| readers[output.index()] += 1);
        let aliasing =
            self.nodes.iter().filter(|node| node.op.alias().is_some()).filter_map(|node| node.flow.writes.first());
        // A view may be in the memory of a tensor that others read.
        aliasing.for_each(|view| readers[view.index()] += 1);
        for node in &self.nodes {
            for (&source, &out) in node.op.in_place().iter().zip(&node.flow.writes) {
                let alone = self.role(source) == Role::Computed && readers[source.index()] == 1;
                if !alone || self.info(source) != self.info(out) {
                    let reason = format!("is tensor {source}, which is not for this operator alone to change");
                    return Err(OpError::new("input", reason).of(node.name, node.call).into());
                }
            }
        }
        Ok(())
    }

    /// Checks that a symbolic integer is written once, and not read before: otherwise its value would depend on earlier
    /// calls.
    fn check_scalars(&self) -> Result<()> {
        let mut computed = vec![false; self.tensors.len()];
        for scalar in self.nodes.iter().flat_map(|node| &node.flow.scalar_writes) {
            computed[scalar.index()] = true;
        }
        let mut written = vec![false; self.tensors.len()];
        for node in &self.nodes {
            let fail = |argument, scalar: ScalarId, what: &str| {
                let reason = format!("is the symbolic integer {}, {what}", scalar.0);
                Err(OpError::new(argument, reason).of(node.name, node.call).into())
            };
            for &scalar in &node.flow.scalar_reads {
                if computed[scalar.index()] && !written[scalar.index()] {
                    return fail("input", scalar, "which is computed only later");
                }
            }
            for &scalar in &node.flow.scalar_writes {
                if std::mem::replace(&mut written[scalar.index()], true) {
                    return fail("out", scalar, "which was computed before");
                }
            }
        }
        Ok(())
    }
}
