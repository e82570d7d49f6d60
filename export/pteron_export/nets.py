"""Whole networks for benchmarks, compressed.

Each constant repeats one number, which compresses well; `pteron exec --random-constants` fills them from a seed.

The partitioner delegates convolutions of single images only; here it takes any batch.
"""

import gzip
from collections.abc import Callable
from pathlib import Path

import torch
from executorch.backends.vulkan import op_registry
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from torch import Tensor, nn


def conv(
    inner: int, outer: int, kernel: int, stride: int = 1, groups: int = 1, act: nn.Module | None = None
) -> nn.Module:
    layers: list[nn.Module] = [
        nn.Conv2d(inner, outer, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outer),
    ]
    return nn.Sequential(*layers, *([act] if act else []))


class Bottleneck(nn.Module):
    def __init__(self, inner: int, width: int, stride: int) -> None:
        super().__init__()
        outer = 4 * width
        self.layers = nn.Sequential(
            conv(inner, width, 1, act=nn.ReLU()), conv(width, width, 3, stride, act=nn.ReLU()), conv(width, outer, 1)
        )
        self.short = conv(inner, outer, 1, stride) if stride != 1 or inner != outer else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.layers(x) + self.short(x))


class Basic(nn.Module):
    def __init__(self, inner: int, width: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(conv(inner, width, 3, stride, act=nn.ReLU()), conv(width, width, 3))
        self.short = conv(inner, width, 1, stride) if stride != 1 or inner != width else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.layers(x) + self.short(x))


def resnet(block: Callable[[int, int, int], nn.Module], depths: list[int], expansion: int) -> nn.Module:
    layers: list[nn.Module] = [conv(3, 64, 7, 2, act=nn.ReLU()), nn.MaxPool2d(3, 2, 1)]
    inner = 64
    for stage, depth in enumerate(depths):
        width = 64 << stage
        for index in range(depth):
            layers.append(block(inner, width, 2 if index == 0 and stage > 0 else 1))
            inner = expansion * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, 1000))


class Inverted(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inner * expansion
        expand = [conv(inner, wide, 1, act=nn.ReLU6())] if expansion != 1 else []
        self.layers = nn.Sequential(*expand, conv(wide, wide, 3, stride, wide, nn.ReLU6()), conv(wide, outer, 1))
        self.residual = stride == 1 and inner == outer

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


def mobilenet_v2() -> nn.Module:
    table = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    layers: list[nn.Module] = [conv(3, 32, 3, 2, act=nn.ReLU6())]
    inner = 32
    for expansion, outer, depth, stride in table:
        for index in range(depth):
            layers.append(Inverted(inner, outer, stride if index == 0 else 1, expansion))
            inner = outer
    layers += [conv(inner, 1280, 1, act=nn.ReLU6()), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self, width: int = 64, depth: int = 4) -> None:
        super().__init__()

        def double(inner: int, outer: int) -> nn.Module:
            return nn.Sequential(conv(inner, outer, 3, act=nn.ReLU()), conv(outer, outer, 3, act=nn.ReLU()))

        widths = [width << level for level in range(depth + 1)]
        self.down = nn.ModuleList(double(inner, outer) for inner, outer in zip([3, *widths[:-1]], widths, strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * outer, outer, 2, 2) for outer in widths[-2::-1])
        self.merge = nn.ModuleList(double(2 * outer, outer) for outer in widths[-2::-1])
        self.head = nn.Conv2d(width, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for level, block in enumerate(self.down):
            if level > 0:
                kept.append(x)
                x = nn.functional.max_pool2d(x, 2)
            x = block(x)
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([kept.pop(), up(x)], 1))
        return self.head(x)


NETS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "resnet18": (lambda: resnet(Basic, [2, 2, 2, 2], 1), 224),
    "resnet50": (lambda: resnet(Bottleneck, [3, 4, 6, 3], 4), 224),
    "mobilenet_v2": (mobilenet_v2, 224),
    "unet": (UNet, 512),
}


def write_net(out: Path, name: str, batch: int) -> None:
    """Writes a program, compressed with gzip."""
    make, size = NETS[name]
    module = make().eval()
    with torch.no_grad():
        for index, parameter in enumerate(module.parameters()):
            # The exporter stores equal constants once, and a real net reads as many bytes as it has weights.
            parameter.fill_(1e-3 * (index + 1))
        exported = torch.export.export(module, (torch.zeros(batch, 3, size, size),))
    for features in op_registry.vulkan_supported_ops.values():
        if getattr(features.are_node_inputs_supported_fn, "__name__", "") == "check_conv_node":
            features.are_node_inputs_supported_fn = lambda node: True
    options = {"texture_limits": (1 << 20, 1 << 20, 1 << 20)}
    edge = to_edge_transform_and_lower(
        exported, partitioner=[VulkanPartitioner(options)], compile_config=EdgeCompileConfig(_check_ir_validity=False)
    )
    outside = [str(node.target) for node in edge.exported_program().graph.nodes if node.op == "call_function"]
    left = [target for target in outside if "executorch_call_delegate" not in target and "getitem" not in target]
    if left:
        raise ValueError(f"{name}: left outside the delegate: {left}")
    program = bytes(edge.to_executorch().buffer)
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}_b{batch}.pte.gz"
    path.write_bytes(gzip.compress(program, 6, mtime=0))
    print(f"{path}: {path.stat().st_size} bytes, {len(program)} uncompressed")
