#!/usr/bin/env python3
"""From trained weights to the program that ships: ExecuTorch's own Llama exporter, then checks in PyTorch.

    python export.py --run run                 # writes model.pte, goldens.json and export.json beside this file

The checks compute with the very modules that the exporter traced: 4-bit linears and embedding, attention over caches.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from executorch.examples.models.llama.export_llama_lib import build_args_parser, get_llama_model
from executorch.extension.llm.export.config.llm_config import LlmConfig
from tokenizers import Tokenizer
from torch import Tensor, nn

import weights
from batches import HeldOut
from model import Config, Llama, checkpoint
from quantise import fake_quantised

HERE = Path(__file__).parent
METADATA = {"append_eos_to_prompt": 0, "get_bos_id": 0, "get_eos_ids": [0]}
GOLDENS, GOLDEN_TOKENS = 10, 64
# A golden whose best two logits come this near somewhere would test the order of a sum, not the runtime.
CLEAR = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="the folder that train.py wrote")
    parser.add_argument("--tokens", type=Path, default=HERE / "build" / "tokens.npz")
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--prefill", type=int, help="most tokens of one call (default: half the context)")
    parser.add_argument("--documents", type=int, help="measure only so many documents")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    results = json.loads((args.run / "results.json").read_text())
    params, context = results["params"], results["context"]
    masters = weights.load(args.run)

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        torch.save(checkpoint(masters), folder / "checkpoint.pth")
        (folder / "params.json").write_text(json.dumps(params))
        program = _export(folder, _options(folder, args.prefill or context // 2, context))
        decoding = _eager(_options(folder, context, context))
        scoring = _eager([*_options(folder, context, context), "--generate_full_logits"])

    (args.out / "model.pte").write_bytes(program)
    _check_weights(decoding, masters)
    tokenizer = Tokenizer.from_file(str(HERE / "tokenizer.json"))
    goldens = _goldens(decoding, tokenizer)
    digest = hashlib.sha256(program).hexdigest()
    (args.out / "goldens.json").write_text(
        json.dumps({"program_sha256": digest, "prompts": goldens}, indent=1, ensure_ascii=False) + "\n",
        encoding="utf-8",
    )

    with np.load(args.tokens) as file:
        held_out = HeldOut(file, "docs", "test", context, torch.device("cpu"), args.documents)
    config = Config(**{key: value for key, value in params.items() if key != "use_scaled_rope"})
    plain = Llama(config, context)
    plain.load_state_dict(masters)
    fp32 = held_out.bits_per_byte(plain)
    four = held_out.bits_per_byte(Scoring(scoring))
    answer = {
        "program_bytes": len(program),
        "program_sha256": digest,
        "tokenizer_bytes": (HERE / "tokenizer.json").stat().st_size,
        "prefill": args.prefill or context // 2,
        "context": context,
        "test_docs_bits_per_byte": {"fp32": round(fp32, 5), "4bit": round(four, 5)},
        "smallest_margin_of_goldens": min((golden["smallest_margin"] for golden in goldens), default=None),
    }
    (args.out / "export.json").write_text(json.dumps(answer, indent=2) + "\n")
    print(json.dumps(answer, indent=2))


def _options(folder: Path, prefill: int, context: int) -> list[str]:
    return [
        *["-c", str(folder / "checkpoint.pth"), "-p", str(folder / "params.json"), "-d", "fp32", "--vulkan"],
        *["--max_seq_length", str(prefill), "--max_context_length", str(context), "-kv", "--use_sdpa_with_kv_cache"],
        *[
            "--model",
            "llama3_2",
            "--output_name",
            "model.pte",
            "-qmode",
            "4w",
            "-G",
            "32",
            "--embedding-quantize",
            "4,32",
        ],
        *["--metadata", json.dumps(METADATA)],
    ]


def _export(folder: Path, options: list[str]) -> bytes:
    """The command that a user would type."""
    command = [sys.executable, "-m", "executorch.examples.models.llama.export_llama", *options]
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"the exporter failed:\n{done.stderr[-4000:]}")
    return (folder / "model.pte").read_bytes()


def _eager(options: list[str]) -> nn.Module:
    model, _, _ = get_llama_model(LlmConfig.from_args(build_args_parser().parse_args(options)))
    return model


def _run(model: nn.Module, tokens: list[int], position: int) -> Tensor:
    with torch.no_grad():
        return model(torch.tensor([tokens]), {"input_pos": torch.tensor([position])})


class Scoring(nn.Module):
    """ExecuTorch's quantised model with the face that `HeldOut` expects, one window at a time from position 0."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, targets: Tensor, reduction: str) -> Tensor:
        total = torch.zeros(())
        for given, wanted in zip(inputs, targets, strict=True):
            # Padding at the end changes nothing before it, so it need not be computed.
            length = int((wanted >= 0).nonzero().max()) + 1
            logits = _run(self.model, given[:length].tolist(), 0)[0]
            total += nn.functional.cross_entropy(logits, wanted[:length], ignore_index=-1, reduction=reduction)
        return total


def _check_weights(model: nn.Module, masters: dict[str, Tensor]) -> None:
    """Checks that the exporter quantises as training did; otherwise quantisation-aware training was in vain."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            master = masters["tok_embeddings.weight" if name == "output" else f"{name}.weight"]
            difference = (module.weight.dequantize() - fake_quantised(master)).abs().max().item()
            if difference > 1e-6:
                raise SystemExit(f"{name}: the exporter's 4-bit weights differ from training's by up to {difference}")


def _goldens(model: nn.Module, tokenizer: Tokenizer) -> list[dict[str, object]]:
    """Greedy continuations of the first prompts that have a clear one and do not end before their 64 tokens."""
    goldens: list[dict[str, object]] = []
    for prompt in json.loads((HERE / "prompts.json").read_text(encoding="utf-8")):
        ids = [0, *tokenizer.encode(prompt, add_special_tokens=False).ids]
        continuation, margins, logits = [], [], _run(model, ids, 0)
        for step in range(GOLDEN_TOKENS):
            (best, second), which = (t[0].tolist() for t in torch.topk(logits.reshape(1, -1), 2))
            continuation.append(which[0])
            margins.append(best - second)
            logits = _run(model, which[:1], len(ids) + step)
        usable = min(margins) >= CLEAR and 0 not in continuation
        print(f"{'golden' if usable else 'left out'}: {prompt!r}, smallest margin {min(margins):.4f}")
        if usable and len(goldens) < GOLDENS:
            goldens.append(
                {
                    "prompt": prompt,
                    "prompt_ids": ids,
                    "ids": continuation,
                    "text": tokenizer.decode(continuation, skip_special_tokens=False),
                    "smallest_margin": round(min(margins), 4),
                    "at": margins.index(min(margins)),
                }
            )
    return goldens


if __name__ == "__main__":
    main()
