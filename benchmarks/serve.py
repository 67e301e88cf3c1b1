"""Requests a second, and how long they take: `robirank serve` beside plain handlers.

    python benchmarks/serve.py [--items 41000 386000] [--factors 64] [--requests 4000]

Another process asks over loopback: known users, each with 44 items that are hidden, and baskets of
ten items, which are folded in; a tenth of the items is out of stock. Three servers are asked in
turns: ours, the same model in a plain handler (Flask behind waitress), and implicit's least squares
of the same size in such a handler. First as fast as each can on 32 connections; then at random
times at half of the rate that each has reached, where p50, p99 and p99.9 are measured.

Factors are random. The floor of a question is the time to read all rows of items once: the bytes of
V over the bandwidth of the machine, measured here. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, save_npz

import robirank as rr
from robirank.latent.factors.factors import Factors, Side

HERE = Path(__file__).parent
USERS, EACH, BASKET, BEST = 10_000, 44, 10, 10
KINDS = ("users", "baskets")
_CONNECTIONS = 32
_MOST_SECONDS = 20  # that the requests of a slow server may take


def make_files(folder: Path, items: int, factors: int, users: int) -> None:
    """A model, what its users have, the stock, and the bodies of requests."""
    rng = np.random.default_rng(0)
    scale = np.float32(factors**-0.5)
    U = rng.standard_normal((users, factors), dtype=np.float32)
    V = scale * rng.standard_normal((items, factors), dtype=np.float32)
    model = rr.LatentRoBiRank(factors, random_state=0)
    counts = rng.integers(1, 100, items).astype(np.int32)
    model.factors_ = Factors(Side(U), Side(V, counts=counts))
    model.regularization_, model.user_scale_, model.noise_level_ = 0.3, 1.0, 0.3
    model.n_iter_ = model.best_iter_ = 1
    model.solver_ = "exact"
    model.history_ = []
    model.save(folder / "model.safetensors")
    each = min(EACH, items // 4)
    taken = np.sort(rng.integers(0, items, (users, each), dtype=np.int32), axis=1)
    starts = np.arange(users + 1) * each
    ones = np.ones(taken.size, np.float32)
    history = csr_matrix((ones, taken.ravel(), starts), shape=(users, items))
    history.sum_duplicates()
    save_npz(folder / "history.npz", history)
    rr.Interactions.from_matrix(history).save(folder / "history.parquet")
    stock = (rng.random(items) > 0.1).astype(int).tolist()
    lines = "".join(f"{item},{left}\n" for item, left in enumerate(stock))
    (folder / "items.csv").write_text(f"id,stock\n{lines}")
    asked = [{"user": int(user), "n": BEST} for user in rng.integers(0, users, 2000)]
    baskets = [{"items": rng.choice(items, BASKET, False).tolist(), "n": BEST} for _ in range(200)]
    for kind, questions in (("users", asked), ("baskets", baskets)):
        text = "".join(json.dumps(question) + "\n" for question in questions)
        (folder / f"{kind}.jsonl").write_text(text)


def command(which: str, port: int, folder: Path) -> list[str]:
    """How a server is started."""
    if which != "ours":
        script = str(HERE / "_serve_plain.py")
        return [sys.executable, script, str(port), str(folder), which]
    return [
        *(sys.executable, "-m", "robirank", "serve", str(folder / "model.safetensors")),
        *("--port", str(port), "--train", str(folder / "history.parquet")),
        *("--items-table", str(folder / "items.csv"), "--where", "stock > 0", "--quiet"),
    ]


@contextlib.contextmanager
def running(which: str, folder: Path, workers: int = 1) -> Iterator[tuple[int, int]]:
    """A server in a process of its own: its port and its process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (folder / f"{which}.log").open("wb")
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # as implicit asks for; others do not mind
    started = command(which, port, folder) + (["--workers", str(workers)] if workers > 1 else [])
    with log, subprocess.Popen(started, stderr=log, stdout=log, env=env) as server:
        try:
            for _ in range(600):
                if server.poll() is not None:
                    raise SystemExit(f"{which} ended:\n{(folder / f'{which}.log').read_text()}")
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).read()
                    break
                time.sleep(0.1)
            yield port, server.pid
        finally:
            server.terminate()


def ask(port: int, folder: Path, kind: str, requests: int, rate: float = 0.0) -> dict[str, float]:
    """What a client in another process sees."""
    script, bodies = str(HERE / "_serve_load.py"), str(folder / f"{kind}.jsonl")
    options = ["--requests", str(requests), "--connections", str(_CONNECTIONS), "--rate", str(rate)]
    done = subprocess.run(
        [sys.executable, script, str(port), "/v1/recommend", bodies, *options],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seen = json.loads(done.stdout)
    if seen["wrong"]:
        raise SystemExit(f"{seen['wrong']} of {requests} answers are wrong")
    return seen


def bytes_per_second() -> float:
    """The rate at which all cores together read an array that no cache holds."""
    from concurrent.futures import ThreadPoolExecutor

    from robirank._threads import thread_count

    array = np.ones(1 << 27, np.float32)
    parts, best = np.array_split(array, thread_count()), 0.0
    with ThreadPoolExecutor(thread_count()) as pool:
        for _ in range(5):
            begin = time.perf_counter()
            list(pool.map(np.max, parts))
            best = max(best, array.nbytes / (time.perf_counter() - begin))
    return best


def memory_mb(process: int) -> float:
    """The memory of a process in RAM, shared pages included."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
    return float("nan")


def measure(which: str, folder: Path, requests: dict[str, int], kinds: list[str]) -> dict[str, Any]:
    """Rates, and milliseconds at half of them."""
    told: dict[str, Any] = {}
    with running(which, folder) as (port, process):
        for kind in kinds:
            first = ask(port, folder, kind, max(10, requests[kind] // 20))["rate"]
            n = int(min(requests[kind], max(30, first * _MOST_SECONDS)))
            most = ask(port, folder, kind, n)["rate"]
            half = ask(port, folder, kind, n, most / 2)
            told[kind] = {"rate": most, **{p: half[p] for p in ("p50", "p99", "p99.9")}}
            ms = "  ".join(f"{p} {told[kind][p]:7.1f} ms" for p in ("p50", "p99", "p99.9"))
            print(f"  {which:9s} {kind:8s} {most:8.0f} /s   at half of it {ms}", flush=True)
        told["mb"] = memory_mb(process)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, nargs="+", default=[41_000, 386_000])
    parser.add_argument("--factors", type=int, default=64)
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS])
    parser.add_argument("--servers", nargs="+", default=["ours", "robirank", "implicit"])
    given = parser.parse_args()
    bandwidth = bytes_per_second()
    print(f"the machine reads {bandwidth / 1e9:.1f} GB/s")
    figures: dict[str, Any] = {"bandwidth_gb": round(bandwidth / 1e9, 1)}
    for items in given.items:
        floor_ms = 1e3 * 4 * items * given.factors / bandwidth
        print(f"{items:,} items, {given.factors} factors: reading V takes {floor_ms:.2f} ms")
        asked = {"users": given.requests, "baskets": max(20, given.requests // 10)}
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make_files(folder, items, given.factors, given.users)
            told = {which: measure(which, folder, asked, given.kinds) for which in given.servers}
            model_mb = (folder / "model.safetensors").stat().st_size / 2**20
        size = f"{items // 1000}k" if items >= 1000 else str(items)
        figures[f"{size}_floor_ms"] = round(floor_ms, 3)
        ours = told["ours"]
        figures[f"{size}_memory_over_model_mb"] = round(ours["mb"] - model_mb, 1)
        for kind in given.kinds:
            for name in ("rate", "p50", "p99", "p99.9"):
                figures[f"{size}_{kind}_{name}"] = round(ours[kind][name], 2)
            for which in given.servers[1:]:
                ratio = ours[kind]["rate"] / told[which][kind]["rate"]
                figures[f"{size}_{kind}_vs_{which}"] = round(ratio, 2)
                print(f"  {kind}: {ratio:.1f} times the rate of {which} in Flask")
        print(f"  ours takes {ours['mb']:.0f} MB, the model {model_mb:.0f} MB")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
