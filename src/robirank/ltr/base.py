"""What all rankers over feature vectors share."""

from __future__ import annotations

import logging
import warnings
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from robirank._blas import one_blas_thread
from robirank._callers import warn
from robirank._features import feature_type
from robirank._progress import FitProgress
from robirank._queries import Queries, group_queries, warn_missing_qid
from robirank._sparse import check_sparse
from robirank._types import Floats64
from robirank.data.ranking import RankingData
from robirank.ltr._held_out import HeldOut
from robirank.ltr.explain import Explanation, QueryExplanation, linear_effects
from robirank.metrics import ndcg
from robirank.objectives.linear import (
    LinearObjective,
    Objective,
    minimize_lbfgs,
    rescaled,
    scale_of_columns,
)
from robirank.objectives.score_loss import ScoreLoss
from robirank.registry import Comparison
from robirank.storage.estimators import SaveMixin
from robirank.storage.fitted_parts import FittedArray, FittedParts

log = logging.getLogger("robirank.ltr")

_SHARE_OF_SLOPE = 1e-3  # of the gradient at zero: a minimum is nearer than this


class Ranker(SaveMixin, BaseEstimator):
    """A scikit-learn estimator that scores documents so that each query's best come first.

    Subclasses implement ``fit(X, y=None, *, qid=None, …)``, which begins with `_check_fit`, and
    ``predict(X)``. ``X`` may be a `RankingData`, which has its own y and qid: ``fit(data)``.
    ``qid`` may be of any type and need not be sorted; without it all rows form one query, and many
    rows give a `MissingQidWarning`. ``fit`` and ``score`` request ``qid`` by themselves: after
    ``sklearn.set_config(enable_metadata_routing=True)``, cross-validation, search and pipelines
    pass it on.
    """

    # What scikit-learn's metadata routing passes on without set_fit_request, set_score_request.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"qid": True}

    # Parameters of those that have them.
    k: Any
    convention: str
    verbose: bool

    feature_names_: NDArray[Any]

    fitted_parts: ClassVar[FittedParts]
    comparison: ClassVar[Comparison | None] = None
    test_settings: ClassVar[tuple[dict[str, Any], ...]] = ({},)
    needs: ClassVar[str] = ""

    def predict(self, X: Any) -> NDArray[Any]:
        """Score documents; within a query, a higher score means a better place."""
        raise NotImplementedError

    def score(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Mean NDCG@10 over queries, in the convention ``"standard"`` of `robirank.metrics`.

        With ``sample_weight``, one value a row, the mean is weighted: a query weighs as much as the
        mean of its rows. ``X`` may be a `RankingData`, which has its own y and qid.
        """
        X, y, qid = _parts(X, y, qid)
        labels = np.asarray(y)
        warn_missing_qid(qid, len(labels))
        by_query = ndcg(labels, self.predict(X), qid, k=10, per_query=True)
        if sample_weight is None:
            return float(np.mean(by_query))
        queries = group_queries(qid, len(labels))
        rows = queries.sort(np.asarray(sample_weight, dtype=np.float64))
        weight = np.add.reduceat(rows, queries.offsets[:-1]) / queries.sizes
        return float(np.average(by_query, weights=weight))

    def _check_fit(
        self, X: Any, y: Any, qid: ArrayLike | None, *, accept_sparse: bool = True
    ) -> tuple[Any, Floats64, Queries]:
        """Validate training data; float32 and float64 features are not copied if they fit."""
        names = X.feature_names if isinstance(X, RankingData) else None
        X, y, qid = _parts(X, y, qid)
        X, y = validate_data(
            self,
            check_sparse("X", X),
            y,
            accept_sparse="csr" if accept_sparse else False,
            dtype=feature_type(X),
            order="C",
            ensure_all_finite=self._finite(),
            y_numeric=True,
        )
        self._keep_names(names)
        warn_missing_qid(qid, X.shape[0])
        labels, queries = np.asarray(y, dtype=np.float64), group_queries(qid, X.shape[0])
        _warn_of_equal_labels(labels, queries)
        sizes = (len(labels), len(queries.sizes), X.shape[1])
        log.info("%s: %d documents of %d queries, %d features", type(self).__name__, *sizes)
        return X, labels, queries

    def _keep_names(self, names: tuple[str, ...] | None) -> None:
        """Keep the names of features that came as an array, in place of those of an earlier fit."""
        if names is not None:
            self.feature_names_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_"):
            del self.feature_names_

    def _check_predict(self, X: Any, *, accept_sparse: bool = True) -> Any:
        check_is_fitted(self)
        X = X.X if isinstance(X, RankingData) else X
        return validate_data(
            self,
            check_sparse("X", X),
            accept_sparse="csr" if accept_sparse else False,
            dtype=feature_type(X),
            order="C",
            ensure_all_finite=self._finite(),
            reset=False,
        )

    def predict_unnamed(self, X: NDArray[Any]) -> NDArray[Any]:
        """Score an array whose columns are known to be the features, with or without names."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
            return self.predict(X)

    def _held_out(self, validation: Any) -> HeldOut | None:
        """Check held-out queries, which the parameters ``k`` and ``convention`` measure by NDCG."""
        if validation is None:
            return None
        return HeldOut(
            validation,
            self.n_features_in_,
            k=self.k,
            convention=self.convention,
            finite=self._finite(),
        )

    def _finite(self) -> bool | str:
        """What scikit-learn's checks of features are told about missing values."""
        return "allow-nan" if self.__sklearn_tags__().input_tags.allow_nan else True

    def _progress(self, total: int, doing: str = "") -> FitProgress:
        """A progress line for so many iterations, shown if the parameter ``verbose`` is set."""
        title = f"{type(self).__name__}, {doing}" if doing else type(self).__name__
        return FitProgress(bool(self.verbose), total=total, title=title, log=log)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = None
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = True
        tags.target_tags.positive_only = True
        tags.input_tags.sparse = True
        return tags


class ExplainedRanker(Ranker):
    """A ranker that can say what each feature adds to a score; subclasses have `_effects`."""

    def explain(self, X_a: Any, X_b: Any) -> Explanation:
        """Say what each feature adds to the score of a document A less that of a document B.

        The effects are exact, and add up to the difference of the scores: ω_f (a_f − b_f) in a
        linear model, and of trees the Shapley values with B as the background.

        Parameters
        ----------
        X_a, X_b : array-like of shape (n_features,), or frame of one row
            The features of the two documents.

        Returns
        -------
        Explanation
        """
        a, b = self._check_one(X_a, "X_a"), self._check_one(X_b, "X_b")
        return self._explanation(a, b, *self.predict_unnamed(np.stack([a, b])).tolist())

    def explain_query(self, X: Any) -> QueryExplanation:
        """Say of all documents of a query why each stands above the next.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_documents, n_features)
            The documents of one query, in any order.

        Returns
        -------
        QueryExplanation

        Examples
        --------
        >>> from robirank import RoBiRank
        >>> model = RoBiRank(alpha=0.1).fit([[1.0, 0.0], [0.0, 0.0]], [1, 0])
        >>> whole = model.explain_query([[0.0, 5.0], [2.0, 5.0], [1.0, 5.0]])
        >>> whole.rows.tolist(), [step.table(1)[0][0] for step in whole.steps]
        ([1, 2, 0], ['f1', 'f1'])
        """
        X = self._check_predict(X)
        dense = np.asarray(X if isinstance(X, np.ndarray) else X.toarray(), dtype=np.float64)
        scores = self.predict_unnamed(X)
        rows = np.argsort(-scores, kind="stable")
        ranked, sorted_scores = dense[rows], scores[rows].tolist()
        steps = tuple(
            self._explanation(ranked[i], ranked[i + 1], *sorted_scores[i : i + 2])
            for i in range(len(rows) - 1)
        )
        return QueryExplanation(rows, scores[rows], steps)

    def _check_one(self, x: Any, argument: str) -> Floats64:
        """Validate the features of one document, a vector or a frame of one row."""
        rows = x if hasattr(x, "columns") or sp.issparse(x) else np.atleast_2d(np.asarray(x))
        if rows.shape[0] != 1:
            raise ValueError(f"{argument} must be one document; got {rows.shape[0]} rows")
        X = self._check_predict(rows)
        dense = X if isinstance(X, np.ndarray) else X.toarray()
        return np.asarray(dense, dtype=np.float64)[0]

    def _explanation(self, a: Floats64, b: Floats64, score_a: float, score_b: float) -> Explanation:
        return Explanation(feature_names(self), a, b, self._effects(a, b), score_a, score_b)

    def _effects(self, a: Floats64, b: Floats64) -> Floats64:
        """What each feature adds to the score of A less that of B."""
        raise NotImplementedError


class LinearRanker(ExplainedRanker):
    """A ranker whose score is an inner product with ``coef_``."""

    fitted_parts = FittedParts(
        {
            "coef_": FittedArray(("features",)),
            "loss_curve_": FittedArray(("iterations",), is_list=True),
        },
        {"n_iter_": int},
    )

    coef_: Floats64
    n_iter_: int
    loss_curve_: list[float]
    max_iter: int
    tol: float

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

    def _effects(self, a: Floats64, b: Floats64) -> Floats64:
        return linear_effects(self.coef_, a, b)

    def _descend(
        self, X: Any, loss: ScoreLoss, *, alpha: float, start: Floats64 | None = None
    ) -> None:
        """Minimise the loss of X w plus α/2 ‖w‖² by L-BFGS, with the own ``max_iter`` and ``tol``.

        Sets ``coef_``, ``n_iter_`` and ``loss_curve_``. An interrupted run leaves its last iterate
        behind.
        """
        objective: Objective = LinearObjective(X, loss, alpha=alpha)
        self.coef_ = np.zeros(X.shape[1]) if start is None else start
        scale = scale_of_columns(X)
        self.n_iter_ = 0
        with one_blas_thread():
            value, slope = objective(self.coef_)
            self.loss_curve_ = [value]
            if not np.isfinite(self.loss_curve_[0]):
                raise ValueError(
                    f"the objective is {self.loss_curve_[0]} at the start; check that the starting "
                    "weights are finite and scale the features"
                )
            at_zero = objective(np.zeros_like(slope))[1] if self.coef_.any() else slope
            gtol = self._tolerance(at_zero if scale is None else at_zero / scale)
            with self._progress(self.max_iter) as progress:
                result = minimize_lbfgs(
                    objective if scale is None else rescaled(objective, scale),
                    self.coef_ if scale is None else self.coef_ * scale,
                    max_iter=self.max_iter,
                    gtol=gtol,
                    ftol=64 * np.finfo(np.float64).eps,
                    after_iteration=lambda w, value, _: self._record(
                        w if scale is None else w / scale, value, progress
                    ),
                )
        self.coef_ = np.array(result.x if scale is None else result.x / scale)
        self.n_iter_ = int(result.nit)
        stuck = not result.success and float(np.abs(result.jac).max()) > 100 * gtol
        if result.status == 1 or stuck:
            reason = (
                f"after max_iter={self.max_iter} iterations"
                if result.status == 1
                else "because its line search failed"
            )
            warn(
                f"L-BFGS stopped {reason} before it converged; "
                "raise max_iter, regularise more or scale the features",
                ConvergenceWarning,
            )

    def _tolerance(self, at_zero: Floats64) -> float:
        """``tol``, or less where small features or weights make the gradient at zero small."""
        largest = float(np.abs(at_zero).max())
        return min(self.tol, _SHARE_OF_SLOPE * largest) if largest > 0.0 else self.tol

    def _record(self, w: Floats64, objective: float, progress: FitProgress) -> None:
        """Keep the weights that an iteration ended at."""
        self.coef_ = w
        self.n_iter_ += 1
        self.loss_curve_.append(objective)
        progress.update(self.n_iter_, loss=objective)


def _parts(X: Any, y: Any, qid: Any) -> tuple[Any, Any, Any]:
    """Features, labels and query ids, which a `RankingData` has in itself."""
    if not isinstance(X, RankingData):
        return X, y, qid
    if y is not None or qid is not None:
        raise ValueError(
            "y and qid must be left out where X is a RankingData, which has both; got "
            + " and ".join(n for n, v in (("y", y), ("qid", qid)) if v is not None)
        )
    return X.X, X.y, X.qid


def feature_names(model: Any) -> tuple[str, ...]:
    """The names that a model was fitted or saved with; f1, f2, … where it has none."""
    names = getattr(model, "feature_names_in_", getattr(model, "feature_names_", None))
    if names is None:
        names = [f"f{j}" for j in range(1, model.n_features_in_ + 1)]
    return tuple(map(str, names))


def _warn_of_equal_labels(y: Floats64, queries: Queries) -> None:
    if not queries.differ(y).any():
        warn(
            f"y differs within no query ({len(queries)} queries, {len(y)} rows), so no document "
            "is better than another of its query; is qid the query of each row?",
            UserWarning,
        )


def check_labels(y: NDArray[Any]) -> None:
    """Raise an error unless labels are non-negative and at least one document is relevant."""
    if (y < 0).any():
        raise ValueError(f"labels must be non-negative numbers; found label {y.min():g}")
    if not (y > 0).any():
        raise ValueError(
            "y has no relevant document in any query (every label is 0), "
            "so there is nothing to learn"
        )
