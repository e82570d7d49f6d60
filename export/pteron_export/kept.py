"""Exports operators that the delegate's graph can hold, but that this ExecuTorch rewrites, removes or leaves outside.

Files of other versions, and graphs written by hand, have them; a runtime that knows the operators must be tested with
them. All that follows only keeps a node that ExecuTorch would have changed: what it writes for the node is its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import executorch.backends.vulkan.custom_ops_lib  # noqa: F401
import torch
from executorch.backends.vulkan._passes.remove_redundant_ops import RemoveRedundantOpsTransform
from executorch.backends.vulkan.op_registry import vulkan_supported_ops
from executorch.backends.vulkan.utils import ALL_T, DtypeSetList
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, to_edge
from executorch.exir.backend.partitioner import Partitioner
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import ExportPass, PassResult
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

# Operators that no partitioner takes, and the ones whose dtypes and ranks they share.
SIBLINGS = {
    "aten.ne.Tensor": "aten.eq.Tensor",
    "aten.hardsigmoid.default": "aten.relu.default",
    "aten.relu6.default": "aten.relu.default",
    "aten.tan.default": "aten.sin.default",
    "aten.elu.default": "aten.relu.default",
    "aten.log1p.default": "aten.exp.default",
    "aten.var.dim": "aten.mean.dim",
    "aten.repeat_interleave.self_int": "aten.unsqueeze_copy.default",
    "aten.select.int": "aten.select_copy.int",
    "aten.slice.Tensor": "aten.slice_copy.Tensor",
}

# PyTorch or ExecuTorch takes these apart before they could be kept; of an operator that they do not know they see
# nothing but the shape. The name there, and its schema here.
OPAQUE = {
    "aten.hardsigmoid.default": "(Tensor self) -> Tensor",
    "aten.relu6.default": "(Tensor self) -> Tensor",
    "aten.tan.default": "(Tensor self) -> Tensor",
    "aten.elu.default": "(Tensor self, Scalar alpha, Scalar scale, Scalar input_scale) -> Tensor",
    "aten.log1p.default": "(Tensor self) -> Tensor",
    "aten.var.dim": "(Tensor self, int[1]? dim, bool unbiased, bool keepdim) -> Tensor",
    "aten.repeat_interleave.self_int": "(Tensor self, SymInt repeats, int? dim) -> Tensor",
    "aten.select.int": "(Tensor self, int dim, SymInt index) -> Tensor",
    "aten.slice.Tensor": "(Tensor self, int dim, SymInt? start, SymInt? end, SymInt step) -> Tensor",
    "et_vk.adamw_step.default": "(Tensor param, Tensor m, Tensor v, Tensor grad, float lr, float beta1, float beta2, "
    "float eps, float weight_decay, float bias_correction1, float bias_correction2) -> (Tensor, Tensor, Tensor)",
}
# The partitioner takes these for floats only, and leaves those with quantised weights outside.
OF_BYTES = (
    "aten._weight_int8pack_mm.default",
    "et_vk.linear_q4gsw.default",
    "et_vk.linear_q4gsw_backward.default",
    "et_vk.q4gsw_requant.default",
)
LIBRARY = torch.library.Library("pteron_export", "DEF")
LIBRARY.define("hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor")
LIBRARY.impl("hardshrink", torch.ops.aten.hardshrink.default, "CPU")
LIBRARY.impl("hardshrink", lambda self, lambd=0.5: torch.empty_like(self), "Meta")


def _define_opaque() -> None:
    for name, schema in OPAQUE.items():
        own, operator = name.split(".")[1], _operator(torch.ops, name)
        LIBRARY.define(own + schema)
        LIBRARY.impl(own, _functional(operator), "CPU")
        LIBRARY.impl(own, _functional(operator), "Meta")


def _functional(operator: Any) -> Any:
    """The operator on copies: a view would be an alias of its input, and some change their inputs."""

    def implementation(*args: Any) -> Any:
        return pytree.tree_map_only(Tensor, Tensor.clone, operator(*pytree.tree_map_only(Tensor, Tensor.clone, args)))

    return implementation


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
            **{edge_operator(f"pteron_export.{name.split('.')[1]}.default"): edge_operator(name) for name in OPAQUE},
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
    declared = {name: vulkan_supported_ops[edge_operator(name)] for name in names if name in OF_BYTES}
    for name, features in declared.items():
        relaxed = copy(features)
        relaxed.inputs_dtypes = relaxed.outputs_dtypes = DtypeSetList(ALL_T)
        vulkan_supported_ops[edge_operator(name)] = relaxed
    try:
        yield
    finally:
        vulkan_supported_ops.update({edge_operator(name): features for name, features in declared.items()})
        RemoveRedundantOpsTransform.redundant_ops = redundant
        for operator in added:
            del vulkan_supported_ops[operator]


def _operator(root: Any, name: str) -> Any:
    namespace, operator, overload = name.split(".")
    return getattr(getattr(getattr(root, namespace), operator), overload)


_define_opaque()
