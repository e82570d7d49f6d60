"""The exceptions of Pteron.

All are `RuntimeError`, which ExecuTorch raises; some are also the built-in exception that says the same. Their text is one
sentence that names something you can change.
"""

__all__ = [
    "DeviceLostError",
    "Error",
    "FileError",
    "ForkError",
    "InputError",
    "OutOfMemoryError",
    "UnsupportedError",
]


class Error(RuntimeError):
    """Any error of Pteron."""


class FileError(Error):
    """A file that is missing, damaged, or of another kind."""


class UnsupportedError(Error):
    """A program with an operator, a delegate or an instruction that Pteron does not have."""


class InputError(Error, ValueError):
    """An input, a text or an option that is out of range."""


class OutOfMemoryError(Error, MemoryError):
    """Too little memory, on the GPU or on the host."""


class DeviceLostError(Error):
    """The GPU was lost. What is loaded afterwards gets a new device."""


class ForkError(Error):
    """The GPU was used in a process that was forked after it had been opened."""
