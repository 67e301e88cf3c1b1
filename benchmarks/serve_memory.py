"""Memory of `robirank serve`: of each process alone, and shared between workers.

    python benchmarks/serve_memory.py [--items 41000 386000] [--factors 64] [--workers 1 2]

Models, tables and questions are those of `benchmarks/serve.py`: 100 known users and 100 baskets are
asked, and then the kernel is asked what each process has (`/proc/PID/smaps_rollup`, Linux alone).
The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import urllib.request
from pathlib import Path

import serve

_ASKED = 100  # questions of a kind


def processes(parent: int) -> list[int]:
    """A process and all below it."""
    found = [parent]
    for task in Path(f"/proc/{parent}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += processes(int(child))
    return found


def megabytes(process: int) -> tuple[float, float]:
    """The memory that a process has for itself, and what it shares with others."""
    own = shared = 0
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]:
        name, kilobytes = line.split()[:2]
        own += int(kilobytes) if name.startswith("Private_") else 0
        shared += int(kilobytes) if name.startswith("Shared_") else 0
    return own / 1024, shared / 1024


def ask(port: int, folder: Path) -> None:
    """Ask some questions of each kind, over connections that any worker may take."""
    for kind in serve.KINDS:
        for body in (folder / f"{kind}.jsonl").read_bytes().splitlines()[:_ASKED]:
            url = f"http://127.0.0.1:{port}/v1/recommend"
            urllib.request.urlopen(url, body, timeout=60).read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, nargs="+", default=[41_000, 386_000])
    parser.add_argument("--factors", type=int, default=64)
    parser.add_argument("--users", type=int, default=serve.USERS)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    given = parser.parse_args()
    figures: dict[str, float] = {}
    for items in given.items:
        size = f"{items // 1000}k" if items >= 1000 else str(items)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            serve.make_files(folder, items, given.factors, given.users)
            model = (folder / "model.safetensors").stat().st_size / 2**20
            print(f"{items:,} items, {given.factors} factors: the model has {model:.0f} MB")
            figures[f"{size}_model_mb"] = round(model, 1)
            for workers in given.workers:
                with serve.running("ours", folder, workers) as (port, process):
                    ask(port, folder)
                    told = [megabytes(one) for one in processes(process)]
                # The parent and its helpers come first; those who answer were started last.
                own, shared = max(told[-workers:])
                print(f"  {workers} workers: {own:.0f} MB for itself, {shared:.0f} MB shared")
                figures[f"{size}_{workers}_own_mb"] = round(own, 1)
                figures[f"{size}_{workers}_shared_mb"] = round(shared, 1)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
