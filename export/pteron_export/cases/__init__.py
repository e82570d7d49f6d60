"""All cases: a row in one of these tables is all that a new fixture needs."""

from ..case import Case
from . import elementwise, layers, portable, programs, quantised, shapes

ALL: list[Case] = [
    *elementwise.CASES,
    *shapes.CASES,
    *layers.CASES,
    *quantised.CASES,
    *programs.CASES,
    *portable.CASES,
]
