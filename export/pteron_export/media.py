"""Pictures as Pillow decodes and scales them, and sound as torchaudio resamples it, to compare `pteron::media` with."""

import io
import math
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from .case import random_tensor
from .fixture import write_json

NAME = "pictures"
WIDTH, HEIGHT = 61, 43
# Sizes (width, height): smaller, larger, both at once, one pixel, and the same.
SIZES = [(30, 20), (13, 43), (61, 9), (100, 90), (7, 80), (1, 1), (61, 43)]
RATES = [(44_100, 16_000), (8_000, 16_000), (22_050, 24_000)]


def picture() -> Image.Image:
    """Gradients, edges and noise."""
    noise = random_tensor([HEIGHT, WIDTH, 3], torch.uint8, "media/noise", below=64).int()
    rows, columns = torch.arange(HEIGHT)[:, None], torch.arange(WIDTH)[None, :]
    planes = [rows * 4 + columns * 0, columns * 3 + rows * 0, ((rows // 8 + columns // 8) % 2) * 190]
    pixels = (torch.stack(planes, dim=2) + noise).clamp(0, 255).to(torch.uint8)
    return Image.frombytes("RGB", (WIDTH, HEIGHT), pixels.numpy().tobytes())


def photograph() -> Image.Image:
    """Smooth colours, as JPEG is made for."""
    rows, columns = torch.arange(32)[:, None] / 32, torch.arange(48)[None, :] / 48
    planes = [
        0.5 + 0.4 * torch.sin(6 * rows + 2 * columns),
        rows + 0 * columns,
        0.5 + 0.4 * torch.cos(5 * columns * rows),
    ]
    pixels = (torch.stack(planes, dim=2) * 255).round().clamp(0, 255).to(torch.uint8)
    return Image.frombytes("RGB", (48, 32), pixels.numpy().tobytes())


def resampled(samples: Tensor, source: int, target: int) -> Tensor:
    """`torchaudio.functional.resample` with its defaults, written as the sum that it is."""
    divisor = math.gcd(source, target)
    source, target = source // divisor, target // divisor
    count = -(-len(samples) * target // source)
    band = min(source, target) * 0.99
    out = torch.zeros(count, dtype=torch.float64)
    places = torch.arange(len(samples), dtype=torch.float64)
    for index in range(count):
        time = ((places - index * source / target) / source * band).clamp(-6, 6)
        weights = torch.sinc(time) * torch.cos(time * math.pi / 12) ** 2 * band / source
        out[index] = (samples * weights).sum()
    return out.float()


def write_media(root: Path) -> None:
    """Writes `root/pictures/`."""
    folder = root / NAME
    folder.mkdir(parents=True, exist_ok=True)
    image = picture()
    image.save(folder / "picture.png", optimize=True)
    image.convert("L").save(folder / "grey.png", optimize=True)
    for width, height in SIZES:
        scaled = image.resize((width, height), Image.Resampling.BILINEAR)
        (folder / f"{width}x{height}.rgb").write_bytes(scaled.tobytes())
    for name, options in {"baseline": {}, "progressive": {"progressive": True, "subsampling": 0}}.items():
        out = io.BytesIO()
        photograph().save(out, "JPEG", quality=90, **options)
        (folder / f"{name}.jpg").write_bytes(out.getvalue())
        (folder / f"{name}.rgb").write_bytes(Image.open(io.BytesIO(out.getvalue())).convert("RGB").tobytes())
    samples = random_tensor([400], torch.float64, "media/samples")
    (folder / "samples.bin").write_bytes(samples.float().numpy().tobytes())
    for source, target in RATES:
        converted = resampled(samples, source, target)
        (folder / f"{source}to{target}.bin").write_bytes(converted.numpy().tobytes())
    write_json(folder / "sizes.json", {"sizes": SIZES, "rates": RATES})
