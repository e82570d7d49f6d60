"""ExecuTorch's Python runtime, on the GPU: the names and types of `executorch.runtime`.

>>> from pteron.runtime import Runtime
>>> runtime = Runtime.get()
>>> program = runtime.load_program(fixture("ops/add_broadcast/program.pte"))
>>> program.method_names
{'forward'}
>>> forward = program.load_method("forward")
>>> import numpy as np
>>> (total,) = forward.execute([np.ones((2, 3, 5), np.float32), np.full((3, 1), 2, np.float32)])
>>> total.shape, float(total.sum())
((2, 3, 5), 90.0)

A method is loaded onto the GPU once; its state (KV caches and other mutable buffers) lasts from call to call, as in ExecuTorch.
The GIL is released while files are read and the GPU works. Calls of one method from several threads run one after another.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from pteron.extension.pybindings.portable_lib import (
    ExecuTorchMethod,
    ExecuTorchProgram,
    MethodMeta,
    TensorInfo,
    Verification,
)

__all__ = [
    "BackendRegistry",
    "Method",
    "MethodMeta",
    "OperatorRegistry",
    "Program",
    "Runtime",
    "TensorInfo",
    "Verification",
]


class Method:
    """A method on the GPU."""

    def __init__(self, method: ExecuTorchMethod) -> None:
        self._method = method

    def execute(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Calls the method.

        Args:
            inputs: Tensors of torch, numpy or jax, anything else with `__dlpack__` or the buffer protocol, or numbers. Elements
                that are contiguous in memory are not copied before the upload.

        Returns:
            The outputs: torch tensors if an input is one; otherwise numpy arrays, or `pteron.Array` where numpy is not installed.

        Raises:
            pteron.errors.InputError: An input of another shape or element type than the method takes.
        """
        return self._method(inputs)

    @property
    def metadata(self) -> MethodMeta:
        """Names, shapes and element types of the inputs and outputs."""
        return self._method.method_meta()


class Program:
    """A program: the content of a `.pte` file."""

    def __init__(self, program: ExecuTorchProgram, data: bytes | None = None) -> None:
        # ExecuTorch keeps the bytes here; this runtime has a verified copy.
        self._data = data
        self._program = program
        names = (program.get_method_name(index) for index in range(program.num_methods()))
        self._methods: dict[str, Method | None] = dict.fromkeys(names)

    @property
    def method_names(self) -> set[str]:
        """The names of all methods, those that return constants included."""
        return set(self._methods)

    def load_method(self, name: str) -> Method | None:
        """Loads a method onto the GPU: uploads weights and compiles kernels.

        A method is loaded once: later calls return the same object, with the state that its calls have left.
        """
        method = self._methods[name]
        if method is None:
            method = Method(self._program.load_method(name))
            self._methods[name] = method
        return method

    def metadata(self, method_name: str) -> MethodMeta:
        """Describes a method without loading it."""
        return self._program.method_meta(method_name)

    def write_etdump_result_to_file(self, etdump_path: str, debug_buffer_path: str) -> None:
        """Raises `RuntimeError`: Pteron writes no ETDump. `pteron exec --profile` measures kernels."""
        self._program.write_etdump_result_to_file(etdump_path, debug_buffer_path)


class BackendRegistry:
    """The backends whose delegates this runtime runs, all on the GPU."""

    def __init__(self, legacy_module: ModuleType) -> None:
        self._legacy_module = legacy_module

    @property
    def registered_backend_names(self) -> list[str]:
        """The names of the backends.

        >>> Runtime.get().backend_registry.registered_backend_names
        ['VulkanBackend', 'XnnpackBackend']
        """
        return self._legacy_module._get_registered_backend_names()

    def is_available(self, backend_name: str) -> bool:
        """Whether programs that were lowered for a backend run.

        >>> Runtime.get().backend_registry.is_available("XnnpackBackend")
        True
        """
        return self._legacy_module._is_available(backend_name)


class OperatorRegistry:
    """The operators that programs may call outside of delegates."""

    def __init__(self, legacy_module: ModuleType) -> None:
        self._legacy_module = legacy_module

    @property
    def operator_names(self) -> set[str]:
        """The names of the kernels that exporters write for these operators.

        >>> "aten::add.out" in Runtime.get().operator_registry.operator_names
        True
        """
        return set(self._legacy_module._get_operator_names())


class Runtime:
    """The runtime. There is one per process; it may load any number of programs, from any number of threads.

    Attributes:
        backend_registry: The backends whose delegates run.
        operator_registry: The operators that run.
    """

    backend_registry: BackendRegistry
    operator_registry: OperatorRegistry

    @staticmethod
    @functools.lru_cache(maxsize=1)
    def get() -> Runtime:
        """Returns the runtime, always the same object."""
        import pteron.extension.pybindings.portable_lib as legacy_module

        return Runtime(legacy_module=legacy_module)

    def __init__(self, *, legacy_module: ModuleType) -> None:
        self.backend_registry = BackendRegistry(legacy_module)
        self.operator_registry = OperatorRegistry(legacy_module)
        self._legacy_module = legacy_module

    def load_program(
        self,
        data: bytes | bytearray | BinaryIO | Path | str,
        *,
        verification: Verification = Verification.InternalConsistency,
        enable_etdump: bool = False,
        debug_buffer_size: int = 0,
        data_path: Path | str | None = None,
    ) -> Program:
        """Opens and verifies a program.

        Args:
            data: A path, the bytes of a program, or a file that was opened for reading bytes. A path is best: the file is
                mapped, and its weights go to the GPU without a copy.
            verification: Accepted for ExecuTorch's sake. Every program is verified in full.
            enable_etdump: Accepted for ExecuTorch's sake; Pteron writes no ETDump.
            debug_buffer_size: As `enable_etdump`.
            data_path: A `.ptd` file with the weights of a program that was exported without them.

        Raises:
            TypeError: `data` is of none of these types.
            pteron.errors.FileError: The file is missing or damaged. The text names the place.
        """
        options = {
            "enable_etdump": enable_etdump,
            "debug_buffer_size": debug_buffer_size,
            "program_verification": verification,
            "data_path": str(data_path) if data_path is not None else None,
        }
        if isinstance(data, (Path, str)):
            return Program(self._legacy_module._load_program(str(data), **options))
        if isinstance(data, (bytes, bytearray)):
            content = bytes(data)
        elif hasattr(data, "read"):
            content = data.read()
        else:
            raise TypeError(
                f"a program is loaded from a path, from bytes or from a file opened for reading, not from {type(data).__name__}"
            )
        return Program(self._legacy_module._load_program_from_buffer(content, **options), content)
