"""What features cost: an epoch with features beside one without, and the share of the regression.

    python benchmarks/features.py [--shapes citeulike wide] [--device cuda]

- citeulike: 7,947 users × 25,975 items with 66 of 8,000 words each, as in citeulike-t.
- wide: 20,000 users × 10,000 items with 20 of a million columns each.
- millionsong (only if asked for; needs a card): 1,129,318 users × 386,133 items with 20 of 1,000
  columns each.

Epochs with and without features take turns; what is reported is the median of their ratios, the
share of an epoch that goes into the regression of rows on features, and what the features add to
the memory of the process. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import robirank as rr
from robirank._workers import Workers
from robirank.data.user_items import UserItems, as_user_items
from robirank.latent.solvers import centred, make_solver
from robirank.latent.train.local import named_start, with_features
from robirank.latent.tune.settle import settle_by_table


class Shape(NamedTuple):
    """Of a generated table and of the features of its items."""

    n_users: int
    n_items: int
    n_interactions: int
    n_columns: int
    per_item: int


SHAPES = {
    "citeulike": Shape(7_947, 25_975, 134_860, 8_000, 66),
    "wide": Shape(20_000, 10_000, 500_000, 1_000_000, 20),
    "millionsong": Shape(1_129_318, 386_133, 49_824_519, 1_000, 20),
}


def tables(shape: Shape) -> tuple[UserItems, UserItems]:
    """A table without features, and the same with features of the items."""
    data = rr.make_interactions(shape.n_users, shape.n_items, shape.n_interactions, random_state=0)
    rng = np.random.default_rng(0)
    columns = rng.integers(0, shape.n_columns, shape.n_items * shape.per_item)
    indptr = np.arange(0, len(columns) + 1, shape.per_item)
    size = (shape.n_items, shape.n_columns)
    counts = sparse.csr_matrix((np.ones(len(columns), np.float32), columns, indptr), size)
    plain = as_user_items(data.matrix)
    return plain, with_features(plain, None, rr.Features.from_matrix(counts))


def synchronize(device: str) -> None:
    """Wait for a card, so that a clock sees its work."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def measure(name: str, shape: Shape, device: str, epochs: int) -> dict[str, float]:
    """The cost of features at one shape."""
    begin = time.perf_counter()
    plain, featured = tables(shape)
    print(f"\n{name}: made in {time.perf_counter() - begin:.1f} s", flush=True)
    model = rr.LatentRoBiRank(solver="exact", regularization=0.3, random_state=0, device=device)
    in_regression: list[float] = []
    of_features = centred.FeaturedTable.centres

    def timed_centres(*arguments: Any) -> Any:
        synchronize(device)
        begin = time.perf_counter()
        centres = of_features(*arguments)
        synchronize(device)
        in_regression.append(time.perf_counter() - begin)
        return centres

    centred.FeaturedTable.centres = timed_centres  # type: ignore[method-assign]
    seconds: list[list[float]] = [[], []]
    with Workers() as workers:
        solvers = []
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for table in (plain, featured):
            problem = settle_by_table(model.request(), table)
            solvers.append(make_solver(problem, table, named_start(problem, table), workers))
        for number in range(epochs + 1):  # the first one has no centres yet
            for solver, taken in zip(solvers, seconds, strict=True):
                synchronize(device)
                begin = time.perf_counter()
                solver.epoch(number, 64)
                synchronize(device)
                taken.append(time.perf_counter() - begin)
    centred.FeaturedTable.centres = of_features  # type: ignore[method-assign]
    without, with_them = (np.array(taken[1:]) for taken in seconds)
    ratio = float(np.median(with_them / without))
    share = float(np.median(np.array(in_regression) / with_them))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    print(
        f"  an epoch {np.median(without):.3f} s without features, {np.median(with_them):.3f} s with"
        f" them: {ratio:.2f} times; the regression is {100 * share:.1f} % of it\n"
        f"  both fits took {grown:.2f} GB; W has {4e-9 * shape.n_columns * 64:.3f} GB"
    )
    return {
        f"{name}_epoch_seconds": round(float(np.median(without)), 3),
        f"{name}_epoch_ratio": round(ratio, 3),
        f"{name}_regression_share": round(share, 3),
        f"{name}_memory_gb": round(grown, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="*", default=["citeulike", "wide"], choices=list(SHAPES))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--shrink", type=int, default=1, help="divide users and items by this")
    args = parser.parse_args()
    figures: dict[str, float] = {}
    for name in args.shapes:
        shape = SHAPES[name]
        shape = Shape(*(max(1, n // args.shrink) for n in shape[:4]), shape.per_item)
        figures |= measure(name, shape, args.device, args.epochs)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
