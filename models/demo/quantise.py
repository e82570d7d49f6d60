"""4-bit weights, as ExecuTorch's exporter makes them for `-qmode 4w -G 32 --embedding-quantize 4,32`.

Along a row, 32 weights share one float32 scale; a weight is an integer from -8 to 7. The scale starts at the largest magnitude
over 8 and is then fitted by least squares, twenty times over (torchao calls it HQQ, scale only). Training has to see exactly
that rule: weights that were trained towards another one would be quantised to other integers when they are exported.
"""

import torch
from torch import Tensor

GROUP = 32
LOW, HIGH = -8, 7
ROUNDS = 20
EPSILON = torch.finfo(torch.float32).eps


@torch.no_grad()
def fit(groups: Tensor) -> tuple[Tensor, Tensor]:
    """Integers and scales of `[n, 32]` weights. torchao stops early once no scale moves; the rounds left change nothing."""
    scale = (groups.abs().amax(1, keepdim=True) / -LOW).clamp_min(EPSILON)
    for _ in range(ROUNDS):
        q = (groups / scale).round_().clamp_(LOW, HIGH)
        squares = (q * q).sum(1, keepdim=True)
        scale = torch.where(squares > 0, (groups * q).sum(1, keepdim=True) / squares, scale).clamp_min(EPSILON)
    return (groups / scale).round_().clamp_(LOW, HIGH), scale


@torch.no_grad()
def fake_quantised(weight: Tensor) -> Tensor:
    """The weight quantised and dequantised, as the runtime sees it."""
    q, scale = fit(weight.reshape(-1, GROUP))
    return (q * scale).view_as(weight)
