"""Programs lowered for XNNPACK, with the outputs of ExecuTorch's own runtime.

Eager PyTorch is no oracle here: XNNPACK rounds activations and scales in its own way.
"""

import importlib.resources
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from executorch.backends.xnnpack import serialization
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch.backends.xnnpack.serialization.xnnpack_graph_serialize import XNNHeader
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir._serialize._flatbuffer import _flatc_decompile
from executorch.runtime import Runtime
from torch import Tensor, nn
from torch.export import Dim
from torchao.quantization.granularity import PerGroup
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig, quantize_

from .case import Arg, f32, fill_parameters
from .fixture import Json, write_call
from .read import Pte, read_pte

# One rounding of an activation the other way is about this much of an output.
ATOL, RTOL = 1e-4, 1e-3


class Net(nn.Module):
    """Convolutions of three kinds, a residual, windows and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.pointwise = nn.Conv2d(8, 8, 1)
        self.last = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        x = torch.relu(x + self.pointwise(torch.relu(self.depthwise(x))))
        x = nn.functional.max_pool2d(x, 2)
        return self.last(x.mean((2, 3), keepdim=True).flatten(1))


class Mlp(nn.Module):
    def __init__(self, width: int, bias: bool) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * width, bias=bias)
        self.down = nn.Linear(2 * width, 7, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(x)))


class Pictures(nn.Module):
    """Convolutions of pictures of their own: pixels, windows, and pixels with a stride."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.pixels = nn.Conv2d(width, 8, 1)
        self.windows = nn.Conv2d(width, 8, 3, padding=1)
        self.fewer = nn.Conv2d(width, 8, 1, stride=2)

    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        return self.pixels(a), self.windows(b), self.fewer(c)


@dataclass(frozen=True)
class XnnpackCase:
    name: str
    module: Callable[[], nn.Module]
    calls: Sequence[Sequence[Arg]]
    # From a module and its first inputs to the module that is exported.
    quantise: Callable[[nn.Module, tuple[Tensor, ...]], nn.Module] = lambda module, inputs: module
    dynamic: Any = None
    atol: float = ATOL
    # Element types that the delegate must hold.
    dtypes: Sequence[str] = ()


def _pt2e(module: nn.Module, inputs: tuple[Tensor, ...], is_dynamic: bool) -> nn.Module:
    config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=is_dynamic)
    quantizer = XNNPACKQuantizer().set_global(config)
    exported = torch.export.export(module, inputs).module()
    prepared = prepare_pt2e(exported, quantizer)
    with torch.no_grad():
        prepared(*inputs)
    return convert_pt2e(prepared)


def _eight_bit_activations_four_bit_weights(module: nn.Module, inputs: tuple[Tensor, ...]) -> nn.Module:
    config = Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32))
    quantize_(module, config)
    return module


ROWS_OF_A_CALL = Dim("rows", min=1, max=16)

XNNPACK_CASES: list[XnnpackCase] = [
    XnnpackCase(
        "xnnpack_fp32_linear",
        partial(Mlp, 6, True),
        [[f32(4, 6)], [f32(1, 6)], [f32(16, 6)]],
        dynamic=({0: ROWS_OF_A_CALL},),
    ),
    XnnpackCase(
        "xnnpack_int8_net",
        Net,
        [[f32(1, 3, 8, 8)], [f32(1, 3, 8, 8)]],
        partial(_pt2e, is_dynamic=False),
        # All of it but the first and the last conversion is integers.
        atol=0.0,
        dtypes=["qint8", "qcint8", "qcint32"],
    ),
    XnnpackCase(
        "xnnpack_8da4w_linear",
        partial(Mlp, 32, False),
        [[f32(3, 32)], [f32(1, 32)], [f32(16, 32)]],
        _eight_bit_activations_four_bit_weights,
        dynamic=({0: ROWS_OF_A_CALL},),
        dtypes=["qdint8", "qbint4"],
    ),
    XnnpackCase(
        "xnnpack_dynamic_int8_linear",
        partial(Mlp, 12, True),
        [[f32(5, 12)], [f32(5, 12)]],
        partial(_pt2e, is_dynamic=True),
        dtypes=["qdint8", "qcint8"],
    ),
    # Images share a scale, but XNNPACK computes convolutions of single pixels as linears, whose rows do not.
    XnnpackCase(
        "xnnpack_dynamic_int8_pixels",
        partial(Pictures, 12),
        [[f32(2, 12, 5, 6), f32(2, 12, 5, 6), f32(2, 12, 5, 6)]],
        partial(_pt2e, is_dynamic=True),
        dtypes=["qdint8", "qcint8"],
    ),
]


def write_xnnpack(root: Path, case: XnnpackCase) -> Json:
    """Exports one case into `root/<name>/` and returns its manifest entry."""
    calls = [
        tuple(arg.make(f"{case.name}/{number}/{index}") for index, arg in enumerate(call))
        for number, call in enumerate(case.calls)
    ]
    module = fill_parameters(case.module().eval(), case.name)
    module = case.quantise(module, calls[0])
    with torch.no_grad():
        exported = torch.export.export(module, calls[0], dynamic_shapes=case.dynamic)
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    program = bytes(edge.to_executorch(ExecutorchBackendConfig()).buffer)
    pte = read_pte(program)
    kinds, dtypes = _contents(pte)
    missing = set(case.dtypes) - dtypes
    if missing or not kinds:
        raise ValueError(f"no {', '.join(sorted(missing)) or 'node'} in a delegate for XNNPACK")
    folder = root / case.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program.pte").write_bytes(program)
    method = Runtime.get().load_program(program).load_method("forward")
    entries = []
    for number, inputs in enumerate(calls):
        outputs = [output.clone() for output in method.execute([tensor.clone() for tensor in inputs])]
        entries.append(write_call(root, f"{case.name}/call{number}", inputs, outputs))
    return {
        "name": case.name,
        "op": "xnnpack",
        "pte": f"{case.name}/program.pte",
        "atol": case.atol,
        "rtol": RTOL if case.atol else 0.0,
        "vk_ops": [],
        "xnn_nodes": sorted(kinds),
        "portable_ops": sorted(
            f"{operator.name}.{operator.overload}" for plan in pte.program.execution_plan for operator in plan.operators
        ),
        "calls": entries,
    }


def _contents(pte: Pte) -> tuple[set[str], set[str]]:
    """The kinds of nodes and the element types in all delegates for XNNPACK."""
    text = "".join(_as_text(delegate.blob) for delegate in pte.delegates if delegate.id == "XnnpackBackend")
    kinds = set(re.findall(r'"?xnode_union_type"?: "(?:XNN|_XNN)?(\w+)"', text))
    return kinds, set(re.findall(r'"?datatype"?: "xnn_datatype_(\w+)"', text))


def _as_text(blob: bytes) -> str:
    """A delegate's flatbuffer as `flatc` spells it."""
    header = XNNHeader.from_bytes(blob[: XNNHeader.EXPECTED_LENGTH])
    with tempfile.TemporaryDirectory() as folder:
        schema, binary, text = (Path(folder) / f"schema.{kind}" for kind in ("fbs", "bin", "json"))
        schema.write_bytes((importlib.resources.files(serialization) / "schema.fbs").read_bytes())
        binary.write_bytes(blob[header.flatbuffer_offset :][: header.flatbuffer_size])
        _flatc_decompile(folder, str(schema), str(binary), ["--raw-binary"])
        return text.read_text()
