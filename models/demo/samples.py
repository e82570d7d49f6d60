"""Decodes samples of the model where no tokenizer is installed."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from model import Llama

PROMPTS, NEW_TOKENS = 10, 128


@torch.no_grad()
def write_samples(path: Path, model: Llama, arrays: Mapping[str, np.ndarray], context: int, seed: int) -> None:
    """The first prompts, each continued twice: greedy, and sampled (temperature 0.7, top-k 40)."""
    ends = arrays["prompts_ends"]
    with path.open("w", encoding="utf-8") as file:
        for begin, end in list(zip([0, *ends[:-1]], ends, strict=True))[:PROMPTS]:
            prompt = [0, *arrays["prompts"][begin:end].tolist()]
            for title, temperature in (("greedy", 0.0), ("temperature 0.7", 0.7)):
                generator = torch.Generator().manual_seed(seed)
                ids = continued(model, prompt, min(NEW_TOKENS, context - len(prompt)), temperature, generator)
                file.write(f"=== {title}\n{text_of(ids[1:], arrays)}\n\n")


def continued(model: Llama, prompt: list[int], count: int, temperature: float, generator: torch.Generator) -> list[int]:
    ids, device = list(prompt), model.tok_embeddings.weight.device
    for _ in range(count):
        logits = model(torch.tensor([ids], device=device))[0, -1].float().cpu()
        if temperature == 0.0:
            ids.append(int(logits.argmax()))
        else:
            best, which = torch.topk(logits / temperature, 40)
            ids.append(int(which[torch.multinomial(best.softmax(0), 1, generator=generator)]))
        if ids[-1] == 0:
            break
    return ids


def text_of(ids: list[int], arrays: Mapping[str, np.ndarray]) -> str:
    ends, data = arrays["token_ends"], arrays["token_bytes"]
    pieces = [data[(ends[i - 1] if i else 0) : ends[i]].tobytes() for i in ids]
    return b"".join(pieces).decode("utf-8", "replace")
