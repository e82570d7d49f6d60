"""`check-converted`: Pteron must convert a checkpoint to the program that ExecuTorch's exporter writes.

Two files that differ in these alone are the same: where flatbuffers put their tables, the numbers of values and of
constants in a delegate's graph, whether equal scalars are one value or several, where segments lie.
"""

import copy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from executorch.exir.schema import ExecutionPlan

from .checked import CheckResult, check_files
from .compare import differences
from .graphs import Difference, graph_differences
from .read import Delegate, Pte, read_pte
from .written import inconsistencies

# Permitted differences by kind, with the reason. They are counted.
EXPLAINED = {
    "rotary rounding": "cosines and sines come from another math library, which rounds the last bits differently",
}
# Printed differences per kind: one missing operator shifts all that follow it.
SHOWN = 8
# Runtimes that map the file need this alignment.
ALIGNMENT = 128


def check_converted(paths: list[Path], against: Path) -> int:
    return check_files(paths, against, (".pte",), _check)


def _check(file: Path, original: Path | None) -> CheckResult:
    ours = read_pte(file.read_bytes())
    problems = [*inconsistencies(ours), *_misplaced(ours)]
    if original is None or problems:
        return CheckResult(problems)
    found = list(_differences(ours, read_pte(original.read_bytes())))
    explained = [difference for difference in found if difference.kind in EXPLAINED]
    unexplained = [difference for difference in found if difference.kind not in EXPLAINED]
    counts = Counter(difference.kind for difference in explained)
    return CheckResult(
        list(_lines(unexplained)), [f"explained: {kind} ({count}): {EXPLAINED[kind]}" for kind, count in counts.items()]
    )


def _lines(found: list[Difference]) -> Iterator[str]:
    for kind, count in Counter(difference.kind for difference in found).items():
        shown = [difference for difference in found if difference.kind == kind][:SHOWN]
        yield from (f"{kind}: {difference.text}" for difference in shown)
        if count > SHOWN:
            yield f"{kind}: and {count - SHOWN} more"


def _misplaced(pte: Pte) -> Iterator[str]:
    for number, segment in enumerate(pte.segments):
        if segment.offset % ALIGNMENT:
            yield f"segment {number} starts at {segment.offset}, which is not a multiple of {ALIGNMENT}"


def _differences(ours: Pte, theirs: Pte) -> Iterator[Difference]:
    yield from _program_differences(ours, theirs)
    # `_program_differences` reports another number of delegates.
    for left, right in zip(ours.delegates, theirs.delegates, strict=False):
        yield from _delegate_differences(ours, left, theirs, right)


def _program_differences(ours: Pte, theirs: Pte) -> Iterator[Difference]:
    names = [[plan.name for plan in pte.program.execution_plan] for pte in (ours, theirs)]
    if names[0] != names[1]:
        yield Difference("methods", f"{', '.join(names[0])} instead of {', '.join(names[1])}")
    plans = {plan.name: plan for plan in ours.program.execution_plan}
    for plan in theirs.program.execution_plan:
        if plan.name in plans:
            lines = differences(_without_data(plans[plan.name]), _without_data(plan), "")
            yield from (Difference(f"method {plan.name}", line.removeprefix(".")) for line in lines)
    left, right = ({"version": pte.program.version, "mutable data": pte.mutable_data} for pte in (ours, theirs))
    yield from (Difference("program", line) for line in differences(left, right, ""))


def _without_data(plan: ExecutionPlan) -> ExecutionPlan:
    """Clears the positions of delegates in the file, which may differ."""
    plan = copy.deepcopy(plan)
    for delegate in plan.delegates:
        delegate.processed.index = 0
    return plan


def _delegate_differences(ours: Pte, left: Delegate, theirs: Pte, right: Delegate) -> Iterator[Difference]:
    if left.graph is not None and right.graph is not None:
        yield from graph_differences((ours, left), (theirs, right))
    elif left.blob != right.blob:
        yield Difference("delegate", f"{left.id} instead of {right.id}")
