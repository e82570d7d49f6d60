"""Fixtures of the tests: programs of the repository, and skipped tests that the repository's checks count."""

import os
import signal
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "fixtures"


def pytest_configure():
    """Some tests press Ctrl-C. A program that a shell starts in the background would ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report):
    """Reports a skipped test where `cargo xtask test` reads them."""
    record = os.environ.get("PTERON_SKIPPED_TESTS")
    if report.skipped and record:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        with open(record, "a", encoding="utf-8") as file:
            file.write(f"SKIPPED {report.nodeid}: {reason.removeprefix('Skipped: ')}\n")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter):
    """Counts as Rust's test harness does, which `cargo xtask test` adds up. Skipped tests are in the file above."""
    count = {name: len(terminalreporter.stats.get(name, [])) for name in ("passed", "failed", "error", "skipped")}
    failed = count["failed"] + count["error"]
    result = "FAILED" if failed else "ok"
    # As with Rust's tests, a skipped one passes; the caller takes those in the file off.
    passed = count["passed"] + count["skipped"]
    terminalreporter.write_line(f"test result: {result}. {passed} passed; {failed} failed")


@pytest.fixture(scope="session")
def fixtures():
    """The folder of programs with PyTorch's outputs."""
    return FIXTURES


@pytest.fixture(scope="session")
def demo_folder():
    """The folder of the bundled model."""
    return ROOT / "models" / "demo"


@pytest.fixture(scope="session")
def llm():
    """The bundled model."""
    from pteron import LLM

    return LLM()
