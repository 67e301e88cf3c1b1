"""A truncation level for RoBiRankBooster, as LightGBM's lambdarank has one: tried, and not kept.

    python benchmarks/truncation.py [--data FOLDER]

Only pairs count that have one of the first T documents of the present ranking, in the loss, its
gradient and its curvature. Prints NDCG@10 on the validation parts of OHSUMED and MQ2008, mean of
five folds, one setting, one seed; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from robirank import RoBiRankBooster, load_dataset
from robirank.objectives.listwise import Lists

SETTING = {"learning_rate": 0.1, "max_leaf_nodes": 7, "max_features": 0.5, "subsample": 0.5}
LEVELS = (None, 30, 10)


def truncated(scores: np.ndarray, labels: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and curvature of RoBiRank's loss of one list over the pairs that count."""
    relevant = np.flatnonzero(labels > 0)
    gain = 2**labels - 1
    ideal = (np.sort(gain)[::-1] / np.log2(np.arange(len(gain)) + 2)).sum()
    top = np.zeros(len(scores), dtype=bool)
    top[np.argsort(-scores, kind="stable")[:level]] = True
    counts = top | top[relevant][:, None]
    counts[np.arange(len(relevant)), relevant] = False
    gap = scores - scores[relevant][:, None]
    inner = (np.logaddexp2(0, gap) * counts).sum(axis=1, keepdims=True)
    rho_weight = gain[relevant][:, None] / ideal / ((1 + inner) * np.log(2))
    share = counts / (1 + np.exp2(-gap))
    pull, bend = rho_weight * share, rho_weight * share * (1 - share) * np.log(2)
    gradient, curvature = pull.sum(axis=0), bend.sum(axis=0)
    gradient[relevant] -= pull.sum(axis=1)
    curvature[relevant] += bend.sum(axis=1)
    return gradient, curvature


class TruncatedBooster(RoBiRankBooster):
    """RoBiRankBooster over the pairs that count."""

    level: int

    def _grow(self, X: Any, y: Any, *arguments: Any) -> Any:
        self._labels = y
        return super()._grow(X, y, *arguments)

    def _objective(self, lists: Lists, seed: int) -> Any:
        offsets, rng = lists.queries.offsets, np.random.default_rng(seed)

        def objective(scores: np.ndarray, _: Any) -> tuple[np.ndarray, np.ndarray]:
            both = np.zeros((2, len(scores)), dtype=np.float32)
            drawn = rng.random(len(offsets) - 1) < self.subsample
            for start, end in zip(offsets[:-1][drawn], offsets[1:][drawn], strict=True):
                if self._labels[start:end].any():
                    found = truncated(scores[start:end], self._labels[start:end], self.level)
                    both[:, start:end] = found
            return both[0], both[1]

        return objective


def validation(fold: Any, level: int | None) -> float:
    """NDCG@10 of the best round on the validation part."""
    settings: Any = {**SETTING, "n_estimators": 600, "random_state": 0, "num_threads": 1}
    model = RoBiRankBooster(**settings)
    if level is not None:
        model = TruncatedBooster(**settings)
        model.level = level
    train = fold.train
    model.fit(train.X, train.y, qid=train.qid, validation=fold.vali)
    return max(model.validation_scores_)


def main() -> None:
    root = Path(__file__).resolve().parents[1]
    default = Path(os.environ.get("ROBIRANK_DATA", root.parent / "shared" / "data")) / "letor"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=default)
    data = parser.parse_args().data
    found = {}
    for name in ("OHSUMED", "MQ2008"):
        for level in LEVELS:
            values = [validation(fold, level) for fold in load_dataset(data / name)]
            found[f"{name.lower()}_{level or 'whole'}"] = round(float(np.mean(values)), 4)
            print(f"{name}, first {level or 'whole list'}: {np.mean(values):.4f}", flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
