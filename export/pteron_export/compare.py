"""Finds where two trees of dataclasses differ, and says it by field."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def differences(left: Any, right: Any, path: str) -> Iterator[str]:
    """One line for each leaf that differs; `path` names the root."""
    if isinstance(left, (bytes, bytearray)) and isinstance(right, (bytes, bytearray)):
        yield from _bytes(bytes(left), bytes(right), path)
    elif type(left) is not type(right):
        yield f"{path}: {_short(left)} is not {_short(right)}"
    elif dataclasses.is_dataclass(left):
        for field in dataclasses.fields(left):
            yield from differences(getattr(left, field.name), getattr(right, field.name), f"{path}.{field.name}")
    elif isinstance(left, Mapping):
        yield from _mappings(left, right, path)
    elif isinstance(left, Sequence) and not isinstance(left, str):
        yield from _sequences(left, right, path)
    elif not _same_scalar(left, right):
        yield f"{path}: {_short(left)} is not {_short(right)}"


def _bytes(left: bytes, right: bytes, path: str) -> Iterator[str]:
    if len(left) != len(right):
        yield f"{path}: {len(left)} bytes, not {len(right)}"
    elif left != right:
        at = next(i for i, (a, b) in enumerate(zip(left, right, strict=True)) if a != b)
        count = sum(a != b for a, b in zip(left, right, strict=True))
        yield f"{path}: {count} of {len(left)} bytes differ, the first at {at}"


def _mappings(left: Mapping[Any, Any], right: Mapping[Any, Any], path: str) -> Iterator[str]:
    for key in sorted(left.keys() - right.keys()):
        yield f"{path}[{key!r}]: only in the first"
    for key in sorted(right.keys() - left.keys()):
        yield f"{path}[{key!r}]: only in the second"
    for key in left:
        if key in right:
            yield from differences(left[key], right[key], f"{path}[{key!r}]")


def _sequences(left: Sequence[Any], right: Sequence[Any], path: str) -> Iterator[str]:
    if len(left) != len(right):
        yield f"{path}: {len(left)} items, not {len(right)}"
    # A difference in length is reported above.
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        yield from differences(a, b, f"{path}[{index}]")


def _same_scalar(left: Any, right: Any) -> bool:
    if isinstance(left, float) and math.isnan(left):
        return math.isnan(right)
    return left == right


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
