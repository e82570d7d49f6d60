"""ExecuTorch's own Llama exporter: from weights to a program, and to the model that PyTorch runs."""

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
from executorch.extension.llm.export.config.llm_config import LlmConfig
from torch import Tensor, nn

CONTEXT = 128
METADATA: Mapping[str, Any] = {"append_eos_to_prompt": 0, "get_bos_id": 1, "get_eos_ids": [2, 3]}


@dataclass(frozen=True)
class Export:
    """Inputs of the exporter."""

    # As in `params.json`.
    params: Mapping[str, Any]
    # By Meta's names.
    weights: Mapping[str, Tensor]
    # Quantisation and other options.
    options: Sequence[str]
    # The option that chooses the backend.
    backend: str = "--vulkan"
    # The exporter derives the RoPE scaling from the model's name.
    model: str = "llama3_2"
    context: int = CONTEXT
    # As the exporter counts: a call has at most one token less.
    longest_call: int = CONTEXT
    metadata: Mapping[str, Any] = field(default_factory=lambda: METADATA)


def export_program(export: Export) -> bytes:
    """Through the exporter's command line, as a user types it."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        arguments = _arguments(folder, export)
        command = [sys.executable, "-m", "executorch.examples.models.llama.export_llama", *arguments]
        done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"the Llama exporter failed:\n{done.stderr[-4000:]}")
        return (folder / "program.pte").read_bytes()


def eager_model(export: Export) -> nn.Module:
    """The model just before `torch.export`: the same quantised weights, the same custom operators."""
    with tempfile.TemporaryDirectory() as temporary:
        config = LlmConfig.from_args(build_args_parser().parse_args(_arguments(Path(temporary), export)))
        model, _, _ = get_llama_model(config)
        return model


def _arguments(folder: Path, export: Export) -> list[str]:
    checkpoint, params = folder / "checkpoint.pth", folder / "params.json"
    torch.save(dict(export.weights), checkpoint)
    params.write_text(json.dumps(dict(export.params)))
    lengths = ["--max_seq_length", str(export.longest_call), "--max_context_length", str(export.context)]
    return [
        *["-c", str(checkpoint), "-p", str(params), "-d", "fp32", export.backend, *lengths],
        *["-kv", "--use_sdpa_with_kv_cache", "--model", export.model, "--output_name", "program.pte"],
        *["--metadata", json.dumps(dict(export.metadata)), *export.options],
    ]
