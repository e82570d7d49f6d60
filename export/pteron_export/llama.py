"""Tiny Llamas through ExecuTorch's own Llama exporter, with sequences of calls and PyTorch's logits."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from executorch.examples.models.llama.export_llama_lib import build_args_parser, get_llama_model
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs
from executorch.extension.llm.export.config.llm_config import LlmConfig
from torch import Tensor, nn

from .case import random_tensor
from .fixture import Json, operators, write_call, write_json
from .read import read_pte

CONTEXT = 128
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
METADATA = {"append_eos_to_prompt": 0, "get_bos_id": 1, "get_eos_ids": [2, 3]}

# Lengths of the calls of a sequence; positions follow from them. Longer calls get random tokens,
# a call of one token the greedy choice of the call before it, where that gives a clear answer.
SEQUENCES: Mapping[str, Sequence[int]] = {
    "S1": [1, 1, 1, 1],
    "S3": [3, 1, 1],
    "S7": [7, 1, 1],
    "S16": [16, 1, 1],
    "S64": [64, 1],
    "chunked": [7, 16, 1, 5, 1, 1],
    "S127_full": [127, 1],
}
SHORT: Mapping[str, Sequence[int]] = {
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
    sequences: Mapping[str, Sequence[int]] = field(default_factory=lambda: SEQUENCES)
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
    with tempfile.TemporaryDirectory() as temporary:
        arguments = _arguments(Path(temporary), llama)
        program = _export(Path(temporary), arguments)
        model = _eager(arguments)
    (folder / "program.pte").write_bytes(program)
    sequences = [_write_sequence(folder, llama, model, name) for name in llama.sequences]
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


def _arguments(folder: Path, llama: Llama) -> list[str]:
    checkpoint, params = folder / "checkpoint.pth", folder / "params.json"
    torch.save(_weights(llama.params), checkpoint)
    params.write_text(json.dumps(dict(llama.params)))
    lengths = ["--max_seq_length", str(CONTEXT), "--max_context_length", str(CONTEXT)]
    return [
        *["-c", str(checkpoint), "-p", str(params), "-d", "fp32", "--vulkan", *lengths],
        *["-kv", "--use_sdpa_with_kv_cache", "--model", "llama3_2", "--output_name", "program.pte"],
        *["--metadata", json.dumps(METADATA), *llama.quantisation, *llama.options],
    ]


def _weights(params: Mapping[str, Any]) -> dict[str, Tensor]:
    """Random, but such that activations and logits stay near 1."""
    shapes = construct_transformer(ModelArgs(**params)).state_dict()
    return {name: _weight(name, tensor.shape) for name, tensor in shapes.items()}


def _weight(name: str, shape: torch.Size) -> Tensor:
    values = random_tensor(shape, torch.float32, f"llama/{name}")
    return 1.0 + values / 8.0 if name.endswith("norm.weight") else values / 8.0


def _export(folder: Path, arguments: list[str]) -> bytes:
    """The exporter's command line, as a user types it."""
    command = [sys.executable, "-m", "executorch.examples.models.llama.export_llama", *arguments]
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the Llama exporter failed:\n{done.stderr[-4000:]}")
    return (folder / "program.pte").read_bytes()


def _eager(arguments: list[str]) -> nn.Module:
    """The model just before `torch.export`: the same quantised weights, the same custom operators."""
    config = LlmConfig.from_args(build_args_parser().parse_args(arguments))
    model, _, _ = get_llama_model(config)
    return model


def _write_sequence(folder: Path, llama: Llama, model: nn.Module, name: str) -> Json:
    for buffer_name, buffer in model.named_buffers():
        if buffer_name.endswith(("k_cache", "v_cache")):
            buffer.zero_()
    calls: list[Json] = []
    start, greedy = 0, None
    for number, length in enumerate(llama.sequences[name]):
        inputs, logits = _clear_call(llama, model, f"{name}/{number}", start, length, greedy)
        greedy = int(_last(logits).argmax())
        calls.append({**write_call(folder, f"{name}.call{number}", inputs, [logits]), "argmax": greedy})
        start += length
    return {"name": name, "calls": calls}


def _clear_call(
    llama: Llama, model: nn.Module, seed: str, start: int, length: int, greedy: int | None
) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """A call whose best logit no permitted error could dethrone.

    Trying again is harmless: the same positions of the caches are written anew.
    """
    position = torch.tensor([start])
    for attempt in range(400):
        tokens = _tokens(llama, f"{seed}/{attempt}", length)
        if attempt == 0 and length == 1 and greedy is not None:
            tokens = torch.tensor([[greedy]])
        if llama.steady and not _is_steady(model, tokens, position, llama.atol):
            continue
        logits = _run(model, tokens, position)
        best, second = torch.topk(_last(logits), 2).values.tolist()
        if best - second > 2 * llama.atol:
            return (tokens, position), logits
    raise RuntimeError(f"{llama.name} {seed}: no tokens give a clear answer")


def _run(model: nn.Module, tokens: Tensor, position: Tensor) -> Tensor:
    with torch.no_grad():
        return model(tokens, {"input_pos": position})


def _is_steady(model: nn.Module, tokens: Tensor, position: Tensor, atol: float) -> bool:
    """Whether errors of the size of another summation order leave the answer alone."""
    expected = _run(model, tokens, position)
    generator = torch.Generator().manual_seed(0)

    def disturb(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        noise = torch.randint(-8, 9, inputs[0].shape, generator=generator) * 2.0**-22
        return (inputs[0] * (1.0 + noise), *inputs[1:])

    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    hooks = [linear.register_forward_pre_hook(disturb) for linear in linears]
    try:
        answers = [_run(model, tokens, position) for _ in range(6)]
    finally:
        for hook in hooks:
            hook.remove()
    return bool(linears) and all((answer - expected).abs().max() < atol / 4 for answer in answers)


def _tokens(llama: Llama, seed: str, length: int) -> Tensor:
    vocabulary = llama.params["vocab_size"]
    return random_tensor([1, length], torch.int64, f"tokens/{seed}", below=vocabulary) % vocabulary


def _last(logits: Tensor) -> Tensor:
    return logits.reshape(-1, logits.shape[-1])[-1]
