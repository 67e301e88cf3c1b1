"""Rankers that are trained in rounds (trees, epochs), the best of which held-out queries choose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array

from robirank._checks import CountOrNone, check_count, check_vector
from robirank._features import feature_type
from robirank._progress import FitProgress
from robirank._queries import Queries
from robirank._sparse import check_sparse
from robirank._types import Floats64
from robirank.errors import ArgumentError
from robirank.ltr.base import Ranker, check_labels
from robirank.metrics import ndcg
from robirank.storage.fitted_parts import FittedArray

#: The fitted attributes of every ranker that is trained in rounds, for its `FittedParts`.
ROUND_ARRAYS = {"validation_scores_": FittedArray(("rounds",), is_list=True)}
ROUND_NUMBERS = {"n_iter_": int, "best_iter_": int}


@dataclass(frozen=True)
class HeldOut:
    """Held-out queries, with mean NDCG@k on them; of several cut-offs, their mean."""

    X: Any
    y: Floats64
    qid: Any
    k: int | Sequence[int] | None
    convention: str

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


@dataclass(eq=False, repr=False)
class RoundsRanker(Ranker):
    """A ranker whose ``fit`` takes held-out queries, whose NDCG@k chooses the best round."""

    _: KW_ONLY
    k: CountOrNone = 10
    convention: str = "standard"

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
        X, y, qid
            As in `RoBiRank.fit`.
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
        """Check validation data."""
        if validation is None:
            return None
        for cut in self.k if isinstance(self.k, Sequence) else [self.k]:
            check_count("k", cut, or_none=True)
        try:
            X, y, qid = validation
        except (TypeError, ValueError):
            raise ArgumentError("validation", "must be (X, y, qid) or RankingData") from None
        X = check_array(
            check_sparse("validation", X),
            accept_sparse="csr",
            dtype=feature_type(X),
            order="C",
            ensure_all_finite="allow-nan" if self.takes_nan else True,
            input_name="validation",
        )
        if X.shape[1] != self.n_features_in_:
            raise ArgumentError(
                "validation",
                f"must have the {self.n_features_in_} features of the training data; "
                f"got shape {X.shape}",
            )
        return HeldOut(X, _labels(y, X.shape[0]), qid, self.k, self.convention)

    def _run(
        self,
        rounds: Iterable[Round],
        most: int,
        progress: FitProgress,
        patience: int | None = None,
    ) -> None:
        """Run rounds until there are enough, none is left, or held-out queries gain no more.

        Sets ``n_iter_``, ``best_iter_``, ``validation_scores_`` and the weights of the best round.
        Of equally good rounds the first is the best, so that a longer run never changes the answer
        without a gain.
        """
        self.n_iter_ = self.best_iter_ = 0
        self.validation_scores_: list[float] = []
        best = -np.inf
        for score, figures, weights in islice(rounds, most):
            self.n_iter_ += 1
            if score is not None:
                self.validation_scores_.append(score)
                figures = figures | {"ndcg": score}
            progress.update(self.n_iter_, **figures)
            if score is None or score > best:
                self.best_iter_, best = self.n_iter_, best if score is None else score
                for name, array in weights.items():
                    setattr(self, name, array)
            elif patience is not None and self.n_iter_ - self.best_iter_ >= patience:
                break
