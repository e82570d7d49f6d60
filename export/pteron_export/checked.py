"""Runs a check over all files of some folders, prints the problems and counts them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class CheckResult:
    """Problems of one file, and remarks that are no problems."""

    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


# Takes a file and its original, if there is one to compare with.
Check = Callable[[Path, Path | None], CheckResult]


def check_files(paths: list[Path], against: Path | None, suffixes: Sequence[str], check: Check) -> int:
    """Prints one line per file and per problem; returns 1 if there was any problem, or no file."""
    files = list(_files(paths, suffixes))
    problems = 0
    for file, name in files:
        result = _check_file(file, name, against, check)
        print(f"{'bad' if result.problems else 'ok '}  {file}")
        for line in [*result.problems, *result.remarks]:
            print(f"     {line}")
        problems += len(result.problems)
    missing = list(_missing(files, against, suffixes)) if against and against.is_dir() else []
    for name in missing:
        print(f"bad  {name}: in {against}, but was not written")
    print(f"{len(files)} files, {problems + len(missing)} problems")
    return 1 if problems or missing or not files else 0


def _check_file(file: Path, name: Path, against: Path | None, check: Check) -> CheckResult:
    original = against / name if against and against.is_dir() else against
    if original is not None and not original.is_file():
        return CheckResult([f"no original {original}"])
    try:
        return check(file, original)
    # Whatever the readers raise on a bad file is the finding.
    except Exception as error:
        return CheckResult([f"not readable: {type(error).__name__}: {str(error)[:300]}"])


def _files(paths: list[Path], suffixes: Sequence[str]) -> Iterator[tuple[Path, Path]]:
    """Each file with its name below the folder that was given."""
    for path in paths:
        if path.is_dir():
            found = sorted(file for file in path.rglob("*") if file.suffix in suffixes)
            yield from ((file, file.relative_to(path)) for file in found)
        else:
            yield path, Path(path.name)


def _missing(files: list[tuple[Path, Path]], against: Path, suffixes: Sequence[str]) -> Iterator[Path]:
    names = {name for _, name in files}
    for original in sorted(against.rglob("*")):
        if original.suffix in suffixes and original.relative_to(against) not in names:
            yield original.relative_to(against)
