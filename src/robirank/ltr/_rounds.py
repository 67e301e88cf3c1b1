"""Rankers that are trained in rounds, the best of which held-out queries can choose.

A round is one tree or weak ranker of a booster, one epoch of a network, or one pass of coordinate
ascent over the features.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array

from robirank._checks import check_count
from robirank._features import feature_type
from robirank._progress import FitProgress
from robirank._queries import Queries
from robirank._sparse import check_sparse
from robirank._types import Floats64
from robirank.errors import ArgumentError
from robirank.ltr.base import Ranker, check_labels
from robirank.metrics import ndcg
from robirank.metrics._arguments import check_vector
from robirank.storage.fitted_parts import FittedArray

#: The fitted attributes of every ranker that is trained in rounds, for its `FittedParts`.
ROUND_ARRAYS = {"validation_scores_": FittedArray(("rounds",), is_list=True)}
ROUND_NUMBERS = {"n_iter_": int, "best_iter_": int}


class HeldOut:
    """Validation data, checked, with the metric that chooses by them.

    The metric is mean NDCG@k in that convention; of several cut-offs, their mean. ``finite`` says
    whether features may be missing, in the words of scikit-learn's ``check_array``.
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
            raise ArgumentError("validation", "must be (X, y, qid) or RankingData") from None
        self.X = check_array(
            check_sparse("validation", X),
            accept_sparse="csr",
            dtype=feature_type(X),
            order="C",
            ensure_all_finite=finite,
            input_name="validation",
        )
        if self.X.shape[1] != n_features:
            raise ArgumentError(
                "validation",
                f"must have the {n_features} features of the training data; "
                f"got shape {self.X.shape}",
            )
        self.y = _labels(y, self.X.shape[0])
        self.qid, self.k, self.convention = qid, k, convention

    def ndcg(self, scores: Any) -> float:
        """Mean NDCG@k of scores, one a row."""
        by_cut = ndcg(self.y, scores, self.qid, k=self.k, convention=self.convention)
        return float(np.mean(by_cut))


def _labels(y: Any, n_rows: int) -> Floats64:
    """The labels of validation data; an error names ``validation``, which the caller gave."""
    if np.shape(y) != (n_rows,):
        raise ArgumentError(
            "validation",
            f"must have one label for each of its {n_rows} rows; got shape {np.shape(y)}",
        )
    try:
        labels = check_vector("labels", y)
    except ArgumentError as error:
        raise ArgumentError("validation", f"cannot be used: its {error}") from None
    if (labels < 0).any():
        raise ArgumentError(
            "validation", f"must have labels that are not negative; found {labels.min():g}"
        )
    if not (labels > 0).any():
        raise ArgumentError(
            "validation", "has no relevant document, so it cannot tell what is best"
        )
    return labels


class Round(NamedTuple):
    """What one round reports: NDCG@k of the held-out queries, if any, and what the line shows.

    ``weights`` has fitted attributes, which the ranker takes over if no earlier round was as good.
    """

    score: float | None
    figures: dict[str, float] = {}  # noqa: RUF012
    weights: dict[str, Any] = {}  # noqa: RUF012


class RoundsRanker(Ranker):
    """A ranker whose ``fit`` takes held-out queries, by which the best round is chosen.

    Subclasses have the parameters ``k`` and ``convention`` of the NDCG on these queries, and
    ``patience`` if they use `_run`.
    """

    k: Any
    convention: str
    patience: int | None
    n_iter_: int
    best_iter_: int
    validation_scores_: list[float]

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        validation: Any = None,
    ) -> Self:
        """Learn to rank from judged documents.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features), or RankingData
            Features of the documents.
        y : array-like of shape (n_rows,), optional
            Relevance labels, 0 for irrelevant; a RankingData has its own, and its own qid.
        qid : array-like of shape (n_rows,), optional
            The query of each row, of any type, sorted or not; without it all rows are one query.
        validation : (X, y, qid) or RankingData, optional
            Held-out queries. The model is kept as it was after the round (a tree, a weak ranker or
            an epoch) with the best NDCG@k there, and training ends ``patience`` rounds after it.
            Without, all rounds are run.
        """
        self._check_params()
        X, y, queries = self._check_fit(X, y, qid)
        check_labels(y)
        self._train(X, y, queries, self._held_out(validation))
        return self

    def _train(self, X: Any, y: Any, queries: Queries, held_out: HeldOut | None = None) -> None:
        raise NotImplementedError

    def _held_out(self, validation: Any) -> HeldOut | None:
        """Check validation data; NDCG with ``k`` and ``convention`` is their metric."""
        if validation is None:
            return None
        settings: Any = {"k": self.k, "convention": self.convention, "finite": self._finite()}
        return HeldOut(validation, self.n_features_in_, **settings)

    def _run(self, rounds: Iterable[Round], most: int, progress: FitProgress) -> None:
        """Run rounds until there are enough, none is left, or held-out queries gain no more.

        Sets ``n_iter_``, ``best_iter_``, ``validation_scores_`` and the weights of the best round.
        Of equally good rounds the first is the best, so that a longer run never changes the answer
        without a gain.
        """
        self.n_iter_ = self.best_iter_ = 0
        self.validation_scores_ = []
        for score, figures, weights in islice(rounds, most):
            self.n_iter_ += 1
            shown = figures if score is None else figures | {"ndcg": score}
            progress.update(self.n_iter_, **shown)
            if self._is_best(score):
                self.best_iter_ = self.n_iter_
                for name, array in weights.items():
                    setattr(self, name, array)
            elif self.patience is not None and self.n_iter_ - self.best_iter_ >= self.patience:
                break

    def _is_best(self, score: float | None) -> bool:
        """Note the NDCG of a round; return whether it is better than in all rounds before."""
        if score is None:
            return True
        self.validation_scores_.append(score)
        return self.best_iter_ == 0 or score > self.validation_scores_[self.best_iter_ - 1]
