"""Language models.

>>> from pteron import LLM
>>> llm = LLM()                                              # the bundled model; LLM("folder") for another
>>> text = llm.generate("To read a file in Rust, you", max_tokens=8)
>>> text.finish_reason, len(text.tokens)
('length', 8)
>>> text == "".join(token.text for token in llm.stream("To read a file in Rust, you", max_tokens=8))
True
>>> [len(text.tokens) for text in llm.generate(["A thread is", "A task is"], max_tokens=4)]      # many texts in the same steps
[4, 4]
>>> llm.generate("The answer: ", schema={"enum": ["yes", "no"]}) in ('"yes"', '"no"')            # JSON of a schema
True
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, overload

from pteron import _native
from pteron._native import Token
from pteron.embedder import Pooling, embed
from pteron.generation import (
    Completion,
    Generation,
    Message,
    Prompt,
    chat_tokens,
    native_options,
    prompt_tokens,
    take_grammar,
)

__all__ = ["LLM", "Completion", "Generation", "Session", "Token"]


class Session:
    """A conversation and its KV cache.

    A prompt that begins with the tokens in the cache continues where they end, so only new tokens are computed.

    >>> session = llm.session()
    >>> first = session.generate("The borrow checker", max_tokens=4)
    >>> other = session.fork()                               # both continue independently
    >>> session.rewind(2)                                    # drops the tokens from position 2 on
    >>> len(session.tokens), len(other.tokens) > 2
    (2, True)
    """

    def __init__(self, model: _native.NativeModel, session: _native.NativeSession | None = None) -> None:
        self._model = model
        self._session = session if session is not None else model.session()

    @property
    def tokens(self) -> list[int]:
        """The tokens in the KV cache."""
        return self._session.tokens()

    def fork(self) -> Session:
        """Copies the conversation with its KV cache."""
        return Session(self._model, self._session.fork())

    def rewind(self, position: int) -> None:
        """Drops the tokens from a position on. Computes nothing."""
        self._session.rewind(position)

    def logits(self, prompt: Prompt) -> list[float]:
        """Computes the logits after the last token of a prompt."""
        return self._session.logits(prompt_tokens(self._model, prompt))

    def stream(self, prompt: Prompt, **options: Any) -> Generation:
        """Starts the text that follows a prompt. The options are those of `LLM.generate`."""
        return self._start(prompt_tokens(self._model, prompt), options)

    def generate(self, prompt: Prompt, **options: Any) -> Completion:
        """Generates the text that follows a prompt. The options are those of `LLM.generate`."""
        return self.stream(prompt, **options).text()

    def stream_chat(self, messages: Sequence[Message], **options: Any) -> Generation:
        """Starts the reply to a conversation. The options are those of `LLM.chat`."""
        return self._start(chat_tokens(self._model, messages, options), options)

    def chat(self, messages: Sequence[Message], **options: Any) -> Completion:
        """Generates the reply to a conversation. The options are those of `LLM.chat`."""
        return self.stream_chat(messages, **options).text()

    def _start(self, tokens: list[int], options: dict[str, Any], done: Any = None) -> Generation:
        options = dict(options)
        grammar = take_grammar(self._model, options)
        return Generation(self._session.generate(tokens, native_options(options), grammar), len(tokens), done)


class LLM:
    """A language model on the GPU.

    Args:
        path: A folder with a `.pte` file, its tokenizer and chat template, or the file in it; without a path, the bundled model.
        tokenizer: Another tokenizer than the one in the folder.
        data_path: A `.ptd` file with the weights, if they are apart.
        adapter: Part of the name, driver or backend of a GPU.
        context_length: Overrides what the model states.
        memory_budget: The most bytes of GPU memory that the model and its sessions may use. Batches have as much again, and so
            have embeddings.
        max_sequences: The most texts of a batch that run at once; the others wait. 128, and 8 on a software adapter, without it.

    >>> llm.context_length, llm.vocab_size
    (1024, 6144)
    >>> llm.decode(llm.encode("fn main() {}"))
    'fn main() {}'

    It may be used from any number of threads. Each generation uses a session of its own; sessions are kept and used again. The
    first batch loads the model once more on the same GPU, with a KV cache that many texts share, and the first call of `embed`
    does so with hidden states as outputs: each holds its own copy of the weights.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        tokenizer: str | os.PathLike[str] | None = None,
        data_path: str | os.PathLike[str] | None = None,
        adapter: str | None = None,
        context_length: int | None = None,
        memory_budget: int | None = None,
        max_sequences: int | None = None,
    ) -> None:
        self._model = _native.NativeModel.open(
            path,
            tokenizer=tokenizer,
            data_path=data_path,
            adapter=adapter,
            context_length=context_length,
            memory_budget=memory_budget,
        )
        self._idle: list[Session] = []
        self._lock = threading.Lock()
        self._max_sequences = max_sequences
        self._engine: _native.NativeEngine | None = None
        self._embedder: _native.NativeEmbedder | None = None
        self._loading = threading.Lock()

    @property
    def context_length(self) -> int:
        """The most tokens of a conversation."""
        return self._model.context_length

    @property
    def vocab_size(self) -> int:
        """The number of tokens that the model knows."""
        return self._model.vocab_size

    @property
    def eos_ids(self) -> list[int]:
        """The tokens that end a text."""
        return self._model.eos_ids

    @property
    def has_chat_template(self) -> bool:
        """Whether the model has a chat template. Without one, messages are joined by blank lines."""
        return self._model.has_chat_template

    def encode(self, text: str) -> list[int]:
        """Returns the tokens of a text."""
        return self._model.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of tokens."""
        return self._model.decode(list(tokens))

    def session(self) -> Session:
        """Creates a conversation with a KV cache of its own."""
        return Session(self._model)

    @overload
    def generate(self, prompt: str, **options: Any) -> Completion: ...
    @overload
    def generate(self, prompt: Sequence[int], **options: Any) -> Completion: ...
    @overload
    def generate(self, prompt: Sequence[str] | Sequence[Sequence[int]], **options: Any) -> list[Completion]: ...
    def generate(self, prompt: Any, **options: Any) -> Any:
        """Generates the text that follows a prompt, or those that follow several.

        Args:
            prompt: A text, or tokens. A list of texts, or of lists of tokens, is a batch: its texts are computed in the same
                steps, prompts with the same beginning share it, and each gets the text that it would get alone.
            max_tokens: The most tokens; as many as the context has room for without it.
            temperature: 0 (the default) for the most likely token, 1 for the model's own distribution.
            top_k, top_p, min_p: Which tokens are sampled from.
            repetition_penalty, presence_penalty, frequency_penalty: Make repetitions less likely.
            logit_bias: A number to add to the logits of tokens, by token.
            seed: The same seed gives the same text.
            logprobs: Returns log probabilities, and those of this many of the most likely tokens.
            stop: A string, or several, that ends the text and is not part of it.
            stop_tokens: Tokens that end the text, besides the model's own.
            ignore_eos: Goes on after the model's own end.
            keep: In a full context, drops the older half of the text except this many tokens, instead of ending. Not for batches.
            schema: A JSON schema that the text must match: a dict, its JSON, or a pydantic model. `json.loads(text)` reads the
                text, unless `max_tokens` or the context ended it.
            regex: A regular expression that the text must match.
            grammar: A grammar that it must match, in the language of Lark.

        Returns:
            The text: a `str` with `tokens`, `logprobs` and `finish_reason`. For a batch, a list in the order of the prompts.

        >>> text = llm.generate("A thread is", max_tokens=3, logprobs=2)
        >>> [len(token.top_logprobs) for token in text.tokens]
        [2, 2, 2]
        >>> both = llm.generate(["A thread is", "A task is"], max_tokens=3)
        >>> both == [llm.generate("A thread is", max_tokens=3), llm.generate("A task is", max_tokens=3)]
        True
        >>> llm.generate("The number is ", regex="[0-9]{3}").isdigit()
        True
        """
        if not isinstance(prompt, str) and len(prompt) > 0 and not isinstance(prompt[0], int):
            return self._batch([prompt_tokens(self._model, one) for one in prompt], options)
        return self.stream(prompt, **options).text()

    def stream(self, prompt: Prompt, **options: Any) -> Generation:
        """Starts the text that follows a prompt: iterate over its tokens with `for` or `async for`."""
        session = self._take()
        return self._start(session, lambda: (prompt_tokens(self._model, prompt), options))

    @overload
    def chat(self, messages: Sequence[Message], **options: Any) -> Completion: ...
    @overload
    def chat(self, messages: Sequence[Sequence[Message]], **options: Any) -> list[Completion]: ...
    def chat(self, messages: Any, **options: Any) -> Any:
        """Generates the reply to a conversation, or the replies to several.

        Args:
            messages: Dicts with `role` (`system`, `user`, `assistant`) and `content`, the oldest first. A list of such lists is a
                batch, as in `generate`.
            tools: Descriptions of tools for the chat template.
            template_variables: Further variables for it.
            reply_prefix: The beginning of the reply, which the model continues.
            options: Those of `generate`.

        >>> reply = llm.chat([{"role": "user", "content": "What is a thread?"}], max_tokens=4)
        >>> reply.finish_reason
        'length'
        """
        if messages and not isinstance(messages[0], Mapping):
            rest = [dict(options) for _ in messages]
            pairs = zip(messages, rest, strict=True)
            return self._batch([chat_tokens(self._model, one, own) for one, own in pairs], rest[0])
        return self.stream_chat(messages, **options).text()

    def stream_chat(self, messages: Sequence[Message], **options: Any) -> Generation:
        """Starts the reply to a conversation: iterate over its tokens with `for` or `async for`."""
        session = self._take()
        return self._start(session, lambda: (chat_tokens(self._model, messages, options), options))

    def embed(
        self, text: Prompt | Sequence[str] | Sequence[Sequence[int]], *, pooling: Pooling | None = None, normalize: bool = True
    ) -> Any:
        """Returns the vector of a text, or those of several, from the model's hidden states.

        Args:
            text: A text, or its tokens. A list of texts, or of lists of tokens, is computed in the same steps.
            pooling: How the hidden states of the tokens become one vector: `"last"` (the default), `"mean"` or `"first"`.
            normalize: Whether vectors are divided by their length.

        Returns:
            A numpy array of 32-bit floats: `[dimensions]` for one text, `[texts, dimensions]` for a list. Without numpy, a
            `pteron.Array`.

        For a program that is an encoder and no language model, or to load no second one, see `pteron.Embedder`.

        >>> vectors = llm.embed(["a thread", "a task"], pooling="mean")
        >>> vectors.shape, vectors.dtype
        ((2, 384), dtype('float32'))
        >>> bool(abs(vectors[0] - llm.embed("a thread", pooling="mean")).max() < 1e-4)
        True
        """
        with self._loading:
            if self._embedder is None:
                self._embedder = self._model.embedder()
            embedder = self._embedder
        return embed(embedder, text, pooling, normalize)

    def _batch(self, prompts: list[list[int]], options: dict[str, Any]) -> list[Completion]:
        options = dict(options)
        grammar = take_grammar(self._model, options)
        native = native_options(options)
        with self._loading:
            if self._engine is None:
                self._engine = self._model.engine(self._max_sequences)
            engine = self._engine
        texts: list[Generation] = []
        try:
            # All are queued before the first one is read.
            for prompt in prompts:
                texts.append(Generation(engine.submit(prompt, native, grammar), len(prompt)))
            return [text.text() for text in texts]
        except BaseException:
            for text in texts:
                text.close()
            raise

    def _take(self) -> Session:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self.session()

    def _give_back(self, session: Session) -> None:
        with self._lock:
            self._idle.append(session)

    def _start(self, session: Session, prepare: Any) -> Generation:
        def give_back() -> None:
            self._give_back(session)

        try:
            tokens, options = prepare()
            return session._start(tokens, options, give_back)
        except BaseException:
            give_back()
            raise
