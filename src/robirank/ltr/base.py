"""What all rankers over feature vectors share."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from robirank._queries import Queries, group_queries


class Ranker(BaseEstimator):
    """A scikit-learn estimator that scores documents so that each query's best come first.

    Subclasses implement ``fit(X, y, *, qid=None, …)`` with `_check_fit` at the door, and
    ``predict(X)``. ``qid`` may be of any type and need not be sorted; without it all rows form one
    query. With scikit-learn's metadata routing, call ``set_fit_request(qid=True)`` and
    ``set_score_request(qid=True)`` for use in cross-validation.
    """

    def predict(self, X: Any) -> NDArray[Any]:
        """Score documents; within a query, a higher score means a better place."""
        raise NotImplementedError

    def score(self, X: Any, y: ArrayLike, *, qid: ArrayLike | None = None) -> float:
        """Mean NDCG@10 over queries, in the convention ``"standard"`` of `robirank.metrics`."""
        from robirank.metrics import ndcg

        return float(ndcg(np.asarray(y), self.predict(X), qid, k=10))

    def _check_fit(
        self, X: Any, y: Any, qid: ArrayLike | None, *, accept_sparse: bool = True
    ) -> tuple[Any, NDArray[np.float64], Queries]:
        """Validate training data; X stays float32 or float64 and is not copied if it fits."""
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr" if accept_sparse else False,
            dtype=[np.float32, np.float64],
            order="C",
            y_numeric=True,
        )
        return X, np.asarray(y, dtype=np.float64), group_queries(qid, X.shape[0])

    def _check_predict(self, X: Any, *, accept_sparse: bool = True) -> Any:
        check_is_fitted(self)
        return validate_data(
            self,
            X,
            accept_sparse="csr" if accept_sparse else False,
            dtype=[np.float32, np.float64],
            order="C",
            reset=False,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = None
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = True
        tags.target_tags.positive_only = True
        tags.input_tags.sparse = True
        return tags


class LinearRanker(Ranker):
    """A ranker whose score is an inner product with ``coef_``."""

    coef_: NDArray[np.float64]

    def predict(self, X: Any) -> NDArray[Any]:
        """Score documents, ⟨φ(x, y), ω⟩; within a query, a higher score means a better place.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows,)
        """
        X = self._check_predict(X)
        return np.asarray(X @ self.coef_)

    def fit(self, X: Any, y: ArrayLike, *, qid: ArrayLike | None = None) -> Self:
        """Learn ``coef_``."""
        raise NotImplementedError
