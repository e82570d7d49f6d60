"""A small HTTP client for many connections at once: it takes little of the processor that the server computes on."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Answer:
    """The head of an answer, and its body as it arrives."""

    def __init__(
        self, status: int, headers: dict[str, str], reader: asyncio.StreamReader
    ):
        self.status = status
        self.headers = headers
        self._reader = reader

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body in pieces. Raises an IncompleteReadError where it is cut off."""
        if self.headers.get("transfer-encoding") != "chunked":
            length = int(self.headers.get("content-length", 0))
            yield await self._reader.readexactly(length)
            return
        while True:
            line = await self._reader.readuntil(b"\r\n")
            size = int(line, 16)
            piece = await self._reader.readexactly(size + 2)
            if size == 0:
                return
            yield piece[:-2]

    async def body(self) -> bytes:
        return b"".join([piece async for piece in self.pieces()])

    async def events(self) -> AsyncIterator[bytes]:
        """The data of server-sent events."""
        rest = b""
        async for piece in self.pieces():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line.startswith(b"data: "):
                    yield line[6:]


@asynccontextmanager
async def connection(port: int) -> AsyncIterator[tuple]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    try:
        yield reader, writer
    finally:
        # At once: nobody waits for the rest.
        writer.transport.abort()


async def read_head(reader: asyncio.StreamReader) -> Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.split(": ", 1) for line in head[1:] if line)
    headers = {name.lower(): value for name, value in pairs}
    return Answer(int(head[0].split()[1]), headers, reader)


@asynccontextmanager
async def request(
    port: int, path: str, body: dict | bytes | None = None
) -> AsyncIterator[Answer]:
    """Sends a request on a connection of its own. Leaving the context leaves the server, whatever has arrived."""
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    method = "GET" if data is None else "POST"
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    if data is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    async with connection(port) as (reader, writer):
        writer.write(f"{head}\r\n".encode() + (data or b""))
        await writer.drain()
        yield await read_head(reader)


async def get(port: int, path: str) -> str:
    async with request(port, path) as answer:
        return (await answer.body()).decode()
