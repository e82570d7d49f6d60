"""Quantisation with parameters in tensors, and the choice of such parameters."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torchao.quantization.quant_primitives import dequantize_affine, quantize_affine

from ..case import Arg, Case, exactly, f32, ints, lowered
from .function import fn
from .patterns import ARITHMETIC, EXACT, LENGTH, live

OPS = torch.ops.quantized_decomposed
LOW, HIGH = -128, 127


def scales(*shape: int) -> Arg:
    """Powers of two times odd numbers: quotients of the inputs are never halfway between two integers."""
    count = torch.Size(shape).numel()
    return exactly(torch.float32, shape, *((3 + 4 * (i % 5)) / 256 for i in range(count)))


def zeros(*shape: int) -> Arg:
    count = torch.Size(shape).numel()
    return exactly(torch.int32, shape, *((i * 7) % 23 - 11 for i in range(count)))


def int8(*shape: int) -> Arg:
    return ints(torch.int8, *shape, below=127)


def rows(name: str, op: str, function: Callable[..., Any], tolerance: dict[str, float]) -> Callable[..., Case]:
    def row(pattern: str, *calls: Sequence[Arg], dynamic: Any = None) -> Case:
        return lowered(f"{name}_{pattern}", op, fn(function), *calls, dynamic=dynamic, **tolerance)

    return row


def channels(axis: int) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    def quantize(x: Tensor, s: Tensor, z: Tensor) -> Tensor:
        return OPS.quantize_per_channel(x, s, z, axis, LOW, HIGH, torch.int8)

    def dequantize(q: Tensor, s: Tensor, z: Tensor) -> Tensor:
        return OPS.dequantize_per_channel(q, s, z, axis, LOW, HIGH, torch.int8)

    return quantize, dequantize


def per_channel() -> list[Case]:
    cases = []
    shapes = {
        "rank2": (0, (3, 8)),
        "last": (1, (5, 7)),
        "rank3": (1, (2, 3, 5)),
        "rank4": (0, (4, 3, 3, 3)),
        "one": (0, (1, 9)),
    }
    for place, (name, arg) in enumerate((("quantize", f32), ("dequantize", int8))):
        op = f"quantized_decomposed.{name}_per_channel.default"
        tolerance = ARITHMETIC if place else EXACT
        for pattern, (axis, shape) in shapes.items():
            row = rows(f"{name}_per_channel", op, channels(axis)[place], tolerance)
            cases.append(row(pattern, [arg(*shape), scales(shape[axis]), zeros(shape[axis])]))
        row = rows(f"{name}_per_channel", op, channels(1)[place], tolerance)
        calls = live(lambda n, arg=arg: [arg(n, 6), scales(6), zeros(6)])
        cases.append(row("dynamic", *calls, dynamic=({0: LENGTH}, {}, {})))
    return cases


def per_token() -> list[Case]:
    def quantize(x: Tensor, s: Tensor, z: Tensor) -> Tensor:
        return OPS.quantize_per_token(x, s, z, LOW, HIGH, torch.int8)

    def dequantize(q: Tensor, s: Tensor, z: Tensor) -> Tensor:
        return OPS.dequantize_per_token(q, s, z, LOW, HIGH, torch.int8, torch.float32)

    cases = []
    shapes = {"rank2": (3, 8), "odd": (5, 7), "rank3": (2, 3, 5), "one_row": (1, 9), "wide": (2, 65)}
    for name, function, arg in (("quantize", quantize, f32), ("dequantize", dequantize, int8)):
        op = f"quantized_decomposed.{name}_per_token.default"
        row = rows(f"{name}_per_token", op, function, ARITHMETIC if function is dequantize else EXACT)
        for pattern, shape in shapes.items():
            each = (*shape[:-1], 1)
            cases.append(row(pattern, [arg(*shape), scales(*each), zeros(*each)]))
        calls = live(lambda n, arg=arg: [arg(n, 6), scales(n, 1), zeros(n, 1)])
        cases.append(row("dynamic", *calls, dynamic=({0: LENGTH}, {0: LENGTH}, {0: LENGTH})))
    return cases


def per_tensor() -> list[Case]:
    def quantize(x: Tensor, s: Tensor, z: Tensor) -> Tensor:
        return OPS.quantize_per_tensor.tensor(x, s, z, LOW, HIGH, torch.int8)

    def dequantize(q: Tensor, s: Tensor, z: Tensor) -> Tensor:
        return OPS.dequantize_per_tensor.tensor(q, s, z, LOW, HIGH, torch.int8)

    cases = []
    shapes = {"rank1": (13,), "rank2": (3, 7), "rank3": (2, 3, 5), "rank4": (1, 2, 3, 4), "one": (1, 1)}
    for name, function, arg in (("quantize", quantize, f32), ("dequantize", dequantize, int8)):
        op = f"quantized_decomposed.{name}_per_tensor.tensor"
        row = rows(f"{name}_per_tensor_tensor", op, function, ARITHMETIC if function is dequantize else EXACT)
        for pattern, shape in shapes.items():
            cases.append(row(pattern, [arg(*shape), scales(), zeros()]))
        calls = live(lambda n, arg=arg: [arg(n, 6), scales(), zeros()])
        cases.append(row("dynamic", *calls, dynamic=({0: LENGTH}, {}, {})))
    return cases


def affine() -> list[Case]:
    def functions(block: list[int]) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
        def quantize(x: Tensor, s: Tensor, z: Tensor) -> Tensor:
            return quantize_affine(x, block, s, z, torch.int8, LOW, HIGH)

        def dequantize(q: Tensor, s: Tensor, z: Tensor) -> Tensor:
            return dequantize_affine(q, block, s, z, torch.int8, LOW, HIGH)

        return quantize, dequantize

    cases = []
    shapes = {
        "groups": ((3, 16), [1, 8], (3, 2)),
        "rows": ((5, 7), [1, 7], (5, 1)),
        "tensor": ((4, 6), [4, 6], (1, 1)),
        "columns": ((6, 5), [3, 1], (2, 5)),
        "rank3": ((2, 3, 8), [1, 1, 4], (2, 3, 2)),
    }
    for place, (name, arg) in enumerate((("quantize", f32), ("dequantize", int8))):
        op, tolerance = f"torchao.{name}_affine.default", ARITHMETIC if place else EXACT
        for pattern, (shape, block, blocks) in shapes.items():
            row = rows(f"{name}_affine", op, functions(block)[place], tolerance)
            cases.append(row(pattern, [arg(*shape), scales(*blocks), zeros(*blocks)]))
        row = rows(f"{name}_affine", op, functions([1, 4])[place], tolerance)
        calls = live(lambda n, arg=arg: [arg(n, 8), scales(n, 2), zeros(n, 2)])
        cases.append(row("dynamic", *calls, dynamic=({0: LENGTH}, {0: LENGTH}, {0: LENGTH})))
    return cases


def chosen() -> list[Case]:
    whole = rows(
        "choose_qparams_tensor",
        "quantized_decomposed.choose_qparams.tensor",
        lambda x: OPS.choose_qparams.tensor(x, LOW, HIGH, 1.1920928955078125e-07, torch.int8),
        ARITHMETIC,
    )
    tokens = rows(
        "choose_qparams_per_token",
        "quantized_decomposed.choose_qparams_per_token_asymmetric.default",
        lambda x: OPS.choose_qparams_per_token_asymmetric(x, torch.int8),
        ARITHMETIC,
    )
    positive = Arg((4, 5), torch.float32, positive=True)
    shapes = {
        "rank2": [f32(4, 9)],
        "odd": [f32(3, 7)],
        "rank3": [f32(2, 3, 5)],
        "long": [f32(2, 1037)],
        "positive": [positive],
    }
    return [
        *(row(pattern, call) for row in (whole, tokens) for pattern, call in shapes.items()),
        *(row("dynamic", *live(lambda n: [f32(n, 6)]), dynamic=({0: LENGTH},)) for row in (whole, tokens)),
    ]


CASES: list[Case] = [*per_channel(), *per_token(), *per_tensor(), *affine(), *chosen()]
