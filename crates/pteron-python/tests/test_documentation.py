"""The examples of the documentation, and the stubs."""

import ast
import doctest
import importlib
from pathlib import Path

import pteron
import pytest
from conftest import FIXTURES

MODULES = [
    "pteron.runtime",
    "pteron.extension.pybindings.portable_lib",
    "pteron.extension.llm.runner",
    "pteron.embedder",
    "pteron.llm",
    "pteron.tools",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings_run(name, llm, tmp_path):
    pytest.importorskip("numpy", reason="numpy is not installed")
    module = importlib.import_module(name)
    names = {**vars(module), "pteron": pteron, "llm": llm, "folder": tmp_path, "fixture": lambda path: FIXTURES / path}
    result = doctest.testmod(module, globs=names)
    assert result.attempted > 0 and result.failed == 0


def test_examples_of_the_readme_run(tmp_path, monkeypatch, demo_folder, capsys):
    readme = Path(__file__).resolve().parents[1] / "README.md"
    blocks = readme.read_text(encoding="utf-8").split("```python\n")[1:]
    assert len(blocks) >= 3
    (tmp_path / "model.pte").symlink_to(FIXTURES / "ops/add_broadcast/program.pte")
    (tmp_path / "llama").symlink_to(demo_folder)
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        exec(compile(block.split("```")[0], str(readme), "exec"), {})
    assert capsys.readouterr().out


def test_stubs_name_what_the_native_library_has():
    import pteron._native as native

    stub = Path(pteron.__file__).with_name("_native.pyi")
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    public = {name for name in vars(native) if not name.startswith("_")}
    assert public == classes.keys() | functions
    for name, node in classes.items():
        stubbed = {item.name for item in node.body if isinstance(item, ast.FunctionDef) and not item.name.startswith("__")}
        assert stubbed == {item for item in vars(getattr(native, name)) if not item.startswith("__")}, name
    assert (Path(pteron.__file__).parent / "py.typed").exists()
