"""Training batches, and the loss on held-out documents."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

PARTS = ("docs", "crates", "code", "manuals")


@dataclass
class Part:
    tokens: Tensor  # on the device
    starts: Tensor  # where a passage can begin
    taken: int = 0  # windows handed out so far


class Batches:
    """Windows of the training text, each part in its own proportion, none twice within an epoch of its part.

    Every second window is moved to the next passage's beginning and starts with the token that begins a document: so the model
    learns to go on from any beginning, as a prompt is one, and not from titles only.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], length: int, seed: int, device: torch.device) -> None:
        self.length, self.seed, self.device = length, seed, device
        self.parts: dict[str, Part] = {}
        self._orders: dict[int, tuple[int, np.ndarray, int, np.ndarray]] = {}
        for part in PARTS:
            tokens = torch.from_numpy(arrays[f"{part}_train"].astype(np.int32)).to(device)
            starts = arrays[f"{part}_starts"].astype(np.int64)
            starts = starts[starts < len(tokens) - length - 1]
            self.parts[part] = Part(tokens, torch.from_numpy(starts).to(device))

    def next(self, counts: Mapping[str, int]) -> tuple[Tensor, Tensor]:
        """Inputs and targets: so many windows of each part."""
        windows = [self._windows(number, part, counts[part]) for number, part in enumerate(PARTS) if counts[part]]
        both = torch.cat(windows).long()
        return both[:, :-1].contiguous(), both[:, 1:].contiguous()

    def _windows(self, number: int, name: str, count: int) -> Tensor:
        part = self.parts[name]
        per_epoch = (len(part.tokens) - 1) // self.length - 1
        begins, snaps = [], []
        for taken in range(part.taken, part.taken + count):
            epoch, place = divmod(taken, per_epoch)
            order, shift, snap = self._epoch(number, epoch, per_epoch)
            begins.append(int(order[place]) * self.length + shift)
            snaps.append(bool(snap[place]))
        part.taken += count
        begin = torch.tensor(begins).to(self.device, non_blocking=True)
        snapped = torch.tensor(snaps).to(self.device, non_blocking=True)
        at = torch.searchsorted(part.starts, begin).clamp_(max=len(part.starts) - 1)
        # One place earlier than the passage: that place is then overwritten by the beginning's token.
        begin = torch.where(snapped, (part.starts[at] - 1).clamp_(min=0), begin)
        window = part.tokens[begin[:, None] + torch.arange(self.length + 1, device=self.device)]
        window[:, 0] = torch.where(snapped, torch.zeros_like(window[:, 0]), window[:, 0])
        return window

    def _epoch(self, number: int, epoch: int, size: int) -> tuple[np.ndarray, int, np.ndarray]:
        """The order of a part's windows, by how much all are shifted, and which of them begin with a passage."""
        if self._orders.get(number, (-1,))[0] != epoch:
            random = np.random.default_rng([self.seed, number, epoch])
            order, shift = random.permutation(size), int(random.integers(self.length))
            self._orders[number] = (epoch, order, shift, random.random(size) < 0.5)
        return self._orders[number][1:]

    def epochs(self) -> dict[str, float]:
        return {name: round(part.taken * self.length / len(part.tokens), 2) for name, part in self.parts.items()}

    def state(self) -> dict[str, int]:
        return {name: part.taken for name, part in self.parts.items()}

    def restore(self, state: Mapping[str, int]) -> None:
        for name, taken in state.items():
            self.parts[name].taken = taken


class HeldOut:
    """Bits per byte of held-out documents.

    A document begins with the beginning's token, and its end counts too. Where it is longer than the context, windows overlap by
    half, so that all but the first tokens are predicted from at least half a context.
    """

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        part: str,
        split: str,
        context: int,
        device: torch.device,
        documents: int | None = None,
        most_bytes: int | None = None,
    ) -> None:
        tokens, ends = arrays[f"{part}_{split}"].astype(np.int64), arrays[f"{part}_{split}_ends"][:documents]
        sizes = arrays[f"{part}_{split}_bytes"][:documents]
        # Where that is too much to look at often, every second, third, ... document: neighbours are of one source.
        every = max(1, -(-int(sizes.sum()) // most_bytes)) if most_bytes else 1
        self.bytes = int(sizes[::every].sum())
        windows = []
        for begin, end in list(zip([0, *ends[:-1]], ends, strict=True))[::every]:
            windows += _windows(np.concatenate([[0], tokens[begin:end]]), context)
        windows.sort(key=lambda window: len(window[0]))
        self.batches = [_padded(windows[i : i + 32], device) for i in range(0, len(windows), 32)]

    @torch.no_grad()
    def bits_per_byte(self, model: nn.Module) -> float:
        was_training = model.training
        model.eval()
        nats = sum(model(inputs, targets, reduction="sum").item() for inputs, targets in self.batches)
        model.train(was_training)
        return nats / math.log(2) / self.bytes


def _windows(document: np.ndarray, context: int) -> list[tuple[np.ndarray, np.ndarray]]:
    inputs, targets = document[:-1], document[1:].copy()
    windows = [(inputs[:context], targets[:context])]
    done = context
    while done < len(inputs):
        begin = done - context // 2
        wanted = targets[begin : begin + context].copy()
        wanted[: context // 2] = -1
        windows.append((inputs[begin : begin + context], wanted))
        done = begin + context
    return windows


def _padded(windows: list[tuple[np.ndarray, np.ndarray]], device: torch.device) -> tuple[Tensor, Tensor]:
    longest = max(len(inputs) for inputs, _ in windows)
    inputs, targets = np.zeros((len(windows), longest), np.int64), np.full((len(windows), longest), -1, np.int64)
    for row, (given, wanted) in enumerate(windows):
        inputs[row, : len(given)], targets[row, : len(wanted)] = given, wanted
    return torch.from_numpy(inputs).to(device), torch.from_numpy(targets).to(device)
