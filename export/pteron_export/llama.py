"""Tiny Llamas through ExecuTorch's own Llama exporter, with sequences of calls and PyTorch's logits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs
from torch import Tensor

from .case import random_tensor
from .exporter import Export, eager_model, export_program
from .fixture import operators, write_json
from .read import read_pte
from .sequences import Lengths, Questions, write_sequences

PARAMS: Mapping[str, Any] = {
    "dim": 64,
    "n_layers": 2,
    "n_heads": 4,
    "n_kv_heads": 2,
    "vocab_size": 256,
    "hidden_dim": 128,
    "multiple_of": 32,
    "norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "use_scaled_rope": True,
}

SEQUENCES: Lengths = {
    "S1": [1, 1, 1, 1],
    "S3": [3, 1, 1],
    "S7": [7, 1, 1],
    "S16": [16, 1, 1],
    "S64": [64, 1],
    "chunked": [7, 16, 1, 5, 1, 1],
    "S127_full": [127, 1],
}
SHORT: Lengths = {
    "S1": [1, 1, 1, 1],
    "S3": [3, 1, 1],
    "S7": [7, 1, 1],
    "S16": [16, 1],
    "chunked": [5, 2, 1, 4, 1, 1],
}


@dataclass(frozen=True)
class Llama:
    name: str
    quantisation: Sequence[str]
    atol: float
    rtol: float
    options: Sequence[str] = ()
    params: Mapping[str, Any] = field(default_factory=lambda: PARAMS)
    sequences: Lengths = field(default_factory=lambda: SEQUENCES)
    # Take only tokens for which no activation is about to round the other way.
    steady: bool = False


FOUR_BITS = ["-qmode", "4w", "-G", "32", "--embedding-quantize", "4,32"]
DYNAMIC = ["-qmode", "8da4w", "-G", "32", "--embedding-quantize", "4,32"]

LLAMAS: list[Llama] = [
    Llama("tiny_4w", FOUR_BITS, atol=1e-3, rtol=1e-3),
    # One activation that rounds the other way moves a logit by up to 0.1. Among the tokens of a
    # short call such ties can be avoided, which keeps the tolerance tight.
    Llama("tiny_8da4w", DYNAMIC, atol=2e-3, rtol=1e-3, sequences=SHORT, steady=True),
    Llama(
        "tiny_fp16_full_logits",
        FOUR_BITS,
        atol=5e-2,
        rtol=1e-2,
        options=["--vulkan-force-fp16", "--generate_full_logits"],
        params={**PARAMS, "n_layers": 1},
        sequences={"S3": [3, 1], "chunked": [7, 1, 5]},
    ),
]


def write_llama(root: Path, llama: Llama) -> None:
    folder = root / llama.name
    folder.mkdir(parents=True, exist_ok=True)
    export = Export(llama.params, _weights(llama.params), [*llama.quantisation, *llama.options])
    program = export_program(export)
    (folder / "program.pte").write_bytes(program)
    questions = Questions(llama.sequences, llama.params["vocab_size"], llama.atol, llama.steady)
    sequences = write_sequences(folder, eager_model(export), questions)
    write_json(
        folder / "manifest.json",
        {
            "program": "program.pte",
            "atol": llama.atol,
            "rtol": llama.rtol,
            **operators(read_pte(program)),
            "params": dict(llama.params),
            "sequences": sequences,
        },
    )


def _weights(params: Mapping[str, Any]) -> dict[str, Tensor]:
    """Random, but such that activations and logits stay near 1."""
    shapes = construct_transformer(ModelArgs(**params)).state_dict()
    return {name: _weight(name, tensor.shape) for name, tensor in shapes.items()}


def _weight(name: str, shape: torch.Size) -> Tensor:
    values = random_tensor(shape, torch.float32, f"llama/{name}")
    return 1.0 + values / 8.0 if name.endswith("norm.weight") else values / 8.0
