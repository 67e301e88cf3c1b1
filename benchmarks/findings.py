"""Figures behind remarks in the documentation, on LETOR's OHSUMED and MQ2008, five folds.

    python benchmarks/findings.py [--data FOLDER]

FOLDER holds OHSUMED/Fold1/train.txt.gz and so on; $ROBIRANK_DATA/letor by default. For readers, not
for choosing: test files are used for several settings. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path

import numpy as np

from robirank import InfNormPush, IRPush, RankSVM, load_dataset
from robirank.metrics import ndcg


def constant_scores(folds: object) -> dict[str, float]:
    """NDCG@10 of scoring every document alike: by the order of the file, and with ties averaged."""
    found = {}
    for name, ties in (("file_order", "first"), ("averaged", "average")):
        values = [
            ndcg(f.test.y, np.zeros(len(f.test)), f.test.qid, k=10, convention="letor", ties=ties)
            for f in folds
        ]
        found[f"constant_ndcg10_{name}"] = round(float(np.mean(values)), 3)
    return found


def ranksvm_by_c(folds: object) -> dict[str, float]:
    """Test NDCG@10 of RankSVM for single values of C."""
    found = {}
    for C in (1e-6, 1e-4, 1e-2, 10.0):
        values = []
        for f in folds:
            model = RankSVM(C).fit(f.train.X, f.train.y, qid=f.train.qid)
            test = f.test
            values.append(ndcg(test.y, model.predict(test.X), test.qid, k=10, convention="letor"))
        found[f"ranksvm_ndcg10_C={C:g}"] = round(float(np.mean(values)), 3)
    return found


def zero_optima(folds: object) -> dict[str, int]:
    """On how many folds the push methods with p = ∞ have w = 0 as their solution."""
    return {
        f"{kind.__name__.lower()}_zero_folds": sum(
            not kind(p=np.inf).fit(f.train.X, f.train.y, qid=f.train.qid).coef_.any() for f in folds
        )
        for kind in (IRPush, InfNormPush)
    }


def main() -> None:
    root = Path(__file__).resolve().parents[1]
    default = Path(os.environ.get("ROBIRANK_DATA", root.parent / "shared" / "data")) / "letor"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=default)
    folder = parser.parse_args().data
    warnings.simplefilter("ignore")
    ohsumed, mq2008 = (list(load_dataset(folder / name)) for name in ("OHSUMED", "MQ2008"))
    figures = constant_scores(ohsumed) | ranksvm_by_c(ohsumed)
    for name, folds in (("ohsumed", ohsumed), ("mq2008", mq2008)):
        figures |= {f"{name}_{key}": value for key, value in zero_optima(folds).items()}
    for name, value in figures.items():
        print(f"{name:32s} {value}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
