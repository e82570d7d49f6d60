"""A module from a plain function, for rows whose operator has no parameters."""

from collections.abc import Callable
from typing import Any

from torch import nn


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def fn(function: Callable[..., Any]) -> Callable[[], nn.Module]:
    return lambda: Function(function)
