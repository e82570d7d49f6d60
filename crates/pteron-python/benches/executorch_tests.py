"""Runs ExecuTorch's own tests of its Python packages on this one, and compares the outcome with a list of known failures.

    pip install executorch==1.5.1 torch==2.13.0 pytest
    python benches/executorch_tests.py FOLDER

FOLDER is a checkout of ExecuTorch. The tests are copied into a temporary folder, and nothing but their imports is changed: the
exporter stays ExecuTorch's, while `executorch.runtime`, `executorch.extension.pybindings` and `executorch.extension.llm.runner`
become those of `pteron`. The exit status is 1 if a test fails that is not in the list below, or one of the list passes.
"""

import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

TESTS = [
    "runtime/test/test_runtime.py",
    "extension/pybindings/test/test_pybindings.py",
    "extension/llm/runner/test/test_runner_pybindings.py",
]
#: Written by ExecuTorch's tests for themselves.
HELPER = "extension/pybindings/test/make_test.py"

IMPORTS = [
    (r"\bexecutorch\.extension\.pybindings\.test\.make_test\b", "make_test"),
    (r"\bexecutorch\.runtime\b", "pteron.runtime"),
    (r"\bexecutorch\.extension\.pybindings\b", "pteron.extension.pybindings"),
    (r"\bexecutorch\.extension\.llm\.runner\b", "runner"),
]

#: Names that the package lacks fail when they are used, not when they are imported.
RUNNER = """
import pteron.extension.llm.runner as own

def __getattr__(name):
    def missing(*_arguments, **_options):
        raise NotImplementedError(f"pteron.extension.llm.runner has no {name}")
    return getattr(own, name, missing)
"""

EXPORTER = "the exporter has no kernels for quantised addition"
PICTURES = "there are no classes for pictures and multimodal models"
#: The tests that cannot pass, and why.
KNOWN = {
    "PybindingsTest.test_quantized_ops": EXPORTER,
    "PybindingsTest.test_method_quantized_ops": EXPORTER,
    "PybindingsTest.test_method_attribute": "it reads a buffer of the state by its name",
    "PybindingsTest.test_program_data_separation": "it passes up to bundled programs, which are not supported",
    "TestImage.test_creation": PICTURES,
    "TestImage.test_repr": PICTURES,
    "TestMultimodalInput.test_text_input": PICTURES,
    "TestMultimodalInput.test_image_input": PICTURES,
    "TestMultimodalInput.test_invalid_image_array": PICTURES,
    "TestMultimodalInput.test_repr": PICTURES,
    "TestMultimodalRunner.test_initialization_failure": PICTURES,
    "TestHelperFunctions.test_make_text_input": PICTURES,
    "TestHelperFunctions.test_make_image_input": PICTURES,
}


def copy(source: Path, target: Path) -> None:
    """Copies a test and changes its imports."""
    text = source.read_text(encoding="utf-8")
    for pattern, name in IMPORTS:
        text = re.sub(pattern, name, text)
    target.write_text(text, encoding="utf-8")


def run(test: Path) -> dict[str, str]:
    """Runs a file of tests. Returns the outcome of each: nothing, or what went wrong in a line."""
    report = test.with_suffix(".xml")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", str(test)]
    output = subprocess.run(command, cwd=test.parent, capture_output=True, text=True)
    if not report.exists():
        raise SystemExit(output.stdout + output.stderr)
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        wrong = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        sentence = "" if wrong is None else (wrong.get("message") or wrong.tag).splitlines()[0]
        outcomes[f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"] = sentence
    return outcomes


def main() -> int:
    """Prints which tests pass, and why the others do not."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    checkout, surprises = Path(sys.argv[1]), 0
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "runner.py").write_text(RUNNER, encoding="utf-8")
        copy(checkout / HELPER, work / "make_test.py")
        for name in TESTS:
            test = work / Path(name).name
            copy(checkout / name, test)
            outcomes = run(test)
            passed = sum(not wrong for wrong in outcomes.values())
            print(f"{name}: {passed} of {len(outcomes)} pass")
            for case, wrong in outcomes.items():
                if wrong:
                    print(f"  {case}: {KNOWN.get(case, 'NOT KNOWN')} ({wrong[:120]})")
                surprises += bool(wrong) != (case in KNOWN)
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
