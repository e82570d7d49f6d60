"""Writes quantise.bin: what ExecuTorch's exporter makes of the weights that `weights()` describes.

Run it in the environment of `export/` (see export/README.md); its result is the same on every x86-64 machine:

    python crates/pteron-convert/tests/data/quantise.py

For HQQ (the exporter's default) and without, for each size of group: the nibbles, two a byte, then the float32 scales, row by
row. `src/quantise/tests.rs` makes the same weights and compares.
"""

from pathlib import Path

import torch
from torchao.quantization.granularity import PerGroup
from torchao.quantization.quant_api import IntxWeightOnlyConfig, quantize_

ROWS, COLUMNS = 24, 256
GROUPS = (8, 32, 64, 256)


def noise(index: int) -> float:
    """A multiple of 2^-19 between -1/4 and 1/4, more often near zero: the 16-bit parts of a SplitMix64 number, added."""
    mask = (1 << 64) - 1
    z = (index + 1) * 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    z ^= z >> 31
    return (sum(z >> shift & 0xFFFF for shift in (0, 16, 32, 48)) - 131070) / 524288


def weight(row: int, column: int) -> float:
    value = noise(row * COLUMNS + column)
    match row:
        case 0:
            return 0.0
        case 1:
            return value * 2.0**-30
        case 2:
            return 100.0 if column % 64 == 5 else value
        case 3:
            return (column % 31 - 15) / 2
        case 4:
            return -abs(value)
        case 5:
            return -0.75
        case 6:
            return value * 2.0**-100
    return value * 2.0 ** (row % 8 - 4)


def weights() -> torch.Tensor:
    return torch.tensor([[weight(row, column) for column in range(COLUMNS)] for row in range(ROWS)])


def quantised(algorithm: str, group: int) -> bytes:
    linear = torch.nn.Linear(COLUMNS, ROWS, bias=False)
    linear.weight = torch.nn.Parameter(weights(), requires_grad=False)
    granularity = PerGroup(group)
    quantize_(linear, IntxWeightOnlyConfig(torch.int4, granularity, intx_choose_qparams_algorithm=algorithm))
    nibbles = (linear.weight.qdata + 8).to(torch.uint8)
    packed = nibbles[:, 0::2] | nibbles[:, 1::2] << 4
    return packed.numpy().tobytes() + linear.weight.scale.float().contiguous().numpy().tobytes()


if __name__ == "__main__":
    parts = [quantised(algorithm, group) for algorithm in ("hqq_scale_only", "affine") for group in GROUPS]
    Path(__file__).with_suffix(".bin").write_bytes(b"".join(parts))
