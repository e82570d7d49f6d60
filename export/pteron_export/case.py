"""A fixture as a row of a table, complete before ExecuTorch runs."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Arg:
    """One input tensor: its shape, its dtype and where its values come from."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    # Exclusive upper bound of integers; unused for floats.
    below: int = 8
    # Explicit values, row-major, instead of random ones.
    values: tuple[float, ...] | None = None
    # For functions that are only defined there.
    positive: bool = False

    def make(self, seed: str) -> Tensor:
        if self.values is not None:
            return torch.tensor(self.values).to(self.dtype).reshape(self.shape)
        made = random_tensor(self.shape, self.dtype, seed, below=self.below)
        return made.abs() + torch.tensor(1 / 64, dtype=self.dtype) if self.positive else made


def f32(*shape: int) -> Arg:
    return Arg(shape, torch.float32)


def f16(*shape: int) -> Arg:
    return Arg(shape, torch.float16)


def flag(*shape: int) -> Arg:
    return Arg(shape, torch.bool, below=2)


def ints(dtype: torch.dtype, *shape: int, below: int = 8) -> Arg:
    return Arg(shape, dtype, below=below)


def exactly(dtype: torch.dtype, shape: Sequence[int], *values: float) -> Arg:
    return Arg(tuple(shape), dtype, values=values)


def position(at: int) -> Arg:
    """The `input_pos` of a Llama: int64 `[1]`."""
    return exactly(torch.int64, [1], at)


def random_tensor(shape: Sequence[int], dtype: torch.dtype, seed: str, below: int = 8, steps: int = 64) -> Tensor:
    """Values that are the same on every machine.

    Floats are multiples of 1/64 in [-2, 2): they come from integers, so no vectorised logarithm
    of some CPU has a say in them, and short sums of their products are exact in float32.
    More `steps` from one integer to the next fill the mantissa.
    """
    number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:7], "little")
    generator = torch.Generator().manual_seed(number)
    if dtype.is_floating_point:
        return (torch.randint(-2 * steps, 2 * steps, tuple(shape), generator=generator) / steps).to(dtype)
    low = -below if dtype.is_signed else 0
    return torch.randint(low, below, tuple(shape), generator=generator).to(dtype)


def fill_parameters(module: nn.Module, seed: str, scale: float = 0.25) -> nn.Module:
    """Replaces a module's initial parameters, which PyTorch draws in a machine's own way."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            values = random_tensor(parameter.shape, torch.float32, f"{seed}/{name}")
            parameter.copy_(values * scale)
    return module


@dataclass(frozen=True)
class Method:
    """A module and the calls made to it, in order: state lives across them."""

    module: Callable[[], nn.Module]
    calls: Sequence[Sequence[Arg]]
    # As `torch.export` takes it: one entry an input. The first call is the example it traces.
    dynamic: Any = None


@dataclass(frozen=True)
class Case:
    name: str
    op: str
    methods: Mapping[str, Method]
    atol: float = 1e-4
    rtol: float = 1e-4
    # Outputs that get no golden, because PyTorch leaves them uninitialised.
    unchecked: Sequence[int] = ()
    # False: no partitioner at all, so that every operator is a portable kernel call.
    delegate: bool = True
    # `op` is the name of a call in the delegate's graph; a program without it, or with anything
    # left outside the delegate, is not exported.
    delegated: bool = False
    # Operators that ExecuTorch would rewrite, remove or leave outside (see `kept.py`).
    kept: Sequence[str] = ()
    # Edge operators that a partitioner of their own takes before the others: they make delegates of their own.
    first: Sequence[str] = ()
    # Options of the Vulkan partitioner.
    vulkan: Mapping[str, Any] = field(default_factory=dict)
    # Options of `EdgeCompileConfig`.
    edge: Mapping[str, Any] = field(default_factory=dict)
    # Options of `ExecutorchBackendConfig`.
    backend: Mapping[str, Any] = field(default_factory=dict)
    constant_methods: Mapping[str, Any] = field(default_factory=dict)

    def exact(self) -> "Case":
        """For programs that only move or count: any difference is an error."""
        return replace(self, atol=0.0, rtol=0.0)


def case(
    name: str,
    op: str,
    module: Callable[[], nn.Module],
    *calls: Sequence[Arg],
    dynamic: Any = None,
    **options: Any,
) -> Case:
    """A row of the usual kind: one method, `forward`."""
    return Case(name, op, {"forward": Method(module, calls, dynamic)}, **options)


def lowered(
    name: str,
    op: str,
    module: Callable[[], nn.Module],
    *calls: Sequence[Arg],
    dynamic: Any = None,
    **options: Any,
) -> Case:
    """A row about one operator of the delegate, by the name that its graph has for it."""
    return case(name, op, module, *calls, dynamic=dynamic, delegated=True, **options)
