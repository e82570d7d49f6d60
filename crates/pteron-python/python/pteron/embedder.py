"""Embeddings: vectors of texts.

>>> from pteron import Embedder
>>> embedder = Embedder(fixture("../models/demo"))           # a decoder, or an encoder with the same files
>>> vectors = embedder.embed(["a thread", "a task", "an apple"])
>>> vectors.shape, vectors.dtype
((3, 384), dtype('float32'))
>>> similarities = vectors @ embedder.embed("a thread")      # of length one: the product is the cosine of the angle
>>> int(similarities.argmax())
0
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from pteron import _native
from pteron.generation import Prompt

__all__ = ["Embedder", "Pooling"]

#: How the hidden states of a text's tokens become one vector.
Pooling = Literal["last", "mean", "first"]


class Embedder:
    """A program that makes vectors of texts, on the GPU.

    It is a decoder, as `LLM` takes it, whose logits are not computed; or an encoder, which takes tokens and a mask of the same
    shape. It may be used from any number of threads; calls run one after another.

    Args:
        path: A folder with a `.pte` file and its tokenizer, or the file in it.
        tokenizer: Another tokenizer than the one in the folder.
        data_path: A `.ptd` file with the weights, if they are apart.
        adapter: Part of the name, driver or backend of a GPU.
        max_tokens: The most tokens of a text; what the program takes, up to 8,192, without it.
        memory_budget: The most bytes of GPU memory that it may use.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        tokenizer: str | os.PathLike[str] | None = None,
        data_path: str | os.PathLike[str] | None = None,
        adapter: str | None = None,
        max_tokens: int | None = None,
        memory_budget: int | None = None,
    ) -> None:
        self._embedder = _native.NativeEmbedder.open(
            path,
            tokenizer=tokenizer,
            data_path=data_path,
            adapter=adapter,
            max_tokens=max_tokens,
            memory_budget=memory_budget,
        )

    @property
    def dimensions(self) -> int:
        """The numbers of a vector."""
        return self._embedder.dimensions

    @property
    def max_tokens(self) -> int:
        """The most tokens of a text."""
        return self._embedder.max_tokens

    @property
    def pooling(self) -> Pooling:
        """How the hidden states of a text become one vector by default: a decoder's last, the mean of an encoder's."""
        return self._embedder.pooling

    def encode(self, text: str) -> list[int]:
        """Returns the tokens of a text, with those that the tokenizer puts around it."""
        return self._embedder.tokens(text)

    def embed(
        self, text: Prompt | Sequence[str] | Sequence[Sequence[int]], *, pooling: Pooling | None = None, normalize: bool = True
    ) -> Any:
        """Returns the vector of a text, or those of several.

        Args:
            text: A text, or its tokens. A list of texts, or of lists of tokens, is computed in the same steps.
            pooling: How the hidden states of the tokens become one vector: `"last"`, `"mean"` or `"first"`. A program that
                returns one vector for each text has pooled them itself.
            normalize: Whether vectors are divided by their length.

        Returns:
            A numpy array of 32-bit floats: `[dimensions]` for one text, `[texts, dimensions]` for a list. Without numpy, a
            `pteron.Array`.
        """
        return embed(self._embedder, text, pooling, normalize)


def embed(embedder: _native.NativeEmbedder, text: Any, pooling: Pooling | None, normalize: bool) -> Any:
    """The vector of a text or of tokens, or the vectors of a list."""
    single = isinstance(text, str) or (len(text) > 0 and isinstance(text[0], int))
    texts = [text] if single else text
    tokens = [embedder.tokens(one) if isinstance(one, str) else list(one) for one in texts]
    return embedder.embed(tokens, pooling, normalize, single)
