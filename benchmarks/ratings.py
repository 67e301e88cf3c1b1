"""What dislikes and ages of records are worth, on a table of ratings with times.

    python benchmarks/ratings.py u.data [--seeds 5]

The file is that of MovieLens 100K, or any with user, item, rating and seconds in four columns
without a header. Records of 4 and 5 are what users took, of 1 and 2 what they took against.

- Dislikes: a fifth of what each user took is for the test, and of what they took against; the
  model is fitted to the others with and without ``dislikes``. Told are recall and NDCG@20 of the
  one, and the share of lists of 20 places that goes to the other: held-out dislikes, which no model
  was told of.
- Ages: the last fifth of the records is for the test, of users who have any before; ``half_life``
  is a share of the time that the table spans. The one that is best on the last fifth of the records
  before is taken.

Paired over users and seeds; the last line is one JSON object. Some five minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

import robirank as rr

METRICS = ("recall@20", "ndcg@20")
SHARES = (None, 2.0, 1.0, 0.5, 0.25, 0.125, 0.0625)


def read(path: str) -> tuple[rr.Interactions, rr.Interactions]:
    """What users took, and what they took against; of the same users and items."""
    user, item, rating, seconds = np.loadtxt(path, dtype=np.int64).T
    every = rr.Interactions.from_arrays(user, item, counts=rating, times=seconds)
    assert every.counts is not None
    return every.take(every.counts >= 4), every.take(every.counts <= 2)


def fitted(train: rr.Interactions, seed: int, dislikes: Any = None, **params: Any) -> Any:
    """A model with its defaults."""
    model = rr.LatentRoBiRank(random_state=seed, **params)
    return model.fit(train, show_progress=False, dislikes=dislikes)


def share_disliked(model: Any, train: rr.Interactions, disliked: rr.Interactions) -> float:
    """The share of the places of lists of 20 that go to some dislikes, among users who have any."""
    users = np.flatnonzero(disliked.lengths)
    lists, _ = model.recommend(users, train.matrix[users], N=20, unknown_users="popular")
    hits = [np.isin(lists[k], disliked.matrix[user].indices) for k, user in enumerate(users)]
    return float(np.mean(hits))


def dislikes(likes: rr.Interactions, against: rr.Interactions, seeds: int) -> dict[str, Any]:
    """With dislikes, and without: means over seeds, and the differences with their errors."""
    rows: dict[str, list[list[float]]] = {"without": [], "with": []}
    for seed in range(seeds):
        train, test = rr.split_ratio(likes, 0.2, random_state=seed)
        told, hidden = rr.split_ratio(against, 0.2, random_state=seed)
        for name, given in (("without", None), ("with", told)):
            model = fitted(train, seed, given)
            # Those that were told are left out of both lists, so that these compare.
            both = train.matrix + told.matrix
            result = rr.evaluate(model, train=both, test=test.matrix, k=20)
            share = share_disliked(model, rr.Interactions.from_matrix(both), hidden)
            rows[name].append([*(result[m] for m in METRICS), share])
    return _compared(rows, (*METRICS, "disliked"))


def ages(likes: rr.Interactions, seeds: int) -> dict[str, Any]:
    """The half-life that is best on the last records to train on, against none."""
    train, test = rr.split_time(likes, fraction=0.2)
    part, valid = rr.split_time(train, fraction=0.2)
    times = likes.timestamps
    span = float(times.max() - times.min())
    by_share = {}
    for share in SHARES:
        half_life = None if share is None else share * span
        model = fitted(part, 0, half_life=half_life)
        by_share[share] = _known_users(model, part, valid)["ndcg@20"]
        print(f"  half-life {share} of the span: validation NDCG@20 {by_share[share]:.4f}")
    best = max(by_share, key=lambda share: by_share[share])
    rows: dict[str, list[list[float]]] = {"without": [], "with": []}
    for seed in range(seeds):
        for name, share in (("without", None), ("with", best)):
            model = fitted(train, seed, half_life=None if share is None else share * span)
            result = _known_users(model, train, test)
            rows[name].append([result[m] for m in METRICS])
    return {"half_life": best} | _compared(rows, METRICS)


def _known_users(model: Any, train: rr.Interactions, test: rr.Interactions) -> Any:
    users = np.flatnonzero((train.lengths > 0) & (test.lengths > 0))
    return rr.evaluate(model, train=train, test=test, k=20, users=users)


def _compared(rows: dict[str, list[list[float]]], names: tuple[str, ...]) -> dict[str, Any]:
    found = {}
    for i, name in enumerate(names):
        without, with_it = (np.array(rows[key])[:, i] for key in ("without", "with"))
        gap = with_it - without
        error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else float("nan")
        found[name] = {
            "without": float(without.mean()),
            "with": float(with_it.mean()),
            "difference": float(gap.mean()),
            "error": float(error),
        }
        print(
            f"  {name:10} without {without.mean():.4f}  with {with_it.mean():.4f}  "
            f"difference {gap.mean():+.4f} ± {error:.4f}"
        )
    return found


def flat(found: dict[str, Any]) -> dict[str, Any]:
    """One figure for each study, metric and statistic."""
    figures: dict[str, Any] = {"half_life": found["ages"].pop("half_life")}
    for study, metrics in found.items():
        for metric, row in metrics.items():
            about = f"{study}_{metric.replace('@', '')}"
            figures |= {f"{about}_{statistic}": value for statistic, value in row.items()}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    likes, against = read(args.file)
    print(f"took: {likes}; took against: {against}")
    print("dislikes")
    found = {"dislikes": dislikes(likes, against, args.seeds)}
    print("ages")
    found["ages"] = ages(likes, args.seeds)
    print(json.dumps(flat(found)))


if __name__ == "__main__":
    main()
