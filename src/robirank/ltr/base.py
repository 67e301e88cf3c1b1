"""What all rankers over feature vectors share."""

from __future__ import annotations

import logging
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import OptimizeResult
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from robirank._blas import one_blas_thread
from robirank._callers import warn
from robirank._checks import check_params, check_vector
from robirank._features import dense, feature_type
from robirank._progress import FitProgress
from robirank._queries import Queries, group_queries, warn_missing_qid
from robirank._sparse import check_sparse
from robirank._types import Floats64
from robirank.data.ranking import RankingData
from robirank.errors import ArgumentError
from robirank.losses import RhoName
from robirank.ltr.explain import Explanation, QueryExplanation
from robirank.metrics import ndcg
from robirank.metrics._conventions import Gain
from robirank.objectives.linear import LinearObjective, minimize_lbfgs, scale_of_columns
from robirank.objectives.listwise import Lists, Metric, check_sample_weight
from robirank.objectives.score_loss import ScoreLoss
from robirank.storage.estimators import SaveMixin
from robirank.storage.fitted_parts import FittedArray, FittedParts

log = logging.getLogger("robirank.ltr")

#: L-BFGS stops where the gradient is this share of the gradient at zero weights, or smaller.
_SHARE_OF_GRADIENT = 1e-3


@dataclass(eq=False, repr=False)
class Ranker(SaveMixin, BaseEstimator):
    """A scikit-learn estimator that scores documents so that each query's best come first.

    Subclasses implement `_train`, which learns from checked data, and `_scores`. ``X`` may be a
    `RankingData`, which has its own y and qid: ``fit(data)``. ``qid`` may be of any type and need
    not be sorted; without it all rows form one query, and many rows give a `MissingQidWarning`.
    ``fit`` and ``score`` request ``qid`` by themselves: after
    ``sklearn.set_config(enable_metadata_routing=True)``, cross-validation, search and pipelines
    pass it on.
    """

    # What scikit-learn's metadata routing passes on without set_fit_request, set_score_request.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"qid": True}

    fitted_parts: ClassVar[FittedParts]
    needs: ClassVar[str] = ""
    takes_sparse: ClassVar[bool] = True
    takes_nan: ClassVar[bool] = False

    _: KW_ONLY
    verbose: bool = False

    def fit(self, X: Any, y: ArrayLike | None = None, *, qid: ArrayLike | None = None) -> Self:
        """Learn to rank from judged documents.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features), or RankingData
            Features of the documents.
        y : array-like of shape (n_rows,), optional
            Relevance labels, 0 for irrelevant; a RankingData has its own, and its own qid.
        qid : array-like of shape (n_rows,), optional
            The query of each row, of any type, sorted or not; without it all rows are one query.
        """
        self._check_params()
        X, y, queries = self._check_fit(X, y, qid)
        check_labels(y)
        self._train(X, y, queries)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Score documents; within a query, a higher score means a better place.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows,)
        """
        return self._scores(self._check_predict(X))

    def _check_params(self) -> None:
        """Raise an error that names the first parameter with a value that cannot be used."""
        check_params(self)

    def _train(self, X: Any, y: Floats64, queries: Queries) -> None:
        """Learn from checked data, and set the fitted attributes."""
        raise NotImplementedError

    def _scores(self, X: Any) -> NDArray[Any]:
        """The scores of checked features."""
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
        if y is None:
            raise ArgumentError("y", "must be given: the score compares a ranking with its labels")
        labels = check_vector("y", y)
        warn_missing_qid(qid, len(labels))
        by_query = ndcg(labels, self.predict(X), qid, k=10, per_query=True)
        if sample_weight is None:
            return float(np.mean(by_query))
        queries = group_queries(qid, len(labels))
        rows = queries.sort(check_sample_weight(sample_weight, len(labels)))
        weight = np.add.reduceat(rows, queries.offsets[:-1]) / queries.sizes
        return float(np.average(by_query, weights=weight))

    def _check_fit(self, X: Any, y: Any, qid: ArrayLike | None) -> tuple[Any, Floats64, Queries]:
        """Validate training data; dense float32 and float64 features are not copied."""
        names = X.feature_names if isinstance(X, RankingData) else None
        X, y, qid = _parts(X, y, qid)
        X, y = self._validate(X, y, y_numeric=True)
        if names is not None:  # of an array
            self.feature_names_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_"):
            del self.feature_names_
        warn_missing_qid(qid, X.shape[0])
        labels, queries = np.asarray(y, dtype=np.float64), group_queries(qid, X.shape[0])
        sizes = (len(labels), len(queries), X.shape[1])
        if not queries.differ(labels).any():
            warn(
                f"y differs within no query ({sizes[1]} queries, {sizes[0]} rows), so no document "
                "is better than another of its query; is qid the query of each row?",
            )
        log.info("%s: %d documents of %d queries, %d features", type(self).__name__, *sizes)
        return X, labels, queries

    def _check_predict(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._validate(X.X if isinstance(X, RankingData) else X, reset=False)

    def _validate(self, X: Any, *y: Any, **options: Any) -> Any:
        """Check features, and labels if they are given, as scikit-learn does."""
        return validate_data(
            self,
            check_sparse("X", X),
            *y,
            accept_sparse="csr" if self.takes_sparse else False,
            dtype=feature_type(X),
            order="C",
            ensure_all_finite="allow-nan" if self.takes_nan else True,
            **options,
        )

    def _progress(self, total: int, doing: str = "") -> FitProgress:
        """A progress line for ``total`` iterations, shown if the parameter ``verbose`` is set."""
        title = f"{type(self).__name__}, {doing}" if doing else type(self).__name__
        return FitProgress(bool(self.verbose), total=total, title=title, log=log)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = None
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = True
        tags.target_tags.positive_only = True
        tags.input_tags.sparse = self.takes_sparse
        tags.input_tags.allow_nan = self.takes_nan
        return tags


@dataclass(eq=False, repr=False)
class ListwiseRanker(Ranker):
    """A ranker by RoBiRank's loss, of which these are the parameters."""

    _: KW_ONLY
    rho: RhoName = "log"
    metric: Metric = "ndcg"
    gain: Gain = "exp"

    def _lists(self, y: Floats64, queries: Queries, **weights: Any) -> Lists:
        """The training lists, with weights of rows and queries; some document must be relevant."""
        names = ("rho", "metric", "gain", "num_threads")
        params = {name: getattr(self, name) for name in names}
        lists = Lists.build(y, queries, **params, **weights)
        if len(lists.weight) == 0:
            raise ArgumentError(
                "y",
                "has no relevant document in any query (every label or weight is 0), "
                "so there is nothing to learn",
            )
        return lists


class ExplainedRanker(Ranker):
    """A ranker that can explain its scores by features; a subclass implements `_effects`."""

    def explain(self, X_a: Any, X_b: Any) -> Explanation:
        """Explain the score of a document A less that of a document B, feature by feature.

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
        return self._explanation(a, b, *self._scores(np.stack([a, b])).tolist())

    def explain_query(self, X: Any) -> QueryExplanation:
        """Explain for all documents of a query why each stands above the next.

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
        scores = self._scores(X)
        rows = np.argsort(-scores, kind="stable")
        ranked, sorted_scores = dense(X).astype(np.float64)[rows], scores[rows].tolist()
        steps = tuple(
            self._explanation(ranked[i], ranked[i + 1], *sorted_scores[i : i + 2])
            for i in range(len(rows) - 1)
        )
        return QueryExplanation(rows, scores[rows], steps)

    def _check_one(self, x: Any, argument: str) -> Floats64:
        """Validate the features of one document, a vector or a frame of one row."""
        rows = x if hasattr(x, "columns") or sp.issparse(x) else np.atleast_2d(np.asarray(x))
        if rows.shape[0] != 1:
            raise ArgumentError(argument, f"must be one document; got {rows.shape[0]} rows")
        return np.asarray(dense(self._check_predict(rows)), dtype=np.float64)[0]

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

    def _scores(self, X: Any) -> NDArray[Any]:
        return np.asarray(X @ self.coef_)

    def _effects(self, a: Floats64, b: Floats64) -> Floats64:
        return np.asarray(self.coef_ * (a - b))

    def _descend(
        self, X: Any, loss: ScoreLoss, *, alpha: float, start: Floats64 | None = None
    ) -> None:
        """Minimise the loss of X w plus α/2 ‖w‖² by L-BFGS; what it sets is set if interrupted."""
        objective = LinearObjective(X, loss, alpha=alpha)
        scale = scale_of_columns(X)

        def rescaled(v: Floats64) -> tuple[float, Floats64]:
            value, gradient = objective(v / scale)  # powers of two round nothing
            return value, gradient / scale

        self.coef_ = np.zeros(X.shape[1]) if start is None else start
        self.n_iter_ = 0
        with one_blas_thread():
            value, gradient = objective(self.coef_)
            self.loss_curve_ = [value]
            if not np.isfinite(value):
                raise ValueError(
                    f"the objective is {value} at the start; check that the starting weights are "
                    "finite and scale the features"
                )
            at_zero = objective(np.zeros_like(gradient))[1] if self.coef_.any() else gradient
            # Less than tol where small features or weights make the gradient at zero small.
            largest = float(np.abs(at_zero / scale).max())
            gtol = min(self.tol, _SHARE_OF_GRADIENT * largest) if largest > 0.0 else self.tol
            with self._progress(self.max_iter) as progress:
                result = minimize_lbfgs(
                    rescaled,
                    self.coef_ * scale,
                    max_iter=self.max_iter,
                    gtol=gtol,
                    ftol=64 * np.finfo(np.float64).eps,
                    after_iteration=lambda w, value, _: self._record(w / scale, value, progress),
                )
        self.coef_ = np.array(result.x / scale)
        self.n_iter_ = int(result.nit)
        self._warn_unless_converged(result, gtol)

    def _warn_unless_converged(self, result: OptimizeResult, gtol: float) -> None:
        if result.status == 1:
            reason = f"after max_iter={self.max_iter} iterations"
        elif not result.success and float(np.abs(result.jac).max()) > 100 * gtol:
            reason = "because its line search failed"
        else:
            return
        warn(
            f"L-BFGS stopped {reason} before it converged; "
            "raise max_iter, regularise more or scale the features",
            ConvergenceWarning,
        )

    def _record(self, w: Floats64, objective: float, progress: FitProgress) -> None:
        """Keep the weights and the objective of an iteration, and show them."""
        self.coef_ = w
        self.n_iter_ += 1
        self.loss_curve_.append(objective)
        progress.update(self.n_iter_, loss=objective)


def _parts(X: Any, y: Any, qid: Any) -> tuple[Any, Any, Any]:
    """Features, labels and query ids, from the arguments or from a `RankingData`."""
    if not isinstance(X, RankingData):
        return X, y, qid
    if y is not None or qid is not None:
        raise ValueError(
            "y and qid must be left out where X is a RankingData, which has both; got "
            + " and ".join(n for n, v in (("y", y), ("qid", qid)) if v is not None)
        )
    return X.X, X.y, X.qid


def known_names(model: Any) -> list[str] | None:
    """The names that a model was fitted or saved with; None where it has none."""
    names = getattr(model, "feature_names_in_", getattr(model, "feature_names_", None))
    return None if names is None else [str(name) for name in names]


def feature_names(model: Any) -> tuple[str, ...]:
    """The names that a model was fitted or saved with; f1, f2, … where it has none."""
    numbered = (f"f{j}" for j in range(1, model.n_features_in_ + 1))
    return tuple(known_names(model) or numbered)


def check_labels(y: NDArray[Any]) -> None:
    """Raise an error unless labels are non-negative and at least one document is relevant."""
    if (y < 0).any():
        raise ArgumentError("y", f"must hold labels that are not negative; found {y.min():g}")
    if not (y > 0).any():
        raise ArgumentError(
            "y",
            "has no relevant document in any query (every label is 0), so there is nothing to "
            "learn",
        )
