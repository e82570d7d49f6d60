"""What the clients of a load do, and what they check."""

import asyncio
import collections
import contextlib
import json
import random
import time

from http_client import connection, read_head, request

# Nothing takes longer, however many wait.
STUCK_SECONDS = 600
STARTS = [
    "A thread is",
    "Ownership is",
    "To read a file in Rust, you",
    "The sea",
    "A test",
]
STARTS += [f"Number {number}, and then" for number in range(20)]
SCHEMA = {
    "type": "object",
    "required": ["ok", "kind"],
    "additionalProperties": False,
    "properties": {"ok": {"type": "boolean"}, "kind": {"enum": ["thread", "task"]}},
}
GARBAGE = [
    b"\x00\xff\xfe garbage\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n{",
    b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    b"",
]
BAD_REQUESTS = [
    b"not json",
    b"[" * 100_000,
    b'{"prompt": "\xff"}',
    b"{}",
    b'{"prompt": 3}',
    b'{"prompt": [99999999]}',
    b'{"prompt": "x", "temperature": 1e999}',
    b'{"prompt": "x", "max_tokens": -1}',
    b'{"prompt": "x", "n": 1000000}',
    b'{"prompt": "x", "model": "none"}',
    b'{"prompt": "' + b"sea " * 100_000 + b'"}',
    b'{"prompt": "x", "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": 3}}}}',
    b'{"prompt": "x", "structured_outputs": {"regex": "((((("}}',
]
BAD_PATHS = ["/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages"]
BAD_PATHS += ["/tokenize", "/v1/embeddings", "/nothing"]


class Load:
    """What clients do and have seen."""

    def __init__(self, port: int, seed: int):
        self.port = port
        self.random = random.Random(seed)
        self.counts: collections.Counter[str] = collections.Counter()
        self.problems: list[str] = []
        self.first: list[float] = []
        self.between: list[float] = []
        self.tokens = 0
        # Streams that run, and whether the server may refuse or cut off what comes.
        self.streams = 0
        self.ending = False
        # Whether its process was killed, and the streams that were lost with it.
        self.killed = False
        self.lost = 0
        self.texts: dict[str, str] = {}

    def problem(self, text: str) -> None:
        self.counts["problems"] += 1
        if len(self.problems) < 50:
            self.problems.append(text)
            print(f"PROBLEM {text}", flush=True)

    async def learn(self) -> None:
        """The greedy texts of an idle server."""
        for start in STARTS:
            self.texts[start] = ""
            body = {"prompt": start, "max_tokens": 48, "temperature": 0}
            async with request(self.port, "/v1/completions", body) as answer:
                value = json.loads(await answer.body())
            self.texts[start] = value["choices"][0]["text"]

    async def client(self, until: float) -> None:
        while time.monotonic() < until and not self.ending:
            kind = self.random.random()
            act = (
                self.garbage
                if kind < 0.1
                else self.leave
                if kind < 0.2
                else self.finish
            )
            try:
                async with asyncio.timeout(STUCK_SECONDS):
                    await act()
            except TimeoutError:
                self.problem(f"{act.__name__}: no end after {STUCK_SECONDS} s")
            except (OSError, asyncio.IncompleteReadError) as error:
                if not self.ending:
                    self.problem(f"{act.__name__}: {type(error).__name__} {error}")

    async def refused(self, status: int, retry: str | None) -> None:
        self.counts[f"status {status}"] += 1
        if status >= 500 and not self.ending:
            self.problem(f"status {status}")
        await asyncio.sleep(float(retry or 0) * self.random.uniform(1, 2))

    async def garbage(self) -> None:
        """Bytes that are no HTTP, or requests that are refused."""
        self.counts["garbage"] += 1
        if self.random.random() < 0.5:
            path, body = self.random.choice(BAD_PATHS), self.random.choice(BAD_REQUESTS)
            async with request(self.port, path, body) as answer:
                self.counts[f"status {answer.status}"] += 1
                # Some are no garbage to some paths.
                if answer.status >= 500 and not self.ending:
                    self.problem(f"{path} {body[:80]!r}: status {answer.status}")
            return
        async with connection(self.port) as (reader, writer):
            writer.write(self.random.choice(GARBAGE))
            with contextlib.suppress(
                TimeoutError,
                OSError,
                asyncio.IncompleteReadError,
                asyncio.LimitOverrunError,
            ):
                async with asyncio.timeout(self.random.uniform(0, 3)):
                    await writer.drain()
                    answer = await read_head(reader)
                    if answer.status >= 500 and not self.ending:
                        self.problem(f"garbage: status {answer.status}")

    async def leave(self) -> None:
        """A request that is left after some events, or before its head."""
        self.counts["left"] += 1
        body = {"prompt": self.random.choice(STARTS), "max_tokens": 200, "stream": True}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.random.choice([0.01, 0.5, 5, 20])):
                async with request(self.port, "/v1/completions", body) as answer:
                    if answer.status != 200:
                        return await self.refused(
                            answer.status, answer.headers.get("retry-after")
                        )
                    most, count = self.random.randrange(30), 0
                    async for _ in answer.events():
                        count += 1
                        if count > most:
                            return

    async def finish(self) -> None:
        """A text to its end."""
        act = self.random.choice(
            [
                self.completion,
                self.stream,
                self.stream,
                self.chat,
                self.schema,
                self.message,
                self.response,
            ]
        )
        await act()

    async def post(self, path: str, body: dict) -> dict | None:
        async with request(self.port, path, body) as answer:
            text = await answer.body()
            if answer.status != 200:
                await self.refused(answer.status, answer.headers.get("retry-after"))
                return None
        self.counts["texts"] += 1
        return json.loads(text)

    async def completion(self) -> None:
        start, most = self.random.choice(STARTS), self.random.randrange(1, 48)
        body = {"prompt": start, "max_tokens": most, "temperature": 0}
        value = await self.post("/v1/completions", body)
        if value is not None:
            self.check(
                "completion",
                value["choices"][0]["finish_reason"],
                value["usage"]["completion_tokens"],
                most,
            )
            self.compare(start, value["choices"][0]["text"])

    def check(self, what: str, finish: str, count: int, most: int) -> None:
        self.tokens += count
        if not (
            finish == "stop" and count <= most or finish == "length" and count == most
        ):
            self.problem(f"{what}: {count} of {most} tokens, {finish}")

    def compare(self, start: str, text: str) -> None:
        if not self.texts[start].startswith(text):
            self.problem(
                f"{start!r} continues {text!r}, and alone {self.texts[start]!r}"
            )

    async def stream(self) -> None:
        start, most = self.random.choice(STARTS), self.random.randrange(1, 48)
        body = {"prompt": start, "max_tokens": most, "temperature": 0, "stream": True}
        body["stream_options"] = {"include_usage": True}
        sent, last = time.monotonic(), None
        async with request(self.port, "/v1/completions", body) as answer:
            if answer.status != 200:
                return await self.refused(
                    answer.status, answer.headers.get("retry-after")
                )
            self.streams += 1
            text, finish, count, done = "", None, None, False
            try:
                async for data in answer.events():
                    now = time.monotonic()
                    if data == b"[DONE]":
                        done = True
                        break
                    event = json.loads(data)
                    if event["usage"]:
                        count = event["usage"]["completion_tokens"]
                    for choice in event["choices"]:
                        if last is None:
                            self.first.append(now - sent)
                        else:
                            self.between.append(now - last)
                        last = now
                        text += choice["text"]
                        finish = choice["finish_reason"] or finish
            except (OSError, asyncio.IncompleteReadError) as error:
                if self.killed:
                    self.lost += 1
                    return
                # Also while the server ends: what was accepted is finished.
                self.problem(f"stream cut off after {text!r}: {type(error).__name__}")
                return
            finally:
                self.streams -= 1
        if not done or count is None:
            return self.problem(f"stream without its end: {text!r}")
        self.counts["texts"] += 1
        self.check("stream", finish, count, most)
        self.compare(start, text)

    async def chat(self) -> None:
        message = {"role": "user", "content": self.random.choice(STARTS)}
        body = {"messages": [message], "max_tokens": 8, "n": 2, "logprobs": True}
        value = await self.post("/v1/chat/completions", body)
        if value is not None:
            for choice in value["choices"]:
                tokens = len(choice["logprobs"]["content"])
                self.check("chat", choice["finish_reason"], min(tokens, 8), 8)

    async def schema(self) -> None:
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
        body = {"prompt": "Answer: ", "max_tokens": 80, "response_format": form}
        value = await self.post("/v1/completions", body)
        if value is not None:
            answer = json.loads(value["choices"][0]["text"])
            if not (
                isinstance(answer["ok"], bool) and answer["kind"] in ("thread", "task")
            ):
                self.problem(f"schema: {answer}")
            self.tokens += value["usage"]["completion_tokens"]

    async def message(self) -> None:
        body = {
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "A thread is"}],
        }
        value = await self.post("/v1/messages", body)
        if value is not None:
            finish = "length" if value["stop_reason"] == "max_tokens" else "stop"
            self.check("message", finish, value["usage"]["output_tokens"], 9)

    async def response(self) -> None:
        value = await self.post(
            "/v1/responses", {"input": "A thread is", "max_output_tokens": 9}
        )
        if value is not None:
            finish = "length" if value["status"] == "incomplete" else "stop"
            self.check("response", finish, value["usage"]["output_tokens"], 9)
