"""`pteron.inspect`, `pteron.convert`, `pteron.export` and the command."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pteron
import pytest
from pteron.errors import Error, FileError, UnsupportedError

SHAPE = "layers=1,width=64,heads=2,hidden=128,vocab=300"


def test_inspect_returns_objects(fixtures):
    program = pteron.inspect(fixtures / "ops/add_dynamic/program.pte")
    (method,) = program.methods
    assert method.name == "forward"
    assert program.bytes == (fixtures / "ops/add_dynamic/program.pte").stat().st_size
    with pytest.raises(FileError, match=r"nowhere\.pte"):
        pteron.inspect("nowhere.pte")


def test_convert_writes_a_program_that_runs(tmp_path):
    seen = []
    path = tmp_path / "model.pte"
    report = pteron.convert(
        None, path, synthetic=SHAPE, context=64, group=32, progress=lambda done, total: seen.append((done, total))
    )
    assert report.bytes == path.stat().st_size
    assert seen and all(done <= total for done, total in seen)
    assert report.program == str(path)
    program = pteron.runtime.Runtime.get().load_program(path)
    assert program.metadata("forward").num_inputs() == 2


def test_convert_reports_errors_and_stops(tmp_path):
    with pytest.raises(Error, match="config.json"):
        pteron.convert(tmp_path, tmp_path / "model.pte")
    with pytest.raises(Error, match="unexpected argument '--beams'"):
        pteron.convert(tmp_path, tmp_path / "model.pte", beams=3)

    def stop(done, total):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        pteron.convert(None, tmp_path / "model.pte", synthetic=SHAPE, context=64, progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_export_says_what_it_needs(tmp_path):
    if shutil.which("python") and _has_executorch():
        pytest.skip("ExecuTorch is installed")
    with pytest.raises(UnsupportedError, match="pip install executorch"):
        pteron.export(None, (), tmp_path / "model.pte")


def test_export_compares_with_eager(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not _has_executorch():
        pytest.skip("ExecuTorch is not installed")

    class Scale(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x) * 2

    rows = torch.export.Dim("rows", min=1, max=8)
    path = pteron.export(Scale(), (torch.randn(4, 3),), tmp_path / "scale.pte", dynamic_shapes={"x": {0: rows}})
    method = pteron.runtime.Runtime.get().load_program(path).load_method("forward")
    x = torch.randn(7, 3)
    assert torch.allclose(method.execute([x])[0], torch.relu(x) * 2)


def _has_executorch():
    try:
        import executorch.exir  # noqa: F401
    except ImportError:
        return False
    return True


def run(*arguments, **options):
    """The installed command, or the module where the package is not installed."""
    script = Path(sysconfig.get_path("scripts")) / "pteron"
    command = [str(script)] if script.exists() else [sys.executable, "-m", "pteron"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120, **options)


def test_the_command_runs_and_keeps_its_exit_status(fixtures):
    version = run("--version")
    assert (version.returncode, version.stdout.strip()) == (0, f"pteron {pteron.__version__}")
    inspected = run("inspect", str(fixtures / "ops/add_dynamic/program.pte"))
    assert inspected.returncode == 0 and "forward" in inspected.stdout
    missing = run("inspect", "nowhere.pte")
    assert missing.returncode == 1 and "nowhere.pte" in missing.stderr
    assert run("mystery").returncode == 2
