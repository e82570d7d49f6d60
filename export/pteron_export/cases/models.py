"""Small networks of the usual kinds, whole."""

from torch.export import Dim

from ..architectures import SMALL, seeded
from ..case import Case, case, f32


def _row(name: str) -> Case:
    make, largest, steps, further = SMALL[name]
    calls = [[f32(*shape)] for shape in (largest, *further)]
    live = {dim: _dim(dim, largest[dim], step) for dim, step in steps.items()}
    dynamic = (live,) if live else None
    return case(name, "network", lambda: seeded(make(), name).eval(), *calls, dynamic=dynamic, atol=1e-4, rtol=1e-3)


def _dim(dim: int, largest: int, step: int) -> Dim:
    base = Dim(f"live{dim}", min=2, max=largest // step)
    return step * base if step > 1 else base


CASES: list[Case] = [_row(name) for name in SMALL]
