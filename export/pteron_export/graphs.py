"""Compares two graphs of the Vulkan delegate call by call, whatever numbers their values have."""

import difflib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy
from executorch.backends.vulkan.serialization.vulkan_graph_schema import (
    OperatorCall,
    SymInt,
    ValueList,
    VkBytes,
    VkDataType,
    VkGraph,
    VkTensor,
)

from .read import NAMED, Delegate, Pte

# Only the tables of cosines and sines come this way, and this much another way of computing them may be off:
# an angle is up to some hundred radians, and as a float32 wrong in its last bit.
TABLES = "et_vk.prepack.default"
TABLE_ATOL = 2e-5

FIELDS = {
    "datatype": "dtype",
    "dims": "dims",
    "storage_type": "storage",
    "memory_layout": "layout",
    "staging_datatype": "staging",
}


@dataclass(frozen=True)
class Difference:
    # What it is about: the explained ones go by this.
    kind: str
    text: str


def graph_differences(ours: tuple[Pte, Delegate], theirs: tuple[Pte, Delegate]) -> Iterator[Difference]:
    return _Comparison(_Side(*ours), _Side(*theirs)).differences()


class _Side:
    def __init__(self, pte: Pte, delegate: Delegate) -> None:
        assert delegate.graph is not None
        self.graph: VkGraph = delegate.graph
        self.pte = pte
        self.delegate = delegate

    def value(self, number: int) -> Any:
        return self.graph.values[number].value

    def content(self, constant: VkBytes) -> bytes | None:
        if constant.offset == NAMED:
            return self.pte.named_data.get(constant.named_key)
        return self.delegate.constants[constant.offset :][: constant.length]


class _Pairs:
    """A bijection of ids: each number of one side for one of the other, from its first use on."""

    def __init__(self) -> None:
        self.forward: dict[int, int] = {}
        self.backward: dict[int, int] = {}

    def are_new(self, left: int, right: int) -> bool:
        return left not in self.forward and right not in self.backward

    def fit(self, left: int, right: int) -> bool:
        if self.are_new(left, right):
            self.forward[left], self.backward[right] = right, left
        return self.forward.get(left) == right and self.backward.get(right) == left


class _Comparison:
    def __init__(self, ours: _Side, theirs: _Side) -> None:
        self.ours = ours
        self.theirs = theirs
        # Tensors, symbolic integers, and objects of memory.
        self.values = _Pairs()
        self.memory = _Pairs()

    def differences(self) -> Iterator[Difference]:
        ours, theirs = self.ours.graph, self.theirs.graph
        for name in ("version", "shaders", "storage_type_override", "memory_layout_override"):
            yield from _unequal("graph", name, getattr(ours, name), getattr(theirs, name))
        yield from _unequal("constants", "number", len(ours.constants), len(theirs.constants))
        yield from self._keys()
        yield from self._lists("input", ours.input_ids, theirs.input_ids)
        names = [[call.name for call in graph.chain] for graph in (ours, theirs)]
        if names[0] != names[1]:
            yield from _other_operators(*names)
            return
        for number, (left, right) in enumerate(zip(ours.chain, theirs.chain, strict=True)):
            yield from self._calls(number, left, right)
        yield from self._lists("output", ours.output_ids, theirs.output_ids)

    def _keys(self) -> Iterator[Difference]:
        """Equal keys are equal bytes to whoever shares constants between programs."""
        for number, constant in enumerate(self.ours.graph.constants):
            content = self.ours.content(constant)
            if content is None or constant.named_key != hashlib.sha256(content).hexdigest():
                yield Difference("key", f"constant {number}: {constant.named_key!r} is not the hash of its bytes")

    def _calls(self, number: int, left: OperatorCall, right: OperatorCall) -> Iterator[Difference]:
        where = f"call {number} ({right.name})"
        yield from _unequal("node", where, left.node_id, right.node_id)
        if len(left.args) != len(right.args):
            yield Difference("arguments", f"{where}: {len(left.args)} instead of {len(right.args)}")
            return
        for place, (mine, other) in enumerate(zip(left.args, right.args, strict=True)):
            yield from self._value(f"{where}, argument {place}", mine, other, right.name)

    def _lists(self, what: str, left: list[int], right: list[int], operator: str = "") -> Iterator[Difference]:
        yield from _unequal("length", what, len(left), len(right))
        for place, (mine, other) in enumerate(zip(left, right, strict=False)):
            yield from self._value(f"{what}[{place}]", mine, other, operator)

    def _value(self, where: str, mine: int, other: int, operator: str) -> Iterator[Difference]:
        left, right = self.ours.value(mine), self.theirs.value(other)
        if type(left) is not type(right):
            yield Difference("value kind", f"{where}: {left} instead of {right}")
        elif isinstance(left, ValueList):
            yield from self._lists(where, left.items, right.items, operator)
        elif isinstance(left, (VkTensor, SymInt)):
            new = self.values.are_new(mine, other)
            if not self.values.fit(mine, other):
                yield Difference("identity", f"{where}: value {mine} is not what {other} is in the original")
            elif new and isinstance(left, VkTensor):
                yield from self._tensors(where, left, right, operator)
            elif new:
                yield from _unequal("symbolic integer", where, left.value, right.value)
        else:
            yield from _unequal("value", where, left, right)

    def _tensors(self, where: str, left: VkTensor, right: VkTensor, operator: str) -> Iterator[Difference]:
        for field, kind in FIELDS.items():
            yield from _unequal(kind, where, getattr(left, field), getattr(right, field))
        mine, other = left.mem_obj_id, right.mem_obj_id
        if min(mine, other) < 0:
            yield from _unequal("memory", where, mine, other)
        elif not self.memory.fit(mine, other):
            yield Difference("memory", f"{where}: object {mine} is not what {other} is in the original")
        if min(left.constant_id, right.constant_id) < 0:
            yield from _unequal("constant", where, left.constant_id >= 0, right.constant_id >= 0)
        else:
            yield from self._contents(where, left, right, operator)

    def _contents(self, where: str, left: VkTensor, right: VkTensor, operator: str) -> Iterator[Difference]:
        mine = self.ours.content(self.ours.graph.constants[left.constant_id])
        other = self.theirs.content(self.theirs.graph.constants[right.constant_id])
        if mine is None or other is None:
            yield Difference("content", f"{where}: its bytes are not in the file")
        elif len(mine) != len(other):
            yield Difference("content", f"{where}: {len(mine)} bytes instead of {len(other)}")
        elif mine != other:
            yield _other_content(where, mine, other, right.datatype, operator)


def _other_content(where: str, mine: bytes, other: bytes, datatype: VkDataType, operator: str) -> Difference:
    if datatype != VkDataType.FLOAT32:
        count = sum(a != b for a, b in zip(mine, other, strict=True))
        return Difference("content", f"{where}: {count} of {len(mine)} bytes differ")
    left, right = (numpy.frombuffer(data, dtype="<f4").astype(numpy.float64) for data in (mine, other))
    distance = float(numpy.abs(left - right).max())
    kind = "rotary rounding" if operator == TABLES and distance <= TABLE_ATOL else "content"
    return Difference(
        kind, f"{where}: {(left != right).sum()} of {len(left)} numbers differ, by at most {distance:.3g}"
    )


def _other_operators(ours: list[str], theirs: list[str]) -> Iterator[Difference]:
    matcher = difflib.SequenceMatcher(None, theirs, ours, autojunk=False)
    for tag, start, end, begin, stop in matcher.get_opcodes():
        if tag != "equal":
            found, wanted = (", ".join(names) or "nothing" for names in (ours[begin:stop], theirs[start:end]))
            yield Difference("operators", f"call {start}: {found} instead of {wanted}")


def _unequal(kind: str, where: str, mine: Any, other: Any) -> Iterator[Difference]:
    # A boolean is no integer here, an integer no float.
    if type(mine) is not type(other) or mine != other:
        yield Difference(kind, f"{where}: {mine} instead of {other}")
