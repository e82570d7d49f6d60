"""Texts of language models: as they are generated, and what goes into them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from pteron import _native
from pteron._native import Token
from pteron.errors import InputError

__all__ = ["Completion", "Generation"]

#: A text, or the tokens of one.
Prompt = str | Sequence[int]

#: A message of a conversation: its role and its text.
Message = Mapping[str, str]

#: The options that say which form a text must have.
_FORMS = ("schema", "regex", "grammar")


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

    def __init__(self, generation: _native.NativeGeneration | _native.NativeStream, prompt_tokens: int, done: Any = None) -> None:
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


def native_options(options: dict[str, Any]) -> _native.Options:
    """Checks the options of a generation."""
    options = dict(options)
    stop = options.pop("stop", ())
    options["stop"] = [stop] if isinstance(stop, str) else list(stop)
    if "logit_bias" in options:
        options["logit_bias"] = list(dict(options["logit_bias"]).items())
    return _native.Options(**options)


def take_grammar(model: _native.NativeModel, options: dict[str, Any]) -> _native.NativeGrammar | None:
    """Takes the form of the text out of the options, and compiles it."""
    forms = [(name, options.pop(name)) for name in _FORMS if name in options]
    forms = [(name, form) for name, form in forms if form is not None]
    if not forms:
        return None
    if len(forms) > 1:
        raise InputError(f"{forms[1][0]} cannot be combined with {forms[0][0]}")
    ((name, form),) = forms
    if name == "schema":
        if hasattr(form, "model_json_schema"):
            form = form.model_json_schema()
        form = form if isinstance(form, str) else json.dumps(form)
    return model.grammar(name, form)


def _messages(messages: Sequence[Message]) -> list[tuple[str, str]]:
    try:
        return [(message["role"], message["content"]) for message in messages]
    except (KeyError, TypeError) as error:
        raise InputError('a message is a dict with "role" and "content"') from error


def prompt_tokens(model: _native.NativeModel, prompt: Prompt) -> list[int]:
    """The tokens of a prompt."""
    return model.text_prompt(prompt) if isinstance(prompt, str) else list(prompt)


def chat_tokens(model: _native.NativeModel, messages: Sequence[Message], options: dict[str, Any]) -> list[int]:
    """The tokens of a conversation. Takes the options of the chat template out of `options`."""
    variables = dict(options.pop("template_variables", None) or {})
    tools = options.pop("tools", None)
    if tools is not None:
        variables["tools"] = tools
    prefix = options.pop("reply_prefix", "")
    rendered = [(name, json.dumps(value)) for name, value in variables.items()]
    # The form of the reply has no part in its prompt.
    native = native_options({name: value for name, value in options.items() if name not in _FORMS})
    tokens, _ = model.chat_prompt(_messages(messages), native, rendered, prefix)
    return tokens
