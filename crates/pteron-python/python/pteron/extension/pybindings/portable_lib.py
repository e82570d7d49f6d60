"""The names of `executorch.extension.pybindings.portable_lib`.

>>> from pteron.extension.pybindings.portable_lib import _load_for_executorch
>>> module = _load_for_executorch(str(fixture("ops/add_broadcast/program.pte")))
>>> module.method_names()
['forward']
>>> module.method_meta("forward").input_tensor_meta(0)
TensorInfo(sizes=[2, 3, 5], dtype=Float, is_memory_planned=True, nbytes=120)
>>> import numpy as np
>>> float(module.forward([np.zeros((2, 3, 5), np.float32), np.full((3, 1), 3, np.float32)])[0].max())
3.0

Bundled programs, custom data loaders, ETDump and the profiling functions raise `pteron.errors.UnsupportedError`.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from typing import Any, NoReturn

from pteron import _native
from pteron._native import MethodMeta, TensorInfo
from pteron.errors import Error, InputError, UnsupportedError

__all__ = [
    "BundledModule",
    "ExecuTorchMethod",
    "ExecuTorchModule",
    "ExecuTorchProgram",
    "MethodMeta",
    "TensorInfo",
    "Verification",
]


class Verification(enum.Enum):
    """How thoroughly ExecuTorch verifies a program. Pteron verifies every program in full."""

    Minimal = 0
    InternalConsistency = 1


def _as_list(inputs: Any) -> list[Any]:
    return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]


def _no_etdump() -> NoReturn:
    raise UnsupportedError("Pteron writes no ETDump: measure kernels with `pteron exec --profile`")


class ExecuTorchMethod:
    """A method on the GPU, and its state."""

    def __init__(self, method: _native.NativeMethod) -> None:
        self._method = method
        self._inputs: list[Any] | None = None
        self._outputs: list[Any] | None = None

    def __call__(self, inputs: Sequence[Any] = (), clone_outputs: bool = True) -> list[Any]:
        """Calls the method. Outputs are always the caller's own, whatever `clone_outputs` says."""
        return self._method.call(list(inputs) if isinstance(inputs, (list, tuple)) else [inputs])

    call = __call__

    def set_inputs(self, inputs: Sequence[Any]) -> None:
        """Sets the inputs of `execute`."""
        inputs = _as_list(inputs)
        self._method.check_inputs(inputs)
        self._inputs = inputs

    def execute(self) -> None:
        """Calls the method with the inputs that were set."""
        if self._inputs is None and self._method.method_meta().num_inputs() > 0:
            raise InputError("the inputs have not been set: call set_inputs() first")
        self._outputs = self._method.call(self._inputs or [])

    def get_outputs(self, clone_outputs: bool = True) -> list[Any]:
        """Returns the outputs of the last `execute`."""
        if self._outputs is None:
            raise Error("there are no outputs yet: call execute() first")
        return list(self._outputs)

    def method_meta(self) -> MethodMeta:
        """Describes the inputs and outputs."""
        return self._method.method_meta()

    def get_attribute(self, name: str) -> NoReturn:
        """Raises `UnsupportedError`: state stays on the GPU."""
        raise UnsupportedError(f"attribute {name!r} cannot be read: a method's state stays on the GPU")


class ExecuTorchProgram:
    """A program: the content of a `.pte` file."""

    def __init__(self, program: _native.NativeProgram) -> None:
        self._program = program
        self._names = program.method_names()

    def num_methods(self) -> int:
        """The number of methods."""
        return len(self._names)

    def get_method_name(self, method_index: int) -> str:
        """The name of a method by its index."""
        if not 0 <= method_index < len(self._names):
            raise InputError(f"there is no method {method_index}: the program has {len(self._names)}")
        return self._names[method_index]

    def load_method(self, method_name: str) -> ExecuTorchMethod:
        """Loads a method onto the GPU, with a state of its own."""
        return ExecuTorchMethod(self._program.load_method(method_name))

    def method_meta(self, method_name: str) -> MethodMeta:
        """Describes a method without loading it."""
        return self._program.method_meta(method_name)

    def has_etdump(self) -> bool:
        """Whether an ETDump can be written: no."""
        return False

    def write_etdump_result_to_file(self, path: str, debug_buffer_path: str | None = None) -> NoReturn:
        """Raises `UnsupportedError`."""
        _no_etdump()


class ExecuTorchModule:
    """A program whose methods are loaded when they are first called."""

    def __init__(self, program: _native.NativeProgram) -> None:
        self._program = program
        self._methods: dict[str, ExecuTorchMethod] = {}

    def _method(self, name: str) -> ExecuTorchMethod:
        method = self._methods.get(name)
        if method is None:
            # Of two threads that load at once, both get the same method, and its state.
            method = self._methods.setdefault(name, ExecuTorchMethod(self._program.load_method(name)))
        return method

    def __call__(self, inputs: Any = (), clone_outputs: bool = True) -> list[Any]:
        """Calls `forward` with a sequence of inputs, or with a single one."""
        return self._method("forward")(inputs)

    def forward(self, inputs: Sequence[Any] = (), clone_outputs: bool = True) -> list[Any]:
        """Calls `forward`. Outputs are always the caller's own, whatever `clone_outputs` says."""
        return self._method("forward")(inputs)

    def run_method(self, method_name: str, inputs: Sequence[Any] = (), clone_outputs: bool = True) -> list[Any]:
        """Calls a method."""
        return self._method(method_name)(inputs)

    def plan_execute(self, method_name: str, clone_outputs: bool = True) -> list[Any]:
        """Calls a method that has no inputs."""
        return self._method(method_name)(())

    def method_meta(self, method_name: str) -> MethodMeta:
        """Describes a method without loading it."""
        return self._program.method_meta(method_name)

    def method_names(self) -> list[str]:
        """The names of all methods, in the program's order."""
        return self._program.method_names()

    def has_etdump(self) -> bool:
        """Whether an ETDump can be written: no."""
        return False

    def write_etdump_result_to_file(self, path: str, debug_buffer_path: str | None = None) -> NoReturn:
        """Raises `UnsupportedError`."""
        _no_etdump()

    def load_bundled_input(self, bundle: BundledModule, method_name: str, testset_idx: int) -> NoReturn:
        """Raises `UnsupportedError`."""
        _no_bundles()

    def verify_result_with_bundled_expected_output(
        self, bundle: BundledModule, method_name: str, testset_idx: int, rtol: float = 1e-5, atol: float = 1e-8
    ) -> NoReturn:
        """Raises `UnsupportedError`."""
        _no_bundles()


class BundledModule:
    """ExecuTorch's program with test inputs, which Pteron does not read."""


def _no_bundles() -> NoReturn:
    raise UnsupportedError("bundled programs cannot be read: load the program that the bundle was made of")


def _load_for_executorch(
    program_path: str,
    data_path: str | None = None,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.InternalConsistency,
) -> ExecuTorchModule:
    """Opens a program from a file. `data_path` names a `.ptd` file with its weights, if they are apart."""
    return ExecuTorchModule(_native.NativeProgram.open(program_path, data_path))


def _load_for_executorch_from_buffer(
    buffer: bytes,
    data_map_buffer: bytes | None = None,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.InternalConsistency,
) -> ExecuTorchModule:
    """Opens a program from its bytes, and those of its `.ptd` file."""
    return ExecuTorchModule(_native.NativeProgram.from_bytes(buffer, data_map_buffer))


def _load_program(
    path: str,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.Minimal,
    data_path: str | None = None,
) -> ExecuTorchProgram:
    """Opens a program from a file."""
    return ExecuTorchProgram(_native.NativeProgram.open(path, data_path))


def _load_program_from_buffer(
    buffer: bytes,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.Minimal,
    data_path: str | None = None,
) -> ExecuTorchProgram:
    """Opens a program from its bytes."""
    return ExecuTorchProgram(_native.NativeProgram.from_bytes(buffer, None, data_path))


def _load_for_executorch_from_data_loader(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise UnsupportedError("data loaders of ExecuTorch cannot be used: pass a path or bytes")


def _load_for_executorch_from_bundled_program(*_args: Any, **_kwargs: Any) -> NoReturn:
    _no_bundles()


def _load_bundled_program_from_buffer(*_args: Any, **_kwargs: Any) -> NoReturn:
    _no_bundles()


def _get_registered_backend_names() -> list[str]:
    return ["VulkanBackend", "XnnpackBackend"]


def _is_available(backend_name: str) -> bool:
    return backend_name in _get_registered_backend_names()


def _get_operator_names() -> list[str]:
    return _native.kernel_names()


def _no_profile() -> NoReturn:
    raise UnsupportedError("Pteron does not profile as ExecuTorch does: use `pteron exec --profile`")


def _create_profile_block(name: str) -> NoReturn:
    _no_profile()


def _dump_profile_results() -> NoReturn:
    _no_profile()


def _reset_profile_results() -> NoReturn:
    _no_profile()


def _unsafe_reset_threadpool(num_threads: int) -> None:
    """Does nothing: the GPU computes."""


def _threadpool_get_thread_count() -> int:
    return os.cpu_count() or 1
