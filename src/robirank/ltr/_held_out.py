"""Held-out queries that choose a setting, or tell an iterative fit when to stop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from robirank._checks import check_count
from robirank._features import feature_type
from robirank._sparse import check_sparse
from robirank.metrics import ndcg


class HeldOut:
    """Validation data, checked, with the measure that decides on it.

    Parameters
    ----------
    validation : (X, y, qid) or RankingData
        What the user passed; qid may be None for a single query.
    n_features : int
        How many features the training data have.
    k, convention
        The measure is mean NDCG@k in that convention of `robirank.metrics`; of several cut-offs,
        their mean.
    finite : bool or "allow-nan", default=True
        Whether features may be missing, in the words of scikit-learn's ``check_array``.

    Examples
    --------
    >>> held_out = HeldOut(([[0.0], [1.0]], [0, 1], None), 1, k=10, convention="standard")
    >>> held_out.ndcg([0.5, 2.5])
    1.0
    """

    def __init__(
        self,
        validation: Any,
        n_features: int,
        *,
        k: int | Sequence[int] | None,
        convention: str,
        finite: bool | str = True,
    ) -> None:
        for cut in k if isinstance(k, Sequence) else [k]:
            check_count("k", cut, or_none=True)
        try:
            X, y, qid = validation
        except (TypeError, ValueError):
            raise ValueError("validation must be (X, y, qid) or RankingData") from None
        self.X = check_array(
            check_sparse("validation", X),
            accept_sparse="csr",
            dtype=feature_type(X),
            order="C",
            ensure_all_finite=finite,
            input_name="validation",
        )
        if self.X.shape[1] != n_features:
            raise ValueError(
                f"validation must have the {n_features} features of the training data; "
                f"got shape {self.X.shape}"
            )
        self.y: NDArray[Any] = np.asarray(y)
        if self.y.shape != (self.X.shape[0],):
            raise ValueError(
                f"validation must have one label for each of its {self.X.shape[0]} rows; "
                f"got shape {self.y.shape}"
            )
        if not (self.y > 0).any():
            raise ValueError("validation has no relevant document, so it cannot tell what is best")
        self.qid, self.k, self.convention = qid, k, convention

    def ndcg(self, scores: Any) -> float:
        """Mean NDCG@k of scores, one a row."""
        by_cut = ndcg(self.y, scores, self.qid, k=self.k, convention=self.convention)
        return float(np.mean(by_cut))


class BestSoFar:
    """The best of a series of scores, and whether to give up on finding a better one.

    Of equally good rounds the first is the best, so that a longer run never changes the answer
    without a gain.

    Examples
    --------
    >>> best = BestSoFar(patience=2)
    >>> [best.add(score) for score in (0.3, 0.5, 0.5, 0.4)]
    [True, True, False, False]
    >>> best.round, best.given_up
    (2, True)
    """

    def __init__(self, patience: int | None) -> None:
        self.patience = patience
        self.scores: list[float] = []
        self.round = 0

    def add(self, score: float) -> bool:
        """Take the score of the next round; return whether it is the best so far."""
        self.scores.append(score)
        better = self.round == 0 or score > self.scores[self.round - 1]
        if better:
            self.round = len(self.scores)
        return better

    @property
    def given_up(self) -> bool:
        """Whether ``patience`` rounds have passed without a better one; None never gives up."""
        return self.patience is not None and len(self.scores) - self.round >= self.patience
