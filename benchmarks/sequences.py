"""What comes next: each user's last item, ranked among all items after all but that one.

    python benchmarks/sequences.py [--boards toys lastfm] [--seeds 1] [--sasrec PYTHON]
    python benchmarks/sequences.py --file plays.csv.gz --user u --item i --time t

The protocol is that of S3-Rec (Zhou et al., CIKM 2020): the last item of a user is for the test,
all others are there to train on and to rank by, and whatever the user does not have is ranked.
Whatever has settings chooses them on the last but one item; the test is looked at once.

- popular: the items with the most records.
- counts: what was taken within ten places after the last three items, place g counted as 1/g,
  divided by a power of the number of records of the item; both powers chosen.
- markov: the first-order table of transitions from the last item; popularity where it is silent.
- plain: `LatentRoBiRank`, which does not look at the order.
- order: the same with ``order=True``.
- SASRec: the transformer of RecTools, in an environment of its own (``benchmarks/_sasrec.py``),
  where ``--sasrec`` names a Python that has ``rectools[torch]``.

Then the records of each user are shuffled: an order without meaning must cost nothing, that is at
most 1 % of what the plain model has on the same records. Last lines: one JSON object. Toys takes
about 15 minutes on two cores, LastFM one, without SASRec.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import robirank as rr

DATA = Path(os.environ.get("ROBIRANK_DATA", "../shared/data"))
FILES = {"toys": "Toys_and_Games", "lastfm": "LastFM"}
#: HR@10 and NDCG@10 as published, of all items: S3-Rec's repository, and TIGER's paper for Toys.
PUBLISHED = {
    "toys": {"SASRec": (0.0675, 0.0374), "S3-Rec": (0.0700, 0.0376), "TIGER": (0.0712, 0.0432)},
    "lastfm": {"SASRec": (0.0688, 0.0390), "S3-Rec": (0.0743, 0.0427)},
}
K, LAST, WINDOW = 10, 3, 10
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)


def board(name: str) -> rr.Interactions:
    """A table whose times are the places of records in the file."""
    users, items, times = [], [], []
    with gzip.open(DATA / "features" / "s3rec" / f"{FILES[name]}.txt.gz", "rt") as lines:
        for line in lines:
            user, *taken = line.split()
            users += [int(user)] * len(taken)
            items += map(int, taken)
            times += range(len(taken))
    return rr.Interactions.from_arrays(users, items, times=times)


def figures(lists: Any, test: rr.Interactions) -> dict[str, float]:
    """HR@10 and NDCG@10 of lists of positions, one for each user with a test record."""
    users = np.flatnonzero(test.lengths)
    hits = lists[users] == test.indices[test.indptr[users], None]
    return {
        "hr@10": float(hits.any(axis=1).mean()),
        "ndcg@10": float((hits / np.log2(np.arange(2, K + 2))).sum(axis=1).mean()),
    }


def best(scores: Any, train: sparse.csr_matrix) -> Any:
    """The ten best items of each user, a block of users at a time; ``scores`` gives a block's."""
    lists = np.empty((train.shape[0], K), np.int64)
    for begin in range(0, train.shape[0], 2000):
        users = slice(begin, min(begin + 2000, train.shape[0]))
        block = scores(users)
        block[train[users].nonzero()] = -np.inf
        top = np.argpartition(-block, K, axis=1)[:, :K]
        order = np.argsort(-np.take_along_axis(block, top, axis=1), axis=1, kind="stable")
        lists[users] = np.take_along_axis(top, order, axis=1)
    return lists


def in_order(data: rr.Interactions) -> tuple[Any, Any, Any]:
    """Users, items, and how many records of the user came after, in the order of times."""
    order = np.lexsort((data.timestamps, data.user_codes()))
    user = data.user_codes()[order]
    return user, data.indices[order], data.indptr[user + 1] - 1 - np.arange(len(order))


def counts_scores(data: rr.Interactions, window: int, last: int, by: float, to: float) -> Any:
    """Scores by what followed the last items within some places."""
    user, items, place = in_order(data)
    n = data.n_items
    table = sparse.csr_matrix((n, n), dtype=np.float32)
    for gap in range(1, window + 1):
        same = user[gap:] == user[:-gap]
        pairs = items[:-gap][same], items[gap:][same]
        table += sparse.csr_matrix((np.full(same.sum(), 1 / gap, np.float32), pairs), shape=(n, n))
    taken = np.maximum(np.bincount(items, minlength=n), 1.0)
    table = sparse.diags(taken**-by) @ table @ sparse.diags(taken**-to)
    recent = place < last
    weights = 1.0 / (1.0 + place[recent])
    rows = sparse.csr_matrix((weights, (user[recent], items[recent])), shape=data.shape)
    product, popularity = (rows @ table).tocsr(), 1e-9 * taken
    return lambda users: np.asarray(product[users].todense()) + popularity


def chosen_counts(train: rr.Interactions, window: int, last: int) -> tuple[float, float]:
    """The powers of the numbers of records that rank the last but one item best."""
    part, valid = rr.split_leave_one_out(train, by_time=True)
    return max(
        ((by, to) for by in POWERS for to in POWERS),
        key=lambda powers: figures(
            best(counts_scores(part, window, last, *powers), part.matrix), valid
        )["ndcg@10"],
    )


def sasrec(python: str, train: rr.Interactions, epochs: int, seed: int) -> Any:
    """Lists of a transformer, which another environment fits."""
    with tempfile.TemporaryDirectory() as folder:
        records, lists = Path(folder, "records.csv"), Path(folder, "lists.npy")
        rows = np.column_stack([train.user_codes(), train.indices, train.timestamps])
        np.savetxt(records, rows, "%d", ",", header="user,item,time", comments="")
        script = Path(__file__).with_name("_sasrec.py")
        command = [python, str(script), str(records), str(lists), str(epochs), str(seed)]
        subprocess.run(command, check=True, cwd=folder)
        return np.load(lists)


def lists_of(model: Any, train: rr.Interactions) -> Any:
    """The ten best items of each user by a latent model."""
    return model.recommend(np.arange(train.n_users), train.matrix, N=K)[0]


def fitted(train: rr.Interactions, factors: int, seed: int, device: str, *, order: bool) -> Any:
    """A latent model with its defaults."""
    model = rr.LatentRoBiRank(factors, order=order, device=device, random_state=seed)
    return model.fit(train, show_progress=False)


def shuffled(data: rr.Interactions, seed: int) -> rr.Interactions:
    """The same records of each user in random order."""
    return replace(data, timestamps=np.random.default_rng(seed).permutation(len(data)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--boards", nargs="*", default=list(FILES), choices=list(FILES))
    parser.add_argument("--file", type=Path, help="a table of your own")
    for name in ("user", "item", "time"):
        parser.add_argument(f"--{name}", default=name, help="its column")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--factors", type=int, default=64)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sasrec", metavar="PYTHON")
    parser.add_argument("--epochs", type=int, default=30, help="of SASRec")
    args = parser.parse_args()
    tables = {name: board(name) for name in args.boards}
    if args.file is not None:
        columns = {name: getattr(args, name) for name in ("user", "item", "time")}
        tables = {args.file.name: rr.load_interactions(args.file, **columns)}
    found = {name: measure(name, data, args) for name, data in tables.items()}
    print(json.dumps(flat(found)))


def flat(found: dict[str, dict[str, Any]]) -> dict[str, float]:
    """One figure for each board, method and metric; means over seeds."""
    names = {
        (board, method.split()[0], key)
        for board, methods in found.items()
        for method, row in methods.items()
        for key in row
    }
    return {
        f"{board}_{method}_{key.replace('@', '')}": float(
            np.mean([row[key] for name, row in found[board].items() if name.split()[0] == method])
        )
        for board, method, key in sorted(names)
    }


def measure(name: str, data: rr.Interactions, args: argparse.Namespace) -> dict[str, Any]:
    """All methods on one table; prints a line for each."""
    print(f"{name}: {data.n_users:,} users × {data.n_items:,} items, {len(data):,} records")
    train, test = rr.split_leave_one_out(data, by_time=True)
    results: dict[str, Any] = {}

    def tell(method: str, lists: Any, began: float, **more: Any) -> None:
        found = figures(lists, test) | more | {"seconds": round(time.perf_counter() - began, 1)}
        results[method] = found
        about = "  ".join(f"{key} {value:.4g}" for key, value in found.items())
        print(f"  {method:18} {about}", flush=True)

    for method, (rate, ndcg) in PUBLISHED.get(name, {}).items():
        print(f"  {method + ' (paper)':18} hr@10 {rate}  ndcg@10 {ndcg}")
    began = time.perf_counter()
    tell("popular", lists_of(rr.Popularity().fit(train), train), began)
    for method, window, last in (("counts", WINDOW, LAST), ("markov", 1, 1)):
        began = time.perf_counter()
        by, to = chosen_counts(train, window, last)
        lists = best(counts_scores(train, window, last, by, to), train.matrix)
        tell(method, lists, began, of_lead=by, of_follower=to)
    for seed in range(args.seeds):
        for order in (False, True):
            began = time.perf_counter()
            model = fitted(train, args.factors, seed, args.device, order=order)
            method = f"{'order' if order else 'plain'} {seed}"
            tell(method, lists_of(model, train), began, weight=model.order_weight_)
    if args.sasrec:
        began = time.perf_counter()
        tell("SASRec", sasrec(args.sasrec, train, args.epochs, 0), began)
    mixed = rr.split_leave_one_out(shuffled(data, 1), by_time=True)
    weights, ratios = [], []
    for seed in range(args.seeds):
        models = [
            fitted(mixed[0], args.factors, seed, args.device, order=order)
            for order in (False, True)
        ]
        plain, ordered = (figures(lists_of(m, mixed[0]), mixed[1])["ndcg@10"] for m in models)
        ratios.append(ordered / plain)
        weights.append(models[1].order_weight_)
    results["shuffled"] = {"ratio": np.mean(ratios), "weight": np.mean(weights)}
    print(f"  shuffled: weight {weights}, NDCG@10 {np.mean(ratios):.4f} times that of plain")
    return results


if __name__ == "__main__":
    main()
