"""Prints the reference of the Python package as Markdown, from its sources: `python python_reference.py FOLDER`."""

import ast
import inspect
import re
import sys
from pathlib import Path

#: Modules with their titles, in the order of the page. What `__all__` has is documented.
MODULES = {
    "pteron/llm.py": "`pteron`: language models",
    "pteron/embedder.py": "`pteron`: embeddings",
    "pteron/generation.py": "`pteron`: generated texts",
    "pteron/tools.py": "`pteron`: conversion, inspection, export",
    "pteron/runtime/__init__.py": "`pteron.runtime`",
    "pteron/extension/pybindings/portable_lib.py": "`pteron.extension.pybindings.portable_lib`",
    "pteron/extension/llm/runner/__init__.py": "`pteron.extension.llm.runner`",
    "pteron/errors.py": "`pteron.errors`",
}
#: Classes of the native library that users meet.
NATIVE = ("Array", "Token", "MethodMeta", "TensorInfo")
SECTION = re.compile(r"(Args|Returns|Raises):$")


def docstring(text: str | None) -> list[str]:
    """Markdown of a docstring: sections of arguments become lists, examples become blocks."""
    out: list[str] = []
    listed = example = False
    for line in inspect.cleandoc(text or "").splitlines():
        is_example = line.startswith(">>>") or (example and line.strip() != "")
        if is_example != example:
            out += ["", "```pycon"] if is_example else ["```", ""]
            example = is_example
        if example:
            out.append(line)
        elif found := SECTION.match(line):
            out += [f"**{found[1]}**", ""]
            listed = True
        elif listed and re.match(r" {4}\S", line):
            name, colon, rest = line.strip().partition(": ")
            is_name = colon and re.fullmatch(r"[\w., ]+", name)
            out.append(f"- `{name}`: {rest}" if is_name else f"- {line.strip()}")
        elif listed and line.startswith(" "):
            out.append(f"  {line.strip()}")
        else:
            listed = listed and line == ""
            out.append(line)
    return [*out, "```", ""] if example else [*out, ""]


def signature(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The definition without `self` and body, with a line per argument if it is long."""
    for arguments in (function.args.posonlyargs, function.args.args):
        if arguments and arguments[0].arg in ("self", "cls"):
            del arguments[0]
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    word = "async def" if isinstance(function, ast.AsyncFunctionDef) else "def"
    line = f"{word} {function.name}({ast.unparse(function.args)}){returns}"
    if len(line) <= 100:
        return line
    parts, depth = [""], 0
    for character in ast.unparse(function.args):
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    arguments = "".join(f"    {part.strip()},\n" for part in parts)
    return f"{word} {function.name}(\n{arguments}){returns}"


def is_public(node: ast.AST) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_")


def is_overload(node: ast.AST) -> bool:
    return any(ast.unparse(decorator) == "overload" for decorator in getattr(node, "decorator_list", []))


def function(node: ast.FunctionDef | ast.AsyncFunctionDef, level: str, owner: str = "", overloads: tuple = ()) -> list[str]:
    decorators = [f"@{ast.unparse(decorator)}" for decorator in node.decorator_list]
    title = f"{level} `{owner}{node.name}`"
    signatures = overloads or (signature(node),)
    return [title, "", "```python", *decorators, *signatures, "```", "", *docstring(ast.get_docstring(node))]


def klass(node: ast.ClassDef) -> list[str]:
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    line = f"class {node.name}({bases})" if bases else f"class {node.name}"
    out = [f"### `{node.name}`", "", "```python", line]
    # A constructor that takes a native object is for the package itself.
    made = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
    out += [signature(item) for item in made if "_native." not in ast.unparse(item.args)]
    out += ["```", "", *docstring(ast.get_docstring(node))]
    for item in filter(is_public, node.body):
        if not is_overload(item):
            overloads = [one for one in node.body if is_overload(one) and one.name == item.name]
            out += function(item, "####", f"{node.name}.", tuple(map(signature, overloads)))
    return out


def module(path: Path, title: str) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    public = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    out = [f"## {title}", "", *docstring(ast.get_docstring(tree))]
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in public:
            out += klass(node)
        elif is_public(node) and node.name in public:
            out += function(node, "###")
    return out


def main(folder: Path) -> None:
    out = ["# Python reference", ""]
    out += ["Generated from the package's docstrings and stubs. Its tests run every example on this page.", ""]
    for path, title in MODULES.items():
        out += module(folder / path, title)
    out += ["## Types of the native library", ""]
    for node in ast.parse((folder / "pteron/_native.pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name in NATIVE:
            out += klass(node)
    print("\n".join(out))


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    main(Path(sys.argv[1]))
