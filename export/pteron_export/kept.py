"""Exports operators that the delegate's graph can hold, but that this ExecuTorch rewrites, removes or leaves outside.

Files of other versions, and graphs written by hand, have them; a runtime that knows the operators must be tested with
them. All that follows only keeps a node that ExecuTorch would have changed: what it writes for the node is its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from executorch.backends.vulkan._passes.remove_redundant_ops import RemoveRedundantOpsTransform
from executorch.backends.vulkan.op_registry import vulkan_supported_ops
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, to_edge
from executorch.exir.backend.partitioner import Partitioner
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import ExportPass, PassResult
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import GraphModule

# Operators that no partitioner takes, and the ones whose dtypes and ranks they share.
SIBLINGS = {"aten.ne.Tensor": "aten.eq.Tensor"}

# PyTorch takes this one apart while it traces, before ExecuTorch could keep it; of an operator
# that it does not know it sees nothing but the shape.
LIBRARY = torch.library.Library("pteron_export", "DEF")
LIBRARY.define("hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor")
LIBRARY.impl("hardshrink", torch.ops.aten.hardshrink.default, "CPU")
LIBRARY.impl("hardshrink", lambda self, lambd=0.5: torch.empty_like(self), "Meta")


def hardshrink(x: Tensor, lambd: float) -> Tensor:
    return torch.ops.pteron_export.hardshrink(x, lambd)


def edge_operator(name: str) -> Any:
    return _operator(exir_ops.edge, name)


def lower_keeping(
    names: Sequence[str],
    exported: dict[str, ExportedProgram],
    partitioners: Sequence[Partitioner],
    constant_methods: Mapping[str, Any],
    config: EdgeCompileConfig,
) -> EdgeProgramManager:
    config.preserve_ops = [_operator(torch.ops, name) for name in names]
    # With a partitioner, `to_edge_transform_and_lower` would not look at `preserve_ops`.
    edge = to_edge(exported, dict(constant_methods) or None, config).transform([_NameEdgeOperators()])
    with _accepting(names):
        for partitioner in partitioners:
            edge = edge.to_backend(partitioner)
    return edge


class _NameEdgeOperators(ExportPass):
    """Gives a node the operator that the partitioner looks for."""

    def call(self, graph_module: GraphModule) -> PassResult:
        wanted = {
            # ExecuTorch leaves this one in the ATen dialect, where the partitioner does not know it.
            torch.ops.aten.scalar_tensor.default: edge_operator("aten.scalar_tensor.default"),
            edge_operator("pteron_export.hardshrink.default"): edge_operator("aten.hardshrink.default"),
        }
        for node in graph_module.graph.nodes:
            node.target = wanted.get(node.target, node.target)
        graph_module.recompile()
        return PassResult(graph_module, True)


@contextmanager
def _accepting(names: Sequence[str]) -> Iterator[None]:
    """Neither leaves these operators to others nor takes them out where they change nothing."""
    redundant = RemoveRedundantOpsTransform.redundant_ops
    added = {edge_operator(name): edge_operator(SIBLINGS[name]) for name in names if name in SIBLINGS}
    RemoveRedundantOpsTransform.redundant_ops = redundant - {edge_operator(name) for name in names}
    vulkan_supported_ops.update({operator: vulkan_supported_ops[sibling] for operator, sibling in added.items()})
    try:
        yield
    finally:
        RemoveRedundantOpsTransform.redundant_ops = redundant
        for operator in added:
            del vulkan_supported_ops[operator]


def _operator(root: Any, name: str) -> Any:
    namespace, operator, overload = name.split(".")
    return getattr(getattr(getattr(root, namespace), operator), overload)
