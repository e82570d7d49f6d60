"""Conversion, inspection and export."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from pteron import _native
from pteron.errors import Error, InputError, UnsupportedError

__all__ = ["convert", "export", "inspect"]

Path = str | os.PathLike[str]


def _objects(value: Any) -> Any:
    """JSON objects as objects with attributes, all the way down."""
    return json.loads(value, object_hook=lambda fields: SimpleNamespace(**fields))


def inspect(path: Path, *, data: Sequence[Path] = ()) -> SimpleNamespace:
    """Describes a program without loading it: methods, shapes, operators, KV caches, memory.

    Args:
        path: A `.pte` file, or the name of a model that was pulled.
        data: `.ptd` files, which are checked against the program.

    Returns:
        The fields of `pteron inspect --json` as attributes, with lists of objects where it has lists.

    >>> program = pteron.inspect(fixture("ops/add_broadcast/program.pte"))
    >>> [method.name for method in program.methods]
    ['forward']
    >>> program.support.unsupported
    []
    """
    return _objects(_native.inspect_json(path, list(data)))


def convert(
    source: Path | None,
    output: Path,
    *,
    synthetic: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> SimpleNamespace:
    """Converts a checkpoint to a program: a Hugging Face folder or a GGUF file.

    The tokenizer and chat template are written beside the program, where `LLM` finds them.

    Args:
        source: The folder or file; `None` with `synthetic`.
        output: The `.pte` file to write.
        synthetic: A shape, such as `"llama-3.2-1b"` or `"layers=2,width=64,heads=2,hidden=128,vocab=300"`: synthetic weights.
        progress: Called with the bytes written so far and in all. An exception stops the conversion, as Ctrl-C does.
        options: The options of `pteron convert`, with underscores: `context=8192`, `group=64`, `linears="float32"`, `f16=True`.

    Returns:
        The report: `program`, `beside`, `bytes`, `relative_error`, `weights` and more.

    >>> shape = "layers=1,width=64,heads=2,hidden=128,vocab=300"
    >>> report = pteron.convert(None, folder / "model.pte", synthetic=shape, context=64)
    >>> report.bytes == (folder / "model.pte").stat().st_size
    True
    """
    arguments = [] if source is None else [os.fspath(source)]
    arguments += ["--out", os.fspath(output)]
    if synthetic is not None:
        arguments += ["--synthetic", synthetic]
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(flag)
        elif value is not False and value is not None:
            arguments += [flag, str(value)]
    return _objects(_native.convert_json(arguments, progress))


def export(
    module: Any,
    example_inputs: Sequence[Any],
    output: Path,
    *,
    dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
    partitioner: Any = None,
    check: bool = True,
    rtol: float = 1e-3,
    atol: float = 1e-3,
) -> str:
    """Exports a `torch.nn.Module` with ExecuTorch, and checks the program against eager PyTorch.

    Args:
        module: The module, in evaluation mode.
        example_inputs: A tuple of tensors that `module` takes.
        output: The `.pte` file to write.
        dynamic_shapes: As for `torch.export.export`.
        partitioner: ExecuTorch's partitioners; without one, the program calls portable kernels, which also run on the GPU.
        check: Whether the program is run with the example inputs and compared with the module.
        rtol: The relative difference that the check allows.
        atol: The absolute difference that it allows.

    Returns:
        The path of the program.

    Raises:
        pteron.errors.UnsupportedError: ExecuTorch is not installed.
        pteron.errors.Error: The program computes something else than the module.
    """
    try:
        import torch
        from executorch.exir import to_edge_transform_and_lower
    except ImportError as error:
        raise UnsupportedError("pteron.export needs ExecuTorch's exporter: pip install executorch") from error
    inputs = tuple(example_inputs)
    exported = torch.export.export(module, inputs, dynamic_shapes=dynamic_shapes, strict=False)
    partitioners = [] if partitioner is None else partitioner if isinstance(partitioner, list) else [partitioner]
    program = to_edge_transform_and_lower(exported, partitioner=partitioners).to_executorch()
    output = os.fspath(output)
    with open(output, "wb") as file:
        program.write_to_file(file)
    if check:
        _check(module, inputs, output, rtol, atol)
    return output


def _check(module: Any, inputs: tuple[Any, ...], path: str, rtol: float, atol: float) -> None:
    import torch

    from pteron.runtime import Runtime

    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(module(*inputs))
    method = Runtime.get().load_program(path).load_method("forward")
    if method is None:
        raise InputError("the program has no method forward")
    outputs = method.execute(torch.utils._pytree.tree_leaves(inputs))
    for index, (ours, eager) in enumerate(zip(outputs, expected, strict=True)):
        if ours.shape != eager.shape:
            raise Error(f"output {index} of {path} has shape {list(ours.shape)}, but the module's has {list(eager.shape)}")
        if not torch.allclose(ours.to(eager.dtype), eager, rtol=rtol, atol=atol, equal_nan=True):
            greatest = (ours.to(torch.float64) - eager.to(torch.float64)).abs().max().item()
            raise Error(
                f"output {index} of {path} differs from the module's by up to {greatest:.3g}: if that is little, raise atol"
            )
