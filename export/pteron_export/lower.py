"""From a case to the bytes ExecuTorch writes for it."""

import inspect
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.exir import (
    EdgeCompileConfig,
    EdgeProgramManager,
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    to_edge_transform_and_lower,
)
from torch import Tensor, nn
from torch.export import ExportedProgram

from .case import Case, Method
from .kept import edge_operator, lower_keeping


@dataclass(frozen=True)
class Lowered:
    pte: bytes
    # File name to bytes; empty unless the case keeps constants outside the program.
    ptd: dict[str, bytes]
    # For each method the positions of the inputs it mutates, in the order of its outputs.
    mutated: dict[str, list[int]]


def lower(case: Case, modules: dict[str, nn.Module], inputs: dict[str, list[tuple[Tensor, ...]]]) -> Lowered:
    exported = {name: _export(method, modules[name], inputs[name][0]) for name, method in case.methods.items()}
    edge = _lower_to_edge(case, exported)
    manager = edge.to_executorch(ExecutorchBackendConfig(**case.backend))
    return Lowered(
        pte=bytes(manager.buffer),
        ptd=_tensor_data(manager),
        # Custom operators show what they mutate only once lowered, hence not `exported`.
        mutated={name: _mutated_inputs(edge.exported_program(name)) for name in case.methods},
    )


def _lower_to_edge(case: Case, exported: dict[str, ExportedProgram]) -> EdgeProgramManager:
    # The Vulkan exporter keeps operators that the core ATen check does not know.
    config = EdgeCompileConfig(_check_ir_validity=False, **case.edge)
    partitioners = _partitioners(case)
    if case.kept:
        return lower_keeping(case.kept, exported, partitioners, case.constant_methods, config)
    return to_edge_transform_and_lower(
        exported,
        partitioner=partitioners or None,
        constant_methods=dict(case.constant_methods) or None,
        compile_config=config,
    )


def _partitioners(case: Case) -> list[VulkanPartitioner]:
    options = dict(case.vulkan)
    alone = [edge_operator(name) for name in case.first]
    first = [VulkanPartitioner(options, operator_allowlist=alone)] if alone else []
    return [*first, VulkanPartitioner(options)] if case.delegate else []


def _export(method: Method, module: nn.Module, example: tuple[Tensor, ...]) -> ExportedProgram:
    with torch.no_grad():
        return torch.export.export(module, example, dynamic_shapes=_dynamic_shapes(method, module))


def _dynamic_shapes(method: Method, module: nn.Module) -> Any:
    parameters = inspect.signature(module.forward).parameters.values()
    gathered = [p.name for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL]
    # `torch.export` sees `*inputs` as one argument that holds them all.
    return {gathered[0]: method.dynamic} if method.dynamic and gathered else method.dynamic


def _tensor_data(manager: ExecutorchProgramManager) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        manager.write_tensor_data_to_file(folder)
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def _mutated_inputs(program: ExportedProgram) -> list[int]:
    signature = program.graph_signature
    order = list(signature.user_inputs)
    return [order.index(name) for name in signature.user_inputs_to_mutate.values()]
