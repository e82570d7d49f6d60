"""MTCNN, a face detector of three cascaded networks (Zhang et al. 2016), with the weights of facenet-pytorch.

A program with a method for each network. Values are (pixel - 127.5) / 128, channels first.
"""

import io
from collections.abc import Callable

import torch
from PIL import Image
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

from ..case import Arg, Case, Method
from .crepe import OPTIONS
from .packages import read

NAME = "mtcnn"
# Pictures of up to 320 pixels a side, in any proportion. Even sides: the pool's last window is then partial.
HEIGHT, WIDTH = 2 * Dim("rows", min=7, max=160), 2 * Dim("columns", min=7, max=160)
# The side of the picture that is kept beside the program.
SIDE = 256


class Cascade(nn.Module):
    """Convolutions with PReLU and pooling after them, as the three networks share them."""

    # Channels, kernel, and the size of the pool's window after it; 0 for none.
    layers: tuple[tuple[int, int, int], ...]

    def __init__(self, name: str) -> None:
        super().__init__()
        state = torch.load(io.BytesIO(read("facenet_pytorch", f"facenet_pytorch/data/{name}.pt")), weights_only=True)
        inner = 3
        for index, (outer, kernel, _) in enumerate(self.layers, 1):
            self.add_module(f"conv{index}", nn.Conv2d(inner, outer, kernel))
            self.add_module(f"prelu{index}", nn.PReLU(outer))
            inner = outer
        self.heads(state)
        self.load_state_dict(state)

    def heads(self, state: dict[str, Tensor]) -> None:
        """Adds the layers after the convolutions, of the sizes that the weights have."""
        for name in sorted({key.rsplit(".", 1)[0] for key in state}):
            weight = state[f"{name}.weight"]
            if name.startswith("dense"):
                self.add_module(name, nn.Linear(weight.shape[1], weight.shape[0]))
            elif name.startswith("conv") and "_" in name:
                self.add_module(name, nn.Conv2d(weight.shape[1], weight.shape[0], 1))
            elif not hasattr(self, name):
                self.add_module(name, nn.PReLU(weight.shape[0]))

    def features(self, x: Tensor) -> Tensor:
        for index, (_, _, pool) in enumerate(self.layers, 1):
            x = getattr(self, f"prelu{index}")(getattr(self, f"conv{index}")(x))
            if pool:
                x = functional.max_pool2d(x, pool, 2, ceil_mode=True)
        return x

    def vector(self, x: Tensor) -> Tensor:
        """The features in the order of the original implementation, which counts columns before rows."""
        return self.features(x).permute(0, 3, 2, 1).flatten(1)


class Proposals(Cascade):
    """Scores every window of 12 x 12 pixels, 2 apart: offsets of its box, and the probability of a face."""

    layers = ((10, 3, 2), (16, 3, 0), (32, 3, 0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.features(x)
        return self.conv4_2(x), torch.softmax(self.conv4_1(x), dim=1)


class Refinement(Cascade):
    """Judges a candidate of 24 x 24 pixels."""

    layers = ((28, 3, 3), (48, 3, 3), (64, 2, 0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.prelu4(self.dense4(self.vector(x)))
        return self.dense5_2(x), torch.softmax(self.dense5_1(x), dim=1)


class Output(Cascade):
    """Judges a candidate of 48 x 48 pixels, and finds eyes, nose and mouth: five x, then five y."""

    layers = ((32, 3, 3), (64, 3, 3), (64, 3, 2), (128, 2, 0))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.prelu5(self.dense5(self.vector(x)))
        return self.dense6_2(x), torch.softmax(self.dense6_1(x), dim=1), self.dense6_3(x)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "pnet": lambda: Proposals("pnet"),
    "rnet": lambda: Refinement("rnet"),
    "onet": lambda: Output("onet"),
}


def picture() -> Image.Image:
    """Eileen Collins, by NASA, public domain: the sample picture `astronaut` of scikit-image, at half its size."""
    image = Image.open(io.BytesIO(read("scikit_image", "skimage/data/astronaut.png"))).convert("RGB")
    return image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)


def jpeg() -> bytes:
    out = io.BytesIO()
    picture().save(out, "JPEG", quality=88, subsampling=0)
    return out.getvalue()


def crop(box: tuple[int, int, int, int], height: int, width: int) -> Arg:
    """A part of the picture (left, top, right, bottom), resized, as a program gets it."""
    part = picture().crop(box).resize((width, height), Image.Resampling.BILINEAR)
    pixels = torch.tensor(list(part.tobytes()), dtype=torch.float32).reshape(height, width, 3)
    values = ((pixels - 127.5) / 128).permute(2, 0, 1)
    return Arg((1, 3, height, width), torch.float32, values=tuple(values.flatten().tolist()))


def case() -> Case:
    face, sky, whole = (86, 30, 150, 94), (160, 0, 224, 64), (0, 0, SIDE, SIDE)
    calls = {
        "pnet": [[crop(whole, 40, 40)], [crop(whole, 64, 52)], [crop(face, 14, 16)]],
        "rnet": [[crop(face, 24, 24)], [crop(sky, 24, 24)]],
        "onet": [[crop(face, 48, 48)], [crop(sky, 48, 48)]],
    }
    dynamic = {"pnet": ({2: HEIGHT, 3: WIDTH},)}
    methods = {name: Method(make, calls[name], dynamic.get(name)) for name, make in NETWORKS.items()}
    return Case(NAME, "aten.convolution.default", methods, atol=1e-3, rtol=1e-3, delegated=True, vulkan=OPTIONS)
