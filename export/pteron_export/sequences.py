"""Sequences of prefill and decode calls to a language model, with PyTorch's logits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from .case import random_tensor
from .fixture import Json, write_call

# Names of sequences, and the lengths of their calls; positions follow from them. Longer calls get random tokens,
# a call of one token the greedy choice of the call before it, where its margin is clear.
Lengths = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Questions:
    lengths: Lengths
    vocabulary: int
    # Permitted error of a runtime's logits: none within it changes the greedy token.
    atol: float
    # Take only tokens for which no activation is about to round the other way.
    steady: bool = False


def write_sequences(folder: Path, model: nn.Module, questions: Questions) -> list[Json]:
    return [_write_sequence(folder, model, questions, name) for name in questions.lengths]


def _write_sequence(folder: Path, model: nn.Module, questions: Questions, name: str) -> Json:
    for buffer_name, buffer in model.named_buffers():
        if buffer_name.endswith(("k_cache", "v_cache")):
            buffer.zero_()
    calls: list[Json] = []
    start, greedy = 0, None
    for number, length in enumerate(questions.lengths[name]):
        inputs, logits = _clear_call(model, questions, f"{name}/{number}", start, length, greedy)
        greedy = int(_last(logits).argmax())
        calls.append({**write_call(folder, f"{name}.call{number}", inputs, [logits]), "argmax": greedy})
        start += length
    return {"name": name, "calls": calls}


def _clear_call(
    model: nn.Module, questions: Questions, seed: str, start: int, length: int, greedy: int | None
) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """A call whose best logit no permitted error could dethrone.

    Trying again is harmless: the same positions of the caches are written anew.
    """
    position = torch.tensor([start])
    for attempt in range(400):
        tokens = _tokens(questions.vocabulary, f"{seed}/{attempt}", length)
        if attempt == 0 and length == 1 and greedy is not None:
            tokens = torch.tensor([[greedy]])
        if questions.steady and not _is_steady(model, tokens, position, questions.atol):
            continue
        logits = _run(model, tokens, position)
        best, second = torch.topk(_last(logits), 2).values.tolist()
        if best - second > 2 * questions.atol:
            return (tokens, position), logits
    raise RuntimeError(f"{seed}: no tokens give a clear argmax")


def _run(model: nn.Module, tokens: Tensor, position: Tensor) -> Tensor:
    with torch.no_grad():
        return model(tokens, {"input_pos": position})


def _is_steady(model: nn.Module, tokens: Tensor, position: Tensor, atol: float) -> bool:
    """Whether errors of the size of another summation order leave the argmax alone."""
    expected = _run(model, tokens, position)
    generator = torch.Generator().manual_seed(0)

    def disturb(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        noise = torch.randint(-8, 9, inputs[0].shape, generator=generator) * 2.0**-22
        return (inputs[0] * (1.0 + noise), *inputs[1:])

    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    hooks = [linear.register_forward_pre_hook(disturb) for linear in linears]
    try:
        outputs = [_run(model, tokens, position) for _ in range(6)]
    finally:
        for hook in hooks:
            hook.remove()
    return bool(linears) and all((output - expected).abs().max() < atol / 4 for output in outputs)


def _tokens(vocabulary: int, seed: str, length: int) -> Tensor:
    return random_tensor([1, length], torch.int64, f"tokens/{seed}", below=vocabulary) % vocabulary


def _last(logits: Tensor) -> Tensor:
    return logits.reshape(-1, logits.shape[-1])[-1]
