"""Language models.

>>> from pteron import LLM
>>> llm = LLM()                                              # the bundled model; LLM("folder") for another
>>> text = llm.generate("To read a file in Rust, you", max_tokens=8)
>>> text.finish_reason, len(text.tokens)
('length', 8)
>>> text == "".join(token.text for token in llm.stream("To read a file in Rust, you", max_tokens=8))
True
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from pteron import _native
from pteron._native import Token
from pteron.errors import InputError

__all__ = ["LLM", "Completion", "Generation", "Session", "Token"]

#: A text, or the tokens of one.
Prompt = str | Sequence[int]

#: A message of a conversation: its role and its text.
Message = Mapping[str, str]


class Completion(str):
    """A generated text, with its tokens and the reason why it ended."""

    __slots__ = ("finish_reason", "prompt_tokens", "tokens")

    tokens: list[Token]
    finish_reason: str | None
    prompt_tokens: int

    def __new__(cls, tokens: list[Token], prompt_tokens: int) -> Completion:
        self = super().__new__(cls, "".join(token.text for token in tokens))
        self.tokens = tokens
        self.finish_reason = tokens[-1].finish_reason if tokens else "length"
        self.prompt_tokens = prompt_tokens
        return self

    @property
    def logprobs(self) -> list[float | None]:
        """The log probability of each token, if `logprobs` was given."""
        return [token.logprob for token in self.tokens]


class Generation(Iterator[Token], AsyncIterator[Token]):
    """A text that is being generated, token by token: an iterator, and an asynchronous one.

    Each step runs with the GIL released; asynchronously, on a thread of the event loop's executor. Leaving the loop, `close()` or
    the end of a `with` block stops it, and its session can be used again. So does a `KeyboardInterrupt`, between two tokens.
    """

    def __init__(self, generation: _native.NativeGeneration, prompt_tokens: int, done: Any = None) -> None:
        self._generation = generation
        self._done = done
        self.prompt_tokens = prompt_tokens

    def __iter__(self) -> Generation:
        return self

    def __next__(self) -> Token:
        token = self._next()
        if token is None:
            raise StopIteration
        return token

    def __aiter__(self) -> Generation:
        return self

    async def __anext__(self) -> Token:
        token = await asyncio.get_running_loop().run_in_executor(None, self._next)
        if token is None:
            raise StopAsyncIteration
        return token

    def _next(self) -> Token | None:
        try:
            token = self._generation.next()
        except BaseException:
            self.close()
            raise
        if token is None or token.finish_reason is not None:
            self._release()
        return token

    def text(self) -> Completion:
        """Generates the rest of the text."""
        try:
            return Completion(list(self), self.prompt_tokens)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stops the generation. The session keeps the tokens that were returned."""
        self._generation.close()
        self._release()

    def _release(self) -> None:
        done, self._done = self._done, None
        if done is not None:
            done()

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_done", None) is not None:
            self.close()


def _options(options: dict[str, Any]) -> _native.Options:
    options = dict(options)
    stop = options.pop("stop", ())
    options["stop"] = [stop] if isinstance(stop, str) else list(stop)
    if "logit_bias" in options:
        options["logit_bias"] = list(dict(options["logit_bias"]).items())
    return _native.Options(**options)


def _messages(messages: Sequence[Message]) -> list[tuple[str, str]]:
    try:
        return [(message["role"], message["content"]) for message in messages]
    except (KeyError, TypeError) as error:
        raise InputError('a message is a dict with "role" and "content"') from error


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
        return self._session.logits(self._prompt(prompt))

    def stream(self, prompt: Prompt, **options: Any) -> Generation:
        """Starts the text that follows a prompt. The options are those of `LLM.generate`."""
        return self._start(self._prompt(prompt), _options(options))

    def generate(self, prompt: Prompt, **options: Any) -> Completion:
        """Generates the text that follows a prompt. The options are those of `LLM.generate`."""
        return self.stream(prompt, **options).text()

    def stream_chat(self, messages: Sequence[Message], **options: Any) -> Generation:
        """Starts the reply to a conversation. The options are those of `LLM.chat`."""
        tokens, options_ = self._chat(messages, options)
        return self._start(tokens, options_)

    def chat(self, messages: Sequence[Message], **options: Any) -> Completion:
        """Generates the reply to a conversation. The options are those of `LLM.chat`."""
        return self.stream_chat(messages, **options).text()

    def _prompt(self, prompt: Prompt) -> list[int]:
        return self._model.text_prompt(prompt) if isinstance(prompt, str) else list(prompt)

    def _chat(self, messages: Sequence[Message], options: dict[str, Any]) -> tuple[list[int], _native.Options]:
        variables = dict(options.pop("template_variables", None) or {})
        tools = options.pop("tools", None)
        if tools is not None:
            variables["tools"] = tools
        prefix = options.pop("reply_prefix", "")
        native = _options(options)
        rendered = [(name, json.dumps(value)) for name, value in variables.items()]
        tokens, _ = self._model.chat_prompt(_messages(messages), native, rendered, prefix)
        return tokens, native

    def _start(self, tokens: list[int], options: _native.Options, done: Any = None) -> Generation:
        return Generation(self._session.generate(tokens, options), len(tokens), done)


class LLM:
    """A language model on the GPU.

    Args:
        path: A folder with a `.pte` file, its tokenizer and chat template, or the file in it; without a path, the bundled model.
        tokenizer: Another tokenizer than the one in the folder.
        data_path: A `.ptd` file with the weights, if they are apart.
        adapter: Part of the name, driver or backend of a GPU.
        context_length: Overrides what the model states.
        memory_budget: The most bytes of GPU memory that the model and its sessions may use.

    >>> llm.context_length, llm.vocab_size
    (1024, 6144)
    >>> llm.decode(llm.encode("fn main() {}"))
    'fn main() {}'

    It may be used from any number of threads. Each generation uses a session of its own; sessions are kept and used again.
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

    def generate(self, prompt: Prompt, **options: Any) -> Completion:
        """Generates the text that follows a prompt.

        Args:
            prompt: A text, or tokens.
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
            keep: In a full context, drops the older half of the text except this many tokens, instead of ending.

        Returns:
            The text: a `str` with `tokens`, `logprobs` and `finish_reason`.

        >>> text = llm.generate("A thread is", max_tokens=3, logprobs=2)
        >>> [len(token.top_logprobs) for token in text.tokens]
        [2, 2, 2]
        """
        return self.stream(prompt, **options).text()

    def stream(self, prompt: Prompt, **options: Any) -> Generation:
        """Starts the text that follows a prompt: iterate over its tokens with `for` or `async for`."""
        session = self._take()
        return self._start(session, lambda: (session._prompt(prompt), _options(options)))

    def chat(self, messages: Sequence[Message], **options: Any) -> Completion:
        """Generates the reply to a conversation.

        Args:
            messages: Dicts with `role` (`system`, `user`, `assistant`) and `content`, the oldest first.
            tools: Descriptions of tools for the chat template.
            template_variables: Further variables for it.
            reply_prefix: The beginning of the reply, which the model continues.
            options: Those of `generate`.

        >>> reply = llm.chat([{"role": "user", "content": "What is a thread?"}], max_tokens=4)
        >>> reply.finish_reason
        'length'
        """
        return self.stream_chat(messages, **options).text()

    def stream_chat(self, messages: Sequence[Message], **options: Any) -> Generation:
        """Starts the reply to a conversation: iterate over its tokens with `for` or `async for`."""
        session = self._take()
        return self._start(session, lambda: session._chat(messages, dict(options)))

    def _take(self) -> Session:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self.session()

    def _start(self, session: Session, prepare: Any) -> Generation:
        def give_back() -> None:
            with self._lock:
                self._idle.append(session)

        try:
            tokens, options = prepare()
            return session._start(tokens, options, give_back)
        except BaseException:
            give_back()
            raise
