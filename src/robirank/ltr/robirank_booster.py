"""RoBiRank over boosted trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from robirank._checks import AtLeastTwo, Count, Positive
from robirank._features import dense, settled_order
from robirank._types import Floats32, Floats64
from robirank.errors import ArgumentError
from robirank.ltr._boosting import BoostedRanker, Objective
from robirank.ltr.base import ListwiseRanker, check_labels, feature_names, known_names
from robirank.objectives.listwise import Lists, QueryWeight
from robirank.registry import register
from robirank.storage.fitted_parts import FittedArray

if TYPE_CHECKING:
    import polars as pl

MAX_CATEGORY = 2**24  # exact in float32, too


@register
@dataclass(eq=False, repr=False)
class RoBiRankBooster(ListwiseRanker, BoostedRanker):
    r"""Gradient boosted trees with RoBiRank's loss.

    The scores s are a sum of regression trees that minimises

    .. math::
        \sum_{x} c_x \sum_{y} v(W_{xy}) \,
        \rho\Big(\sum_{y' \ne y} \log_2\big(1 + 2^{s_{xy'} - s_{xy}}\big)\Big)

    by gradient boosting: each tree is fitted to the gradient by the scores, and its leaves take a
    Newton step, shrunk by the learning rate. The curvature is that of the convex bound of ρ at the
    present scores, which is never negative. A list costs (#relevant × #documents), or one pass over
    its documents where that is less, so lists may have a million documents. Trees are grown by
    LightGBM, best leaf first (``pip install 'robirank[trees]'``), and kept as plain arrays.

    Labels may be any numbers from 0 upwards. With ``gain="exp"`` a label must be below 1024; counts
    and prices want ``gain="linear"`` or a function of your own. Features may be missing (NaN).

    Parameters
    ----------
    n_estimators : int, default=1000
        The most trees.
    rho, metric, gain
        As in `RoBiRank`.
    learning_rate : float, default=0.05
        What a tree is shrunk by.
    max_leaf_nodes : int, default=15
        The most leaves of a tree.
    min_samples_leaf : int, default=20
        The fewest documents of a leaf, which LightGBM estimates from their second derivatives.
    l2_regularization : float, default=0.0
        What is added to the sum of second derivatives of a leaf.
    max_features : float, default=1.0
        The share of the features that a tree looks at, drawn at random.
    subsample : float, default=1.0
        The share of the queries that a tree is grown on, drawn at random.
    max_bins : int, default=255
        Features are cut into so many bins of about equally many documents, and trees split
        between bins.
    categorical_features : sequence of int or str, optional
        Numbers or names of features that hold categories: integers from 0 up to 2^24, NaN for a
        missing one. A split sends a set of categories to the left.
    monotonic_cst : array-like of shape (n_features,) or mapping from name to sign, optional
        1: the score must not fall as the feature rises; −1: it must not rise; 0: anything.
    patience : int or None, default=100
        With validation data: stop after so many rounds without a better NDCG@k. None: never.
    k : int or None, default=10
        The cut-off of the NDCG that is computed on the validation data (None: the full list).
    convention : str, default="standard"
        The convention of that NDCG; see `robirank.metrics`.
    random_state : int, Generator, RandomState or None, default=None
        Decides what ``max_features`` and ``subsample`` draw, and which documents the bins are made
        from where there are more than 200,000; nothing else is random.
    num_threads : int, default=0
        0: every core; one for little work. The result does not depend on it, to the last bit.
    verbose : bool, default=False
        Show a progress line.

    Attributes
    ----------
    feature_importances_ : array of shape (n_features,)
        How much the splits by each feature reduced the loss, as shares of all.
    n_iter_ : int
        The rounds that were run.
    best_iter_ : int
        The number of trees that were kept.
    validation_scores_ : list of float
        NDCG@k on the validation data after each round; empty without.
    tree_offsets_, split_feature_, threshold_, left_child_, leaf_value_ : arrays
        The trees; see `robirank.ltr._forest.Forest`.
    missing_left_, category_offsets_, categories_ : arrays
        Where missing values and categories go; see there.

    See Also
    --------
    lightgbm_objective, xgboost_objective : the loss alone, for training code of your own.

    References
    ----------
    Yun, Raman, Vishwanathan: Ranking via Robust Binary Classification. NeurIPS 2014. Ke et al.:
    LightGBM: A Highly Efficient Gradient Boosting Decision Tree. NeurIPS 2017.

    Examples
    --------
    >>> from robirank import RoBiRankBooster, make_ranking
    >>> data = make_ranking(n_queries=50, nonlinear=True, random_state=0)
    >>> model = RoBiRankBooster(n_estimators=50).fit(data.X, data.y, qid=data.qid)
    >>> model.score(data.X, data.y, qid=data.qid) > 0.6
    True
    """

    fitted_parts = BoostedRanker.fitted_parts.plus(
        {
            "missing_left_": FittedArray(("nodes",), "I32"),
            "category_offsets_": FittedArray(("category_offsets",), "I32"),
            "categories_": FittedArray(("categories",), "I32"),
            "feature_importances_": FittedArray(("features",)),
        }
    )

    takes_nan = True

    _: KW_ONLY
    learning_rate: Positive = 0.05
    max_leaf_nodes: AtLeastTwo = 15
    min_samples_leaf: Count = 20
    categorical_features: Sequence[int | str] | None = None
    monotonic_cst: ArrayLike | Mapping[str, int] | None = None

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        validation: Any = None,
        sample_weight: ArrayLike | None = None,
        query_weight: QueryWeight | None = None,
    ) -> Self:
        """Grow the trees.

        Parameters
        ----------
        X, y, qid, sample_weight, query_weight
            As in `RoBiRank.fit`; NaN where a feature is missing.
        validation : (X, y, qid) or RankingData, optional
            Held-out queries. The trees up to the round with the best NDCG@k there are kept, and
            growing ends ``patience`` rounds after it. Without, all trees are grown and kept.
        """
        self._check_params()
        X, y, queries = self._check_fit(X, y, qid)
        check_labels(y)
        if not (X if isinstance(X, np.ndarray) else X.data).any():  # LightGBM would fail
            raise ArgumentError(
                "X",
                f"must have a feature that is not 0 everywhere; all {X.shape[1]} are, so that "
                "there is nothing to split by",
            )
        params = self._params() | self._feature_params(X)
        held_out = self._held_out(validation)
        rows = settled_order(X, y, queries)
        weights = {"sample_weight": sample_weight, "query_weight": query_weight}
        lists = self._lists(y, replace(queries, order=rows), **weights)
        objective = self._objective(lists.in_order(), params["seed"])
        booster = self._grow(X[rows], y[rows], queries.sizes, params, held_out, objective)
        gain = booster.feature_importance("gain", iteration=self.best_iter_)
        self.feature_importances_ = gain / max(float(gain.sum()), np.finfo(np.float64).tiny)
        return self

    def importance_frame(self) -> pl.DataFrame:
        """The importances with the names of the features, as a polars frame, the largest first.

        Examples
        --------
        >>> from robirank import RankingData, RoBiRankBooster
        >>> names = ("age", "bm25")
        >>> data = RankingData([[1, 0], [1, 1]], [0, 1], [0, 0], feature_names=names)
        >>> model = RoBiRankBooster(1, min_samples_leaf=1).fit(data)
        >>> model.importance_frame().rows()
        [('bm25', 1.0), ('age', 0.0)]
        """
        import polars as pl

        check_is_fitted(self)
        order = np.argsort(-self.feature_importances_, kind="stable")
        names = feature_names(self)
        return pl.DataFrame(
            {
                "feature": [names[j] for j in order],
                "importance": self.feature_importances_[order],
            }
        )

    def _objective(self, lists: Lists, seed: int) -> Objective:
        """What LightGBM calls in each round.

        Queries are drawn here: from a share of one half downwards LightGBM's own drawing (4.7)
        mixes up gradients that it did not compute itself.
        """
        gradients = lists.booster_gradients()
        sizes, share = lists.queries.sizes, float(self.subsample)
        rng = np.random.default_rng(seed)

        def objective(scores: Floats64, _: Any) -> tuple[Floats32, Floats32]:
            gradient, hessian = gradients(scores)
            if share < 1:
                left_out = np.repeat(rng.random(len(sizes)) >= share, sizes)
                gradient[left_out] = 0
                hessian[left_out] = 0
            return gradient, hessian

        return objective

    def _feature_params(self, X: Any) -> dict[str, Any]:
        """LightGBM's parameters about single features."""
        params: dict[str, Any] = {"objective": "custom", "use_missing": True, "bagging_freq": 0}
        if self.categorical_features is not None:
            columns = [self._column(f) for f in self.categorical_features]
            _check_categories(X, columns)
            params["categorical_feature"] = columns
        if self.monotonic_cst is not None:
            signs = self._signs(self.monotonic_cst)
            params["monotone_constraints"] = signs
            params["monotone_constraints_method"] = "advanced"
            if self.categorical_features is not None and any(signs[j] for j in columns):
                raise ArgumentError("monotonic_cst", "must be 0 for categorical_features")
        return params

    def _column(self, feature: Any, argument: str = "categorical_features") -> int:
        """The number of a feature that is given by its number or by its name."""
        names = known_names(self) or []
        if isinstance(feature, str) and feature in names:
            return names.index(feature)
        if isinstance(feature, Integral) and 0 <= int(feature) < self.n_features_in_:
            return int(feature)
        raise ArgumentError(
            argument,
            f"must hold names of features, or numbers from 0 to {self.n_features_in_ - 1}; "
            f"got {feature!r}",
        )

    def _signs(self, monotonic_cst: ArrayLike | Mapping[str, int]) -> list[int]:
        """The sign of each feature, from signs in order or by name."""
        if isinstance(monotonic_cst, Mapping):
            signs = [0] * self.n_features_in_
            for feature, sign in monotonic_cst.items():
                signs[self._column(feature, "monotonic_cst")] = sign
        else:
            signs = np.ravel(np.asarray(monotonic_cst)).tolist()
        if len(signs) != self.n_features_in_ or not set(signs) <= {-1, 0, 1}:
            raise ArgumentError(
                "monotonic_cst",
                f"must hold −1, 0 or 1 for each of the {self.n_features_in_} features; "
                f"got {monotonic_cst!r}",
            )
        return [int(sign) for sign in signs]


def _check_categories(X: Any, columns: Sequence[int]) -> None:
    """Raise an error unless these features hold categories."""
    for j in columns:
        column = dense(X[:, [j]])
        values = column[~np.isnan(column)]
        if (values < 0).any() or (values > MAX_CATEGORY).any() or (values % 1 != 0).any():
            raise ValueError(
                f"feature {j} of categorical_features must hold integers from 0 to {MAX_CATEGORY} "
                "or NaN; encode its categories first, for example by OrdinalEncoder"
            )
