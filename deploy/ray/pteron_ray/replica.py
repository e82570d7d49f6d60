"""A replica: a process of `pteron serve`, and what Ray asks of it."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator

import aiohttp

from pteron_ray.scaling import queue

# What belongs to a connection and not to a request or an answer (RFC 9110, section 7.6.1), and what is computed anew.
OF_CONNECTIONS = {
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
STARTING_SECONDS = 600
DRAINING_SECONDS = 30


def without_connection(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [
        (name, value) for name, value in headers if name.lower() not in OF_CONNECTIONS
    ]


def end_with_parent() -> None:
    """Linux ends the server when the replica's process is killed: its GPU is needed by the next one."""
    if sys.platform == "linux":
        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Replica:
    """Starts a server, passes requests on to it, and ends with it."""

    def __init__(self, command: list[str]):
        arguments = [*command, "--host", "127.0.0.1", "--port", "0", "--log", "text"]
        self._process = subprocess.Popen(
            arguments,
            stderr=subprocess.PIPE,
            text=True,
            # Nothing but a system call happens between fork and exec.
            preexec_fn=end_with_parent,  # noqa: PLW1509
        )
        self._stopping = False
        self._url = self._wait_until_loaded()
        threading.Thread(target=self._watch, daemon=True).start()
        self._session: aiohttp.ClientSession | None = None

    def _wait_until_loaded(self) -> str:
        url, lines = None, []
        timer = threading.Timer(STARTING_SECONDS, self._process.kill)
        timer.start()
        for line in self._process.stderr:
            lines.append(line)
            found = re.search(r"(http://[0-9.]+:[0-9]+): ", line)
            url = found.group(1) if found else url
            if url and "model loaded" in line:
                timer.cancel()
                return url
        timer.cancel()
        raise RuntimeError("pteron serve did not start:\n" + "".join(lines[-20:]))

    def _watch(self) -> None:
        """Passes the server's events on. When it ends by itself, so does the replica: Ray starts another one."""
        for line in self._process.stderr:
            sys.stderr.write(line)
        self._process.wait()
        if not self._stopping:
            os._exit(1)

    def _client(self) -> aiohttp.ClientSession:
        # In the loop that requests run in, which is not the one of the constructor.
        if self._session is None:
            # The server decides how long a request may take.
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(
                timeout=timeout, connector=connector, auto_decompress=False
            )
        return self._session

    async def forward(
        self,
        method: str,
        target: str,
        headers: list[tuple[str, str]],
        body: bytes,
        beginnings: list[str],
    ) -> AsyncIterator[tuple | bytes]:
        """Yields status and headers of the answer, then its bytes as they come. Cancelling it closes the connection to the server,
        which cancels the request. `beginnings` is for the router."""
        del beginnings
        sent = without_connection(headers)
        call = self._client().request(
            method, self._url + target, headers=sent, data=body, allow_redirects=False
        )
        async with call as answer:
            yield answer.status, without_connection(list(answer.headers.items()))
            async for chunk in answer.content.iter_any():
                yield chunk

    async def check_health(self) -> None:
        """Ray replaces a replica that does not answer. One that loads its model again after a lost device does."""
        timeout = aiohttp.ClientTimeout(total=10)
        async with self._client().get(f"{self._url}/health", timeout=timeout) as answer:
            answer.raise_for_status()

    async def record_autoscaling_stats(self) -> dict[str, float]:
        async with self._client().get(f"{self._url}/metrics") as answer:
            return queue(await answer.text())

    async def process(self) -> int:
        """The server's process, for tests."""
        return self._process.pid

    def __del__(self) -> None:
        # Ray has waited for the requests; the server waits for what is left of them.
        self._stopping = True
        process = getattr(self, "_process", None)
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(DRAINING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
