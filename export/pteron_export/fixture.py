"""Writes cases and their goldens, in the layout one runner reads for all of them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from .case import Case
from .lower import Lowered, lower
from .read import Pte, read_pte

Json = dict[str, Any]


def write_tensor(root: Path, path: str, tensor: Tensor) -> Json:
    """Raw little-endian elements, row-major."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return {
        "path": path,
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype).removeprefix("torch."),
    }


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n")


def write_case(root: Path, case: Case) -> Json:
    """Exports one case into `root/<name>/` and returns its manifest entry."""
    inputs = {
        name: [_make_inputs(case.name, name, number, call) for number, call in enumerate(method.calls)]
        for name, method in case.methods.items()
    }
    modules = {name: method.module().eval() for name, method in case.methods.items()}
    lowered = lower(case, modules, inputs)
    contents = operators(read_pte(lowered.pte))
    if case.delegated:
        _check_delegated(case.op, contents)
    files = _write_program(root, case.name, lowered)
    # Exporting may have run the modules' state forward; the goldens start from a fresh one.
    modules = {name: method.module().eval() for name, method in case.methods.items()}
    calls = _write_calls(root, case, modules, inputs, lowered.mutated)
    return {
        "name": case.name,
        "op": case.op,
        **files,
        "atol": case.atol,
        "rtol": case.rtol,
        **contents,
        **({"constant_methods": dict(case.constant_methods)} if case.constant_methods else {}),
        "calls": calls,
    }


def operators(pte: Pte) -> Json:
    """The names of all operators that a runner must support."""
    inside = {call.name for graph in pte.graphs() for call in graph.chain}
    outside = {
        f"{operator.name}.{operator.overload}" for plan in pte.program.execution_plan for operator in plan.operators
    }
    return {"vk_ops": sorted(inside), "portable_ops": sorted(outside)}


def _check_delegated(op: str, contents: Json) -> None:
    """Fails for a row whose program does not contain the operator it names: it would always pass."""
    if contents["portable_ops"]:
        raise ValueError(f"left outside the delegate: {', '.join(contents['portable_ops'])}")
    if op not in contents["vk_ops"]:
        raise ValueError(f"no {op} in the delegate, only {', '.join(contents['vk_ops']) or 'nothing'}")


def _make_inputs(case: str, method: str, number: int, call: Any) -> tuple[Tensor, ...]:
    return tuple(arg.make(f"{case}/{method}/{number}/{index}") for index, arg in enumerate(call))


def _write_program(root: Path, name: str, lowered: Lowered) -> Json:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program.pte").write_bytes(lowered.pte)
    for file, data in lowered.ptd.items():
        (folder / file).write_bytes(data)
    ptd = [f"{name}/{file}" for file in lowered.ptd]
    return {"pte": f"{name}/program.pte", **({"ptd": ptd} if ptd else {})}


def _write_calls(
    root: Path,
    case: Case,
    modules: dict[str, nn.Module],
    inputs: dict[str, list[tuple[Tensor, ...]]],
    mutated: dict[str, list[int]],
) -> list[Json]:
    entries: list[Json] = []
    for name, module in modules.items():
        for call in inputs[name]:
            prefix = f"{case.name}/call{len(entries)}"
            outputs = run_eagerly(module, call, mutated[name])
            entries.append(
                {
                    # A runner calls `forward` unless told otherwise.
                    **({} if name == "forward" else {"method": name}),
                    **write_call(root, prefix, call, outputs, case.unchecked),
                }
            )
    return entries


def write_call(
    root: Path,
    prefix: str,
    inputs: tuple[Tensor, ...],
    outputs: list[Tensor],
    unchecked: Sequence[int] = (),
) -> Json:
    return {
        "inputs": [write_tensor(root, f"{prefix}.in{i}.bin", tensor) for i, tensor in enumerate(inputs)],
        "goldens": [
            {**write_tensor(root, f"{prefix}.out{i}.bin", tensor), "output_index": i}
            for i, tensor in enumerate(outputs)
            if i not in unchecked
        ],
    }


def run_eagerly(module: nn.Module, inputs: tuple[Tensor, ...], mutated: list[int]) -> list[Tensor]:
    """PyTorch's outputs in the order of the program's outputs: mutated inputs come first."""
    with torch.no_grad():
        given = [tensor.clone() for tensor in inputs]
        returned = pytree.tree_leaves(module(*given))
    return [given[index] for index in mutated] + returned
