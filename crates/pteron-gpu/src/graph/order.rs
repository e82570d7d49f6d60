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
        self.check_scalars()?;
        match self.outputs.iter().find(|output| !written[output.index()]) {
            None => Ok(()),
            Some(output) => Err(Error::Tensor { tensor: output.0, reason: "is an output, but nothing computes it".into() }),
        }
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
