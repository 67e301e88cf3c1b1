"""A client of `benchmarks/serve.py`, in a process of its own: asks a server, prints what it saw.

    python benchmarks/_serve_load.py PORT PATH BODIES --requests 5000 --connections 32 [--rate 400]

BODIES is a file with a JSON body on each line. Without a rate, each connection asks as soon as it
has an answer. With one, requests begin at random times (Poisson), whatever the server does, and
their seconds count from there: waiting for a free connection is part of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import deque
from pathlib import Path


class Connection(asyncio.Protocol):
    """One connection, which has one request under way at a time."""

    def __init__(self, load: Load) -> None:
        self._load, self._content, self._begin = load, b"", 0.0
        self._need = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def ask(self, request: bytes, begin: float) -> None:
        self._content, self._need, self._begin = b"", -1, begin
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._content += data
        if self._need < 0:
            end = self._content.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._content[:end].lower()
            at = head.index(b"content-length:") + 15
            self._need = end + 4 + int(head[at:].split(b"\r\n", 1)[0])
        if len(self._content) >= self._need:
            self._load.answered(self, self._content.startswith(b"HTTP/1.1 200"), self._begin)


class Load:
    """Sends so many requests, and keeps the seconds of each."""

    def __init__(self, port: int, requests: list[bytes], connections: int, rate: float) -> None:
        self._port, self._requests, self._n, self._rate = port, requests, connections, rate
        self._next, self._waiting, self._free = 0, deque[float](), deque[Connection]()
        self.seconds: list[float] = []
        self.wrong = 0

    async def run(self) -> float:
        loop = asyncio.get_running_loop()
        self._done = loop.create_future()
        for _ in range(self._n):
            _, one = await loop.create_connection(lambda: Connection(self), "127.0.0.1", self._port)
            self._free.append(one)
        begin = time.perf_counter()
        if self._rate:
            await self._arrive(begin)
        else:
            for _ in range(len(self._requests)):
                self._waiting.append(0.0)
            self._send()
        await self._done
        return time.perf_counter() - begin

    async def _arrive(self, begin: float) -> None:
        """Let requests come at random times, of which all that are due begin at once."""
        rng, due = random.Random(0), begin
        for _ in range(len(self._requests)):
            due += rng.expovariate(self._rate)
            while (left := due - time.perf_counter()) > 0:
                await asyncio.sleep(left)
            self._waiting.append(due)
            self._send()

    def _send(self) -> None:
        while self._waiting and self._free:
            begin = self._waiting.popleft() or time.perf_counter()
            self._free.popleft().ask(self._requests[self._next], begin)
            self._next += 1

    def answered(self, connection: Connection, is_right: bool, begin: float) -> None:
        self.seconds.append(time.perf_counter() - begin)
        self.wrong += not is_right
        self._free.append(connection)
        self._send()
        if len(self.seconds) == len(self._requests) and not self._done.done():
            self._done.set_result(None)


def as_requests(path: str, bodies: list[str], n: int) -> list[bytes]:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    every = [f"{head}Content-Length: {len(b)}\r\n\r\n{b}".encode() for b in bodies]
    return [every[k % len(every)] for k in range(n)]


def share(seconds: list[float], q: float) -> float:
    return sorted(seconds)[min(len(seconds) - 1, int(q * len(seconds)))]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("path")
    parser.add_argument("bodies", type=Path)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.0)
    given = parser.parse_args()
    requests = as_requests(given.path, given.bodies.read_text().splitlines(), given.requests)
    load = Load(given.port, requests, given.connections, given.rate)
    seconds = asyncio.run(load.run())
    ms = {f"p{p:g}": 1e3 * share(load.seconds, p / 100) for p in (50, 99, 99.9)}
    print(json.dumps({"rate": len(requests) / seconds, "wrong": load.wrong, **ms}))


if __name__ == "__main__":
    main()
