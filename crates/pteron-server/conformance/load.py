"""Loads `pteron serve` with many clients, and checks that nothing gives way.

python load.py path/to/pteron [--clients 256] [--minutes 10] [--sequences 16] [options of pteron serve after --]

Each client asks for texts one after another, through all APIs, streamed or not, some with a schema. A tenth of the requests is left
in the middle, and a tenth is garbage. Then the server is killed under load and started again, and is told to stop under load. What is
checked: no status of 500 or above while the server runs, no request without an end, every finished text whole (greedy texts are
compared with those of an idle server), the memory of the process flat, nothing left in the engine, no stream lost that was accepted
before SIGTERM. Standard library only.
"""

import argparse
import asyncio
import contextlib
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time

from http_client import get, request
from load_clients import Load


class Server:
    """A server process."""

    def __init__(self, options: argparse.Namespace):
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self._command = [
            options.pteron,
            "serve",
            "--port",
            str(self.port),
            "--log",
            "off",
        ]
        self._command += [
            "--max-sequences",
            str(options.sequences),
            "--max-queue",
            "2048",
        ]
        self._command += options.more

    async def start(self) -> float:
        """Returns the seconds until it is ready."""
        started = time.monotonic()
        self.process = await asyncio.to_thread(subprocess.Popen, self._command)
        while True:
            assert self.process.poll() is None, "the server ended"
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                async with request(self.port, "/ready") as answer:
                    if answer.status == 200:
                        return time.monotonic() - started
            await asyncio.sleep(0.1)

    def memory(self) -> int:
        """Resident bytes."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def metric(text: str, name: str) -> float:
    return sum(
        float(value)
        for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
    )


def quantiles(values: list[float]) -> str:
    if len(values) < 20:
        return "too few"
    parts = statistics.quantiles(values, n=20)
    return f"p50 {parts[9] * 1000:.1f} ms, p95 {parts[18] * 1000:.1f} ms"


async def watch(
    server: Server, samples: list[tuple[float, int, int]], until: float
) -> None:
    started = time.monotonic()
    while time.monotonic() < until:
        samples.append((time.monotonic() - started, server.memory(), server.files()))
        await asyncio.sleep(1)


async def under_load(load: Load, count: int, seconds: float) -> list[asyncio.Task]:
    until = time.monotonic() + seconds
    clients = [asyncio.create_task(load.client(until)) for _ in range(count)]
    while load.streams < 3:
        await asyncio.sleep(0.1)
    return clients


async def steady(server: Server, load: Load, options: argparse.Namespace) -> None:
    """The long run."""
    samples: list[tuple[float, int, int]] = []
    until = time.monotonic() + 60 * options.minutes
    started = time.monotonic()
    watching = asyncio.create_task(watch(server, samples, until))
    await asyncio.gather(*[load.client(until) for _ in range(options.clients)])
    elapsed = time.monotonic() - started
    watching.cancel()
    print(f"{elapsed:.0f} s, {options.clients} clients: {dict(load.counts)}")
    print(
        f"{load.tokens} tokens of whole texts, {load.tokens / elapsed:.0f} per second"
    )
    print(
        f"first token: {quantiles(load.first)}; between two: {quantiles(load.between)}"
    )
    memory = [bytes for _, bytes, _ in samples]
    third = max(len(memory) // 3, 1)
    shown = [
        statistics.median(part) / 2**20
        for part in (memory[:third], memory[third : 2 * third], memory[2 * third :])
        if part
    ]
    print(
        f"memory by thirds: {', '.join(f'{mib:.1f}' for mib in shown)} MiB, at most {max(memory) / 2**20:.1f} MiB"
    )
    if shown[-1] > shown[1] * 1.03 + 4:
        load.problem("the memory grows")
    # What was left or cut off ends at once; give the engine a step.
    await asyncio.sleep(2)
    text = await get(server.port, "/metrics")
    for name in (
        "pteron_requests_active",
        "pteron_requests_running",
        "pteron_requests_waiting",
        "pteron_kv_blocks_used",
    ):
        if metric(text, name):
            load.problem(f"{name} is {metric(text, name)} after the load")
    failed = metric(text, "pteron_texts_failed_total")
    texts = {
        name: int(metric(text, f"pteron_texts_{name}_total"))
        for name in ("finished", "cancelled", "failed")
    }
    print(
        f"texts of the engine: {texts}, preemptions {metric(text, 'pteron_preemptions_total'):.0f}; open files: {server.files()}"
    )
    if failed:
        load.problem(f"{failed} texts failed")


async def kill_and_restart(
    server: Server, load: Load, options: argparse.Namespace
) -> None:
    clients = await under_load(load, options.clients, 60)
    load.ending = load.killed = True
    server.process.kill()
    server.process.wait()
    await asyncio.gather(*clients)
    seconds = await server.start()
    load.ending = load.killed = False
    await load.completion()
    print(
        f"killed under load, {load.lost} streams lost with it; ready again after {seconds:.1f} s, and answers"
    )


async def terminate(server: Server, load: Load, options: argparse.Namespace) -> None:
    clients = await under_load(load, options.clients, 60)
    running = load.streams
    load.ending = True
    server.process.send_signal(signal.SIGTERM)
    started = time.monotonic()
    status = await asyncio.to_thread(server.process.wait)
    await asyncio.gather(*clients)
    print(
        f"SIGTERM with {running} streams: status {status} after {time.monotonic() - started:.1f} s"
    )
    if status != 0:
        load.problem(f"the server ended with status {status}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pteron")
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--sequences", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    given = [*sys.argv[1:], "--"]
    at = given.index("--")
    options = parser.parse_args(given[:at])
    options.more = given[at + 1 : -1]
    server = Server(options)
    print(f"ready after {await server.start():.1f} s")
    load = Load(server.port, options.seed)
    try:
        await load.learn()
        await steady(server, load, options)
        await kill_and_restart(server, load, options)
        await terminate(server, load, options)
    finally:
        server.process.kill()
    print(f"{len(load.problems)} problems" if load.problems else "no problem")
    sys.exit(1 if load.problems else 0)


if __name__ == "__main__":
    asyncio.run(main())
