"""Reading a LETOR file: load_letor beside scikit-learn's load_svmlight_file, in one run.

One file of about 100 MB is made from real lines (MQ2008, repeated with new query ids) and read by
both, plain and gzip, in turn. The floor is the time that it takes just to get the bytes: to read
them, or to read and unpack them. The last line of the output is one JSON object.

    python benchmarks/parser.py [--megabytes 100] [--rounds 3]
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from robirank.data.letor import load_letor

OURS, THEIRS, FLOOR = "robirank load_letor", "scikit-learn load_svmlight_file", "floor"
OURS_PER_ROUND = 5
BLOCK = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=100, help="size of the plain file")
    parser.add_argument("--rounds", type=int, default=3, help="how often each reader has its turn")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        plain, packed = make_files(Path(folder), arguments.megabytes * 1e6)
        megabytes = plain.stat().st_size / 1e6
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        gzip_megabytes = packed.stat().st_size / 1e6
        print(f"one file of {megabytes:.0f} MB, {gzip_megabytes:.0f} MB as gzip; {cores} cores")
        print(f"best of {arguments.rounds} rounds, {OURS_PER_ROUND} runs of ours in each\n")
        check_equal(plain)
        report: dict[str, Any] = {"megabytes": round(megabytes, 1), "cores": cores}
        for kind, path in (("plain", plain), ("gzip", packed)):
            best = race(path, arguments.rounds)
            print_table(kind, best, megabytes)
            report[kind] = {
                "robirank_s": round(best[OURS], 4),
                "sklearn_s": round(best[THEIRS], 4),
                "floor_s": round(best[FLOOR], 4),
                "speedup_vs_sklearn": round(best[THEIRS] / best[OURS], 2),
                "times_the_floor": round(best[OURS] / best[FLOOR], 2),
                "robirank_mb_per_s": round(megabytes / best[OURS], 1),
            }
        report = {"speedup_vs_sklearn": report["plain"]["speedup_vs_sklearn"], **report}
        print(json.dumps(report))


def race(path: Path, rounds: int) -> dict[str, float]:
    """Give each reader its turn, in the other order every other round; the best times."""
    readers: list[tuple[str, Callable[[], object], int]] = [
        (FLOOR, lambda: just_the_bytes(path), OURS_PER_ROUND),
        (OURS, lambda: load_letor(path), OURS_PER_ROUND),
        (THEIRS, lambda: load_svmlight_file(str(path), query_id=True, dtype=np.float32), 1),
    ]
    best = {name: float("inf") for name, _, _ in readers}
    for turn in range(rounds):
        for name, read, repeats in readers[:: -1 if turn % 2 else 1]:
            for _ in range(repeats):
                begin = time.perf_counter()
                read()
                best[name] = min(best[name], time.perf_counter() - begin)
    return best


def just_the_bytes(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        if path.suffix == ".gz":
            inflate = zlib.decompressobj(wbits=31)
            while block := file.read(BLOCK // 4):
                inflate.decompress(block)
        else:
            room = bytearray(BLOCK)
            while file.readinto(room):
                pass


def check_equal(path: Path) -> None:
    ours = load_letor(path)
    X, y, qid = load_svmlight_file(str(path), query_id=True, dtype=np.float32)
    np.testing.assert_array_equal(ours.X, X.toarray())
    np.testing.assert_array_equal(ours.y, y)
    np.testing.assert_array_equal(ours.qid, qid)


def print_table(kind: str, best: dict[str, float], megabytes: float) -> None:
    floor = {"plain": "floor (just read)", "gzip": "floor (just read and unpack)"}[kind]
    print(f"{kind:<34}{'seconds':>9}{'MB/s':>9}{'× floor':>9}{'speed-up':>10}")
    for name, seconds in best.items():
        print(
            f"{floor if name == FLOOR else name:<34}{seconds:>9.3f}{megabytes / seconds:>9.0f}"
            f"{seconds / best[FLOOR]:>9.1f}{best[THEIRS] / seconds:>10.1f}"
        )
    print()


def make_files(folder: Path, n_bytes: float) -> tuple[Path, Path]:
    lines = real_lines() or generated_lines()
    shift = 1 + max(int(qid) for qid in re.findall(rb"qid:(\d+)", b"".join(lines)))
    plain, packed = folder / "data.txt", folder / "data.txt.gz"
    with plain.open("wb") as file, gzip.open(packed, "wb", compresslevel=6) as gzip_file:
        for repeat in count():
            text = b"".join(moved(lines, repeat * shift))
            file.write(text)
            gzip_file.write(text)
            if file.tell() >= n_bytes:
                break
    return plain, packed


def moved(lines: list[bytes], shift: int) -> Iterator[bytes]:
    """Give the lines other query ids."""
    for line in lines:
        yield re.sub(
            rb"qid:(\d+)", lambda found: b"qid:%d" % (int(found[1]) + shift), line, count=1
        )


def real_lines() -> list[bytes]:
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    data = Path(os.environ.get("ROBIRANK_DATA", beside))
    path = data / "letor" / "MQ2008" / "Fold1" / "train.txt.gz"
    if not path.exists():
        print("MQ2008 not found (set ROBIRANK_DATA to its folder): lines are generated")
        return []
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


def generated_lines() -> list[bytes]:
    """Lines in the shape of MQ2008: 46 features in [0, 1] with six digits, half of them zero."""
    rng = random.Random(0)
    lines = []
    for row in range(9630):
        values = [rng.random() if rng.random() < 0.5 else 0 for _ in range(46)]
        features = " ".join(f"{index}:{value:.6f}" for index, value in enumerate(values, 1))
        comment = f"#docid = GX{row:03}-{row % 97:02}-{rng.randrange(10**7)} inc = 1 prob = 0.1"
        lines.append(f"{rng.randrange(3)} qid:{row // 20} {features} {comment}\n".encode())
    return lines


if __name__ == "__main__":
    main()
