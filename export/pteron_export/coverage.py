"""Counts the kinds of entries in a folder of programs, to see which parts of the format it covers."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from executorch.backends.vulkan.serialization.vulkan_graph_schema import VkTensor
from executorch.exir.schema import ExecutionPlan, Tensor

from .read import Delegate, Pte, read_pte


def coverage(root: Path) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for file in sorted(root.rglob("*.pte")):
        for kind, name in _features(read_pte(file.read_bytes())):
            counts.setdefault(kind, Counter())[name] += 1
    return counts


def print_coverage(root: Path) -> None:
    for kind, counter in coverage(root).items():
        names = ", ".join(f"{name} {count}" for name, count in sorted(counter.items()))
        print(f"{kind}: {names}")


def _features(pte: Pte) -> Iterator[tuple[str, str]]:
    for plan in pte.program.execution_plan:
        yield from _plan_features(plan)
    for delegate in pte.delegates:
        yield from _delegate_features(delegate)
    yield "mutable data", "yes" if pte.mutable_data else "no"
    yield "named data", "yes" if pte.named_data else "no"


def _plan_features(plan: ExecutionPlan) -> Iterator[tuple[str, str]]:
    for chain in plan.chains:
        for instruction in chain.instructions or []:
            yield "instruction", type(instruction.instr_args).__name__
    for operator in plan.operators:
        yield "portable operator", f"{operator.name}.{operator.overload}"
    for value in plan.values:
        yield "value", type(value.val).__name__
        if isinstance(value.val, Tensor):
            yield "scalar type", value.val.scalar_type.name
            yield "shape dynamism", value.val.shape_dynamism.name
            yield "rank", str(len(value.val.sizes))
            if value.val.extra_tensor_info is not None:
                yield "extra tensor info", value.val.extra_tensor_info.location.name
    for delegate in plan.delegates:
        for spec in delegate.compile_specs:
            yield "compile spec", f"{spec.key} ({len(spec.value)} bytes)"


def _delegate_features(delegate: Delegate) -> Iterator[tuple[str, str]]:
    if delegate.graph is None:
        return
    for call in delegate.graph.chain:
        yield "delegate operator", call.name
    for value in delegate.graph.values:
        yield "delegate value", type(value.value).__name__
        if isinstance(value.value, VkTensor):
            yield "delegate dtype", value.value.datatype.name
            yield "delegate storage", value.value.storage_type.name
            yield "delegate layout", value.value.memory_layout.name
