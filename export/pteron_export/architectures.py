"""Whole networks of the usual kinds, small, with weights that follow from names.

`SMALL` are fixtures. `FULL` are torchvision's own, in their usual widths, for `python -m pteron_export models`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .case import random_tensor
from .nets import UNet, conv


def seeded(module: nn.Module, seed: str) -> nn.Module:
    """Fills parameters and statistics such that activations keep their size from layer to layer."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            values = random_tensor(parameter.shape, torch.float32, f"{seed}/{name}")
            if parameter.dim() < 2:
                # Biases, and the scales of normalisation, which start at 1.
                parameter.copy_(values / 16 + (1 if name.endswith("weight") else 0))
            else:
                parameter.copy_(values * math.sqrt(1.5 / max(1, parameter[0].numel())))
        for name, buffer in module.named_buffers():
            if name.endswith("running_mean"):
                buffer.copy_(random_tensor(buffer.shape, torch.float32, f"{seed}/{name}") / 8)
            elif name.endswith("running_var"):
                buffer.copy_(1 + random_tensor(buffer.shape, torch.float32, f"{seed}/{name}").abs() / 4)
    return module


class Squeeze(nn.Module):
    """MobileNetV3's squeeze-and-excite."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        scale = functional.relu(self.down(x.mean(dim=(2, 3), keepdim=True)))
        return x * functional.hardsigmoid(self.up(scale))


class Inverted(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int, wide: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            conv(inner, wide, 1, act=nn.Hardswish()),
            conv(wide, wide, 5, stride, wide, nn.Hardswish()),
            Squeeze(wide),
            conv(wide, outer, 1),
        )
        self.residual = stride == 1 and inner == outer

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


def mobilenet_v3() -> nn.Module:
    body = [conv(3, 8, 3, 2, act=nn.Hardswish()), Inverted(8, 12, 2, 24), Inverted(12, 12, 1, 36)]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 10))


class Dense(nn.Module):
    """DenseNet: each layer sees all before it, normalised before the convolution."""

    def __init__(self, width: int = 8, growth: int = 4, layers: int = 3) -> None:
        super().__init__()
        widths = [width + growth * index for index in range(layers)]
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(inner), nn.ReLU(), nn.Conv2d(inner, growth, 3, padding=1, bias=False))
            for inner in widths
        )
        outer = width + growth * layers
        self.transition = nn.Sequential(
            nn.BatchNorm2d(outer), nn.ReLU(), nn.Conv2d(outer, outer // 2, 1), nn.AvgPool2d(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return self.transition(x)


def densenet() -> nn.Module:
    return nn.Sequential(
        conv(3, 8, 3, act=nn.ReLU()), Dense(), Dense(10), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(11, 7)
    )


class Inception(nn.Module):
    """Branches of 1 x 1, 1 x 5 and 5 x 1, 3 x 3 twice, and a pool, side by side."""

    def __init__(self, inner: int) -> None:
        super().__init__()
        self.one = conv(inner, 6, 1, act=nn.ReLU())
        self.long = nn.Sequential(
            nn.Conv2d(inner, 6, (1, 5), padding=(0, 2)), nn.ReLU(), nn.Conv2d(6, 6, (5, 1), padding=(2, 0)), nn.ReLU()
        )
        self.twice = nn.Sequential(conv(inner, 4, 3, act=nn.ReLU()), conv(4, 6, 3, act=nn.ReLU()))
        self.pooled = conv(inner, 6, 1, act=nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        pooled = functional.avg_pool2d(x, 3, stride=1, padding=1)
        return torch.cat([self.one(x), self.long(x), self.twice(x), self.pooled(pooled)], 1)


def inception() -> nn.Module:
    stem = [nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2)]
    return nn.Sequential(*stem, Inception(8), Inception(24), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 9))


class Lraspp(nn.Module):
    """Segmentation: a gated low resolution, enlarged, beside a high one."""

    def __init__(self) -> None:
        super().__init__()
        self.high = conv(3, 8, 3, 2, act=nn.ReLU())
        self.low = nn.Sequential(conv(8, 12, 3, 2, act=nn.Hardswish()), conv(12, 12, 3, 2, act=nn.Hardswish()))
        self.branch, self.gate = conv(12, 12, 1, act=nn.ReLU()), nn.Conv2d(12, 12, 1, bias=False)
        self.low_head, self.high_head = nn.Conv2d(12, 5, 1), nn.Conv2d(8, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        high = self.high(x)
        low = self.low(high)
        low = self.branch(low) * torch.sigmoid(self.gate(low.mean(dim=(2, 3), keepdim=True)))
        size = [high.shape[2], high.shape[3]]
        low = functional.interpolate(low, size=size, mode="bilinear", align_corners=False)
        return self.low_head(low) + self.high_head(high)


class SsdLite(nn.Module):
    """Detection: classes and boxes of anchors, from features of two sizes, in one list each."""

    def __init__(self, anchors: int = 3, classes: int = 4) -> None:
        super().__init__()
        self.first = nn.Sequential(conv(3, 8, 3, 2, act=nn.ReLU6()), conv(8, 8, 3, 2, 8, nn.ReLU6()), conv(8, 16, 1))
        self.second = nn.Sequential(conv(16, 16, 3, 2, 16, nn.ReLU6()), conv(16, 24, 1, act=nn.ReLU6()))
        self.classes = nn.ModuleList(self._head(width, anchors * classes) for width in (16, 24))
        self.boxes = nn.ModuleList(self._head(width, anchors * 4) for width in (16, 24))
        self.count = classes

    def _head(self, width: int, outer: int) -> nn.Module:
        return nn.Sequential(conv(width, width, 3, 1, width, nn.ReLU6()), nn.Conv2d(width, outer, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = [self.first(x)]
        features.append(self.second(features[0]))

        def listed(heads: nn.ModuleList, last: int) -> Tensor:
            maps = [head(feature) for head, feature in zip(heads, features, strict=True)]
            return torch.cat([one.permute(0, 2, 3, 1).reshape(1, -1, last) for one in maps], 1)

        return torch.softmax(listed(self.classes, self.count), dim=-1), listed(self.boxes, 4)


class Crnn(nn.Module):
    """Text recognition: convolutions, then an LSTM in both directions along the line."""

    def __init__(self, hidden: int = 8, letters: int = 11) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv(1, 8, 3, act=nn.ReLU()), nn.MaxPool2d(2), conv(8, 12, 3, act=nn.ReLU()), nn.MaxPool2d((4, 1))
        )
        self.rnn = nn.LSTM(12, hidden, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * hidden, letters)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x).squeeze(2).permute(0, 2, 1)
        return functional.log_softmax(self.head(self.rnn(x)[0]), dim=-1)


def wav2letter() -> nn.Module:
    """Speech: convolutions along time alone."""
    table = [(1, 12, 48, 16), (12, 12, 7, 1), (12, 24, 7, 1), (24, 24, 1, 1)]
    layers: list[nn.Module] = []
    for inner, outer, kernel, stride in table:
        layers += [nn.Conv1d(inner, outer, kernel, stride, kernel // 2), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv1d(24, 9, 1), nn.LogSoftmax(dim=1))


def keywords() -> nn.Module:
    """Keyword spotting: depthwise separable convolutions over a spectrogram of 49 x 10."""
    layers: list[nn.Module] = [nn.Conv2d(1, 16, (10, 4), (2, 2), (5, 1)), nn.BatchNorm2d(16), nn.ReLU()]
    for _ in range(3):
        layers += [conv(16, 16, 3, 1, 16, nn.ReLU()), conv(16, 16, 1, act=nn.ReLU())]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 12), nn.Softmax(dim=-1))


class Gru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(6, 8, num_layers=2, batch_first=True), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        outputs, state = self.rnn(x)
        return self.head(outputs), state


class Edsr(nn.Module):
    """Super-resolution: residual blocks, then a pixel shuffle."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, width, 3, padding=1)
        blocks = (
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))
            for _ in range(2)
        )
        self.blocks = nn.ModuleList(blocks)
        self.tail = nn.Sequential(nn.Conv2d(width, 12, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.head(x)
        for block in self.blocks:
            x = x + 0.1 * block(x)
        return self.tail(x)


class Vocoder(nn.Module):
    """HiFi-GAN's generator: transposed convolutions, each followed by dilated ones of two kernels.

    Transposed ones are of images one row high: the partitioner leaves those along one dimension outside.
    """

    def __init__(self, bands: int = 10, width: int = 16) -> None:
        super().__init__()
        self.head = nn.Conv1d(bands, width, 7, padding=3)
        self.ups = nn.ModuleList(
            nn.ConvTranspose2d(width >> i, width >> (i + 1), (1, 4), (1, 2), (0, 1)) for i in range(2)
        )
        self.blocks = nn.ModuleList(
            nn.ModuleList(
                nn.Conv1d(
                    width >> (i + 1), width >> (i + 1), kernel, padding=dilation * (kernel // 2), dilation=dilation
                )
                for kernel, dilation in ((3, 1), (3, 3), (7, 1))
            )
            for i in range(2)
        )
        self.tail = nn.Conv1d(width >> 2, 1, 7, padding=3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.head(x)
        for up, blocks in zip(self.ups, self.blocks, strict=True):
            x = up(functional.leaky_relu(x, 0.1).unsqueeze(2)).squeeze(2)
            for block in blocks:
                x = x + block(functional.leaky_relu(x, 0.1))
        return torch.tanh(self.tail(functional.leaky_relu(x, 0.1)))


class Channels(nn.Module):
    """ShuffleNet's shuffle between two grouped convolutions, as a permutation of five dimensions."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first, self.second = conv(width, width, 1, groups=4, act=nn.ReLU()), conv(width, width, 3, groups=width)

    def forward(self, x: Tensor) -> Tensor:
        batch, width, rows, columns = x.shape
        mixed = self.first(x).reshape(batch, 4, width // 4, rows, columns).permute(0, 2, 1, 3, 4)
        return x + self.second(mixed.reshape(batch, width, rows, columns))


def shufflenet() -> nn.Module:
    return nn.Sequential(
        conv(3, 16, 3, 2, act=nn.ReLU()),
        Channels(),
        Channels(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 6),
    )


class Yolo(nn.Module):
    """YOLO's blocks: SiLU, a split with a bottleneck, spatial pyramid pooling, and an enlarged map."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 8, 3, 2, act=nn.SiLU()), conv(8, 16, 3, 2, act=nn.SiLU()))
        self.split, self.inner, self.merge = (
            conv(16, 16, 1, act=nn.SiLU()),
            conv(8, 8, 3, act=nn.SiLU()),
            conv(24, 16, 1, act=nn.SiLU()),
        )
        self.down = conv(16, 16, 3, 2, act=nn.SiLU())
        self.pyramid = conv(64, 16, 1, act=nn.SiLU())
        self.head = nn.Conv2d(32, 9, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.split(self.stem(x))
        left, right = x.chunk(2, 1)
        large = self.merge(torch.cat([left, right, self.inner(right)], 1))
        small = self.down(large)
        pools = [small]
        for _ in range(3):
            pools.append(functional.max_pool2d(pools[-1], 5, 1, 2))
        small = self.pyramid(torch.cat(pools, 1))
        enlarged = functional.interpolate(small, scale_factor=2.0, mode="nearest")
        return torch.sigmoid(self.head(torch.cat([large, enlarged], 1)))


# The module, its input's largest shape, dimensions that live with their step, and further live sizes.
SMALL: dict[str, tuple[Callable[[], nn.Module], Sequence[int], dict[int, int], Sequence[Sequence[int]]]] = {
    "net_mobilenet_v3": (mobilenet_v3, (1, 3, 32, 32), {2: 4, 3: 4}, [(1, 3, 24, 20), (1, 3, 8, 12)]),
    "net_densenet": (densenet, (1, 3, 16, 16), {2: 4, 3: 4}, [(1, 3, 12, 8), (1, 3, 8, 16)]),
    "net_inception": (inception, (1, 3, 33, 33), {}, []),
    "net_unet": (lambda: UNet(6, 2), (1, 3, 24, 24), {2: 4, 3: 4}, [(1, 3, 16, 8), (1, 3, 8, 20)]),
    "net_lraspp": (Lraspp, (1, 3, 24, 32), {}, []),
    "net_ssdlite": (SsdLite, (1, 3, 32, 32), {}, []),
    "net_crnn": (Crnn, (1, 1, 8, 24), {}, []),
    "net_wav2letter": (wav2letter, (1, 1, 960), {2: 16}, [(1, 1, 480), (1, 1, 64)]),
    "net_keywords": (keywords, (1, 1, 49, 10), {}, []),
    "net_gru": (Gru, (1, 7, 6), {}, []),
    "net_edsr": (Edsr, (1, 3, 16, 16), {2: 1, 3: 1}, [(1, 3, 9, 13), (1, 3, 5, 4)]),
    "net_vocoder": (Vocoder, (1, 10, 24), {2: 1}, [(1, 10, 9), (1, 10, 5)]),
    "net_shufflenet": (shufflenet, (1, 3, 16, 16), {}, []),
    "net_yolo": (Yolo, (1, 3, 32, 32), {}, []),
}


def torchvision_nets() -> dict[str, tuple[Callable[[], nn.Module], Sequence[int]]]:
    """torchvision's own classes. Imported late: the fixtures do not need it."""
    from torchvision import models

    class Picked(nn.Module):
        """One of several named outputs."""

        def __init__(self, module: nn.Module, key: str) -> None:
            super().__init__()
            self.module, self.key = module, key

        def forward(self, x: Tensor) -> Any:
            return self.module(x)[self.key]

    class Detector(nn.Module):
        """The network of a detector, without what it does to boxes afterwards."""

        def __init__(self, detector: Any) -> None:
            super().__init__()
            self.backbone, self.head = detector.backbone, detector.head

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            found = self.head(list(self.backbone(x).values()))
            return found["bbox_regression"], found["cls_logits"]

    none = {"weights": None}
    no_backbone = {"weights": None, "weights_backbone": None}
    image = (1, 3, 64, 64)
    return {
        "mobilenet_v2": (lambda: models.mobilenet_v2(**none), image),
        "mobilenet_v3_small": (lambda: models.mobilenet_v3_small(**none), image),
        "resnet18": (lambda: models.resnet18(**none), image),
        "efficientnet_b0": (lambda: models.efficientnet_b0(**none), image),
        "shufflenet_v2": (lambda: models.shufflenet_v2_x0_5(**none), image),
        "squeezenet": (lambda: models.squeezenet1_1(**none), image),
        "densenet121": (lambda: models.densenet121(**none), image),
        "convnext": (
            lambda: models.ConvNeXt(
                [models.convnext.CNBlockConfig(24, 48, 2), models.convnext.CNBlockConfig(48, None, 2)]
            ),
            image,
        ),
        "regnet": (lambda: models.regnet_y_400mf(**none), image),
        "inception_v3": (lambda: models.inception_v3(**none, init_weights=False, aux_logits=False), (1, 3, 96, 96)),
        "lraspp": (lambda: Picked(models.segmentation.lraspp_mobilenet_v3_large(**no_backbone), "out"), image),
        "deeplab": (lambda: Picked(models.segmentation.deeplabv3_mobilenet_v3_large(**no_backbone), "out"), image),
        "ssdlite": (lambda: Detector(models.detection.ssdlite320_mobilenet_v3_large(**no_backbone)), (1, 3, 96, 96)),
    }
