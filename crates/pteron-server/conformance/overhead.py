"""Measures what HTTP costs: many streams through `pteron serve`, against the engine without the server.

python overhead.py path/to/pteron [--streams 64] [--tokens 64] [--rounds 5] [options of both after --]

The engine is measured by `pteron bench --sequences`, the server by as many streams at once; the two take turns, so that what else
the machine does meets both. Both count the tokens that the engine generates while every text decodes: the server's in /metrics.
Standard library only; this program takes its part of the processor from the server, where the adapter is a software one.
"""

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import time

from http_client import get, request
from load import Server, metric, quantiles

PROMPT = 16
VOCABULARY = 4000


class Streams:
    """Streams that run at once, and when their tokens arrived."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.between: list[float] = []
        self.begun = 0
        self.events = 0

    async def run(self, port: int, seed: int, most: int) -> None:
        choose = random.Random(seed)
        # Other tokens each time, so that no prefix is cached.
        prompt = [choose.randrange(100, VOCABULARY) for _ in range(PROMPT)]
        body = {"prompt": prompt, "max_tokens": most, "temperature": 0}
        body |= {"ignore_eos": True, "stream": True}
        sent, last = time.monotonic(), None
        async with request(port, "/v1/completions", body) as answer:
            assert answer.status == 200, await answer.body()
            async for _ in answer.events():
                now = time.monotonic()
                if last is None:
                    self.begun += 1
                    self.first.append(now - sent)
                else:
                    self.between.append(now - last)
                last = now
                self.events += 1


async def serve(options: argparse.Namespace, server: Server, seed: int) -> Streams:
    """Tokens per second through the server, in `speed` of what is returned."""
    streams = Streams()
    most = 2 * options.tokens + 64
    running = [
        asyncio.create_task(streams.run(server.port, seed + number, most))
        for number in range(options.streams)
    ]
    while streams.begun < options.streams:
        await asyncio.sleep(0.001)
    before = metric(await get(server.port, "/metrics"), "pteron_generated_tokens_total")
    started, events = time.monotonic(), streams.events
    while streams.events - events < options.streams * options.tokens:
        await asyncio.sleep(0.001)
        assert not any(task.done() for task in running), "a stream ended"
    ended = time.monotonic()
    after = metric(await get(server.port, "/metrics"), "pteron_generated_tokens_total")
    # Asking takes time, too, in which tokens are generated.
    streams.speed = (after - before) / (time.monotonic() - started)
    streams.delivered = (streams.events - events) / (ended - started)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    while metric(await get(server.port, "/metrics"), "pteron_requests_active"):
        await asyncio.sleep(0.05)
    return streams


async def engine(options: argparse.Namespace) -> float:
    command = [options.pteron, "bench", "--sequences", str(options.streams)]
    command += ["--prompt-length", str(PROMPT), "--tg", str(options.tokens)]
    command += ["--repeat", "1", "--json", *options.more]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    output, _ = await process.communicate()
    return json.loads(output)["tests"][0]["decode_tokens_per_second"]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pteron")
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    given = [*sys.argv[1:], "--"]
    at = given.index("--")
    options = parser.parse_args(given[:at])
    options.more = given[at + 1 : -1]
    options.sequences = options.streams
    server = Server(options)
    await server.start()
    rounds, first, between = [], [], []
    try:
        await serve(options, server, 0)
        for number in range(1, options.rounds + 1):
            alone = await engine(options)
            streams = await serve(options, server, 1000 * number)
            first += streams.first
            between += streams.between
            rounds.append((alone, streams.speed))
            print(
                f"engine {alone:.1f}, HTTP {streams.speed:.1f} tokens/s "
                f"({streams.delivered:.1f} events/s): {streams.speed / alone:.3f}",
                flush=True,
            )
    finally:
        server.process.kill()
    alone, http = (statistics.median(side) for side in zip(*rounds, strict=True))
    print(
        f"medians: engine {alone:.1f}, HTTP {http:.1f} tokens/s, ratio {http / alone:.3f}"
    )
    print(f"ratios: {', '.join(f'{h / a:.3f}' for a, h in rounds)}")
    print(f"first token: {quantiles(first)}; between two: {quantiles(between)}")


if __name__ == "__main__":
    asyncio.run(main())
