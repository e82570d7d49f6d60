"""Runs ExecuTorch programs and language models on any GPU.

- `pteron.runtime`: ExecuTorch's runtime API, on the GPU
- `pteron.LLM`: a language model
- `pteron.Embedder`: vectors of texts, from a decoder or an encoder
- `pteron.convert`, `pteron.inspect`, `pteron.export`: programs from checkpoints and modules, and what they contain
- `pteron.errors`: the exceptions

Importing this package opens no GPU. The first program or model that is loaded opens the best one, or the one whose name, driver
or backend contains the environment variable `PTERON_ADAPTER`.
"""

from typing import TYPE_CHECKING, Any

from pteron._native import Array, Token, __version__

if TYPE_CHECKING:
    from pteron.embedder import Embedder
    from pteron.generation import Completion, Generation
    from pteron.llm import LLM, Session
    from pteron.tools import convert, export, inspect

__all__ = [
    "LLM",
    "Array",
    "Completion",
    "Embedder",
    "Generation",
    "Session",
    "Token",
    "__version__",
    "convert",
    "export",
    "inspect",
]

_LATER = {
    "LLM": "llm",
    "Completion": "generation",
    "Embedder": "embedder",
    "Generation": "generation",
    "Session": "llm",
    "convert": "tools",
    "export": "tools",
    "inspect": "tools",
}


def __getattr__(name: str) -> Any:
    """Imports what not every program needs when it is first used, asyncio among them."""
    if name not in _LATER:
        raise AttributeError(f"module 'pteron' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"pteron.{_LATER[name]}"), name)
    globals()[name] = value
    return value
