"""All cases: a row in one of these tables is all that a new fixture needs."""

from ..case import Case
from . import (
    attention,
    binary,
    compare,
    conversions,
    copies,
    elementwise,
    fills,
    indexing,
    layers,
    matrices,
    portable,
    programs,
    quantised,
    reductions,
    shapes,
    unary,
)

ALL: list[Case] = [
    *elementwise.CASES,
    *shapes.CASES,
    *layers.CASES,
    *quantised.CASES,
    *programs.CASES,
    *portable.CASES,
    *unary.CASES,
    *binary.CASES,
    *compare.CASES,
    *reductions.CASES,
    *copies.CASES,
    *indexing.CASES,
    *fills.CASES,
    *conversions.CASES,
    *matrices.CASES,
    *attention.CASES,
]
