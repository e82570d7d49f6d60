"""Measures servers beside each other: streams that run at once, through each in turn.

python peer.py pteron=8080 llama.cpp=8081 [--streams 8 16] [--tokens 64] [--rounds 3] [--vocabulary 4000]

The servers run already, each on its port, with the same model. A round asks each for as many completions at once as is said, of prompts
of 16 random tokens, with greedy sampling; all get the same prompts, and who goes first changes. A token counts when its event arrives,
so a server that sends several at once, or waits for the rest of a letter, has fewer. Standard library only; this program takes its part
of the processor from a server that computes on it.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import time

from http_client import request
from load import quantiles

PROMPT = 16


class Measured:
    """What arrived from one server."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.between: list[float] = []
        self.speeds: list[float] = []

    async def stream(self, port: int, body: dict) -> int:
        """Returns the number of tokens that the server says it generated."""
        sent, last, tokens = time.monotonic(), None, 0
        async with request(port, "/v1/completions", body) as answer:
            assert answer.status == 200, await answer.body()
            async for event in answer.events():
                if event == b"[DONE]":
                    break
                data = json.loads(event)
                tokens = (data.get("usage") or {}).get("completion_tokens", tokens)
                if not any(choice["text"] for choice in data["choices"]):
                    continue
                now = time.monotonic()
                if last is None:
                    self.first.append(now - sent)
                else:
                    self.between.append(now - last)
                last = now
        assert tokens == body["max_tokens"], f"{tokens} tokens"
        return tokens

    async def round(self, port: int, bodies: list[dict]) -> None:
        started = time.monotonic()
        tokens = await asyncio.gather(*[self.stream(port, body) for body in bodies])
        self.speeds.append(sum(tokens) / (time.monotonic() - started))


def bodies(options: argparse.Namespace, streams: int, seed: int) -> list[dict]:
    choose = random.Random(seed)
    return [
        {
            # Other tokens each time, so that no prefix is cached.
            "prompt": [
                choose.randrange(100, options.vocabulary) for _ in range(PROMPT)
            ],
            "max_tokens": options.tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        for _ in range(streams)
    ]


async def compare(options: argparse.Namespace, streams: int) -> None:
    servers = [(name, int(port), Measured()) for name, port in options.servers]
    for _, port, _ in servers:
        await Measured().round(port, bodies(options, streams, streams))
    for number in range(1, options.rounds + 1):
        for _, port, measured in servers:
            await measured.round(
                port, bodies(options, streams, 1000 * number + streams)
            )
        servers.reverse()
    print(f"{streams} streams, load average {os.getloadavg()[0]:.1f}")
    for name, _, measured in sorted(servers, key=lambda server: server[0]):
        speeds = ", ".join(f"{speed:.1f}" for speed in measured.speeds)
        print(f"  {name}: {statistics.median(measured.speeds):.1f} tokens/s ({speeds})")
        print(
            f"    first token: {quantiles(measured.first)}; between two: {quantiles(measured.between)}",
            flush=True,
        )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "servers", nargs="+", type=lambda text: text.split("=", 1), metavar="NAME=PORT"
    )
    parser.add_argument("--streams", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--vocabulary", type=int, default=4000)
    options = parser.parse_args()
    for streams in options.streams:
        await compare(options, streams)


if __name__ == "__main__":
    asyncio.run(main())
