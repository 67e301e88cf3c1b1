"""Are the reasons right? Remove the item that an explanation names first, and look at the score.

    python benchmarks/reasons.py [--boards lastfm] [--pairs 60]

For some users the best item is explained by `LatentRoBiRank` (64 factors, its own defaults) and by
implicit's least squares of as many factors. The item that is named first is removed from what the
user has, the user is folded in again, and the score falls by so much. The scores of the two models
have different scales: each fall is divided by the mean fall over all items of the user that could
have been removed. Two more figures compare on one scale:

- share: the fall as a share of the largest that the removal of any one item brings,
- crossed: for the pairs of RoBiRank, its fall where the item is removed that implicit names.

The same share is printed for other ways to cut the sum over a user's items: by the pull of each
item alone, by the gradient by its score, and for the inner product of the two items' factors.

Ranks are among the items that the user does not have. About two minutes on two cores; the last line
is one JSON object. Gowalla takes ten.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from implicit.cpu.als import AlternatingLeastSquares
from scipy.sparse import csr_matrix

import robirank as rr
from robirank.losses import list_loss

FILES = {"lastfm": "lastfm/interactions.tsv.gz", "gowalla": "gowalla/train.tsv.gz"}
LENGTHS = 5, 50  # of the users who are asked about


class Model(NamedTuple):
    """What the test needs of a model: rows for baskets, and the item that it names first."""

    item_factors: Any
    fold_in: Callable[[csr_matrix], Any]
    named: Callable[[int, int], int]
    otherwise: Callable[[int, int], dict[str, int]] | None = None


class Removals(NamedTuple):
    """How the score and the rank of a user's best item change as each item is removed."""

    item: int
    falls: Any
    rank: Any


def ours(table: csr_matrix, factors: int, epochs: int | None) -> Model:
    fitted = rr.LatentRoBiRank(factors, iterations=epochs, random_state=0)
    fitted.fit(table, show_progress=False)

    def named(user: int, item: int) -> int:
        return int(fitted.explain(user, table, item, recalculate_user=True).items[0])

    def otherwise(user: int, item: int) -> dict[str, int]:
        why = fitted.explain(user, table, item, recalculate_user=True)
        V, own = fitted.item_factors, table[user].indices
        scores = V.astype(np.float64) @ fitted.fold_in(table[[user]])[0]
        has = np.zeros(len(V))
        has[own] = 1.0
        inner = V[own] @ V[item]
        return {
            "pull": int(why.items[(why.effects - why.others).argmax()]),
            "gradient": int(own[(-list_loss(scores, has).gradient[own] * inner).argmax()]),
            "inner": int(own[inner.argmax()]),
        }

    return Model(fitted.item_factors, fitted.fold_in, named, otherwise)


def theirs(table: csr_matrix, factors: int) -> Model:
    fitted = AlternatingLeastSquares(factors, random_state=0)
    fitted.fit(table, show_progress=False)

    def fold_in(rows: csr_matrix) -> Any:
        return fitted.recalculate_user(np.arange(rows.shape[0]), rows)

    def named(user: int, item: int) -> int:
        return int(fitted.explain(user, table, item, N=1)[1][0][0])

    return Model(fitted.item_factors, fold_in, named)


def without_each(row: csr_matrix) -> csr_matrix:
    """What a user has, and below it the same without each of the items in turn."""
    own = row.indices
    baskets = [own, *(np.delete(own, k) for k in range(len(own)))]
    items = np.concatenate(baskets)
    indptr = np.cumsum([0, *map(len, baskets)])
    return csr_matrix(
        (np.ones(len(items), np.float32), items, indptr), (len(baskets), row.shape[1])
    )


def removals(model: Model, row: csr_matrix) -> Removals:
    """Remove each item of a user in turn, and look at the item that was best before."""
    scores = model.fold_in(without_each(row)) @ model.item_factors.T
    scores[:, row.indices] = -np.inf
    best = int(scores[0].argmax())
    rank = 1 + (scores > scores[:, [best]]).sum(axis=1)
    return Removals(best, scores[0, best] - scores[1:, best], rank[1:])


def measure(table: csr_matrix, models: dict[str, Model], n_pairs: int) -> dict[str, float]:
    """The figures of some users' best items."""
    lengths = np.diff(table.indptr)
    users = np.flatnonzero((lengths >= LENGTHS[0]) & (lengths <= LENGTHS[1]))
    users = np.random.default_rng(0).permutation(users)[:n_pairs]
    found: dict[str, list[list[float]]] = {name: [] for name in models}
    crossed: list[float] = []
    cuts: dict[str, list[float]] = {}
    for user in users.tolist():
        own = table[user].indices
        for name, model in models.items():
            done = removals(model, table[[user]])
            place = int(np.flatnonzero(own == model.named(user, done.item))[0])
            falls, ranks = done.falls, np.log2(done.rank)
            row = [falls[place], falls.mean(), falls.max(), ranks[place], ranks.mean()]
            found[name].append(row)
            if model.otherwise is not None:
                fall_of = dict(zip(own.tolist(), falls.tolist(), strict=True))
                crossed.append(fall_of[models["implicit"].named(user, done.item)])
                for cut, item in model.otherwise(user, done.item).items():
                    cuts.setdefault(cut, []).append(fall_of[item])
    figures: dict[str, float] = {"pairs": len(users)}
    for name, rows in found.items():
        fall, mean, largest, rank, mean_rank = np.mean(rows, axis=0)
        figures |= {
            f"{name}_fall": round(float(fall), 4),
            f"{name}_over_random": round(float(fall / mean), 2),
            f"{name}_share": round(float(fall / largest), 3),
            f"{name}_log2_rank": round(float(rank), 3),
            f"{name}_log2_rank_random": round(float(mean_rank), 3),
        }
    own_falls, largest_falls = np.array(found["robirank"])[:, [0, 2]].T
    gain = own_falls - crossed
    figures |= {
        f"share_by_{cut}": round(float(np.mean(of_cut) / largest_falls.mean()), 3)
        for cut, of_cut in cuts.items()
    }
    return figures | {
        "crossed_fall": round(float(np.mean(crossed)), 4),
        "over_crossed": round(float(own_falls.mean() / np.mean(crossed)), 3),
        "over_crossed_z": round(float(gain.mean() / (gain.std() / np.sqrt(len(gain)) or 1.0)), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--boards", nargs="*", default=["lastfm"], choices=list(FILES))
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--factors", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=None)
    args = parser.parse_args()
    root = Path(os.environ.get("ROBIRANK_DATA", "../shared/data")) / "implicit"
    figures: dict[str, float] = {}
    for board in args.boards:
        table = rr.load_interactions(root / FILES[board], user=0, item=1, header=False).matrix
        table.data[:] = 1.0
        models = {
            "robirank": ours(table, args.factors, args.epochs),
            "implicit": theirs(table, args.factors),
        }
        measured = measure(table, models, args.pairs)
        print(f"\n{board}, {measured['pairs']} users with {LENGTHS[0]} to {LENGTHS[1]} items")
        for name in models:
            fall, ratio, share, rank, mean = (
                measured[f"{name}_{figure}"]
                for figure in ("fall", "over_random", "share", "log2_rank", "log2_rank_random")
            )
            print(
                f"  {name:8s} the score falls by {fall:.3f}, {ratio:.1f} times that of a random "
                f"item, {share:.2f} of the largest fall; log2 rank {rank:.2f}, random {mean:.2f}"
            )
        print(
            f"  removing what implicit names lowers RoBiRank's score by "
            f"{measured['crossed_fall']:.3f}; what is named here, {measured['over_crossed']:.2f} "
            f"times as much ({measured['over_crossed_z']:.1f} standard errors)"
        )
        cuts = {n.removeprefix("share_by_"): v for n, v in measured.items() if "share_by_" in n}
        print("  shares by other cuts:", ", ".join(f"{n} {v:.2f}" for n, v in cuts.items()))
        figures |= {f"{board}_{name}": value for name, value in measured.items()}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
