"""RankNet: a small neural network trained on pairs of documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from robirank._blas import one_blas_thread
from robirank._checks import check_count, check_not_negative, check_positive
from robirank._queries import Queries
from robirank._random import RandomStateLike, as_random_state
from robirank._types import Floats64, Ints64
from robirank.ltr._held_out import BestSoFar, HeldOut
from robirank.ltr.base import Ranker, check_labels
from robirank.registry import Comparison, register
from robirank.storage.fitted_parts import FittedArray, FittedParts

_CELLS = 1 << 20  # pairs looked at in one go: a long list is cut so that memory stays small


@register
@dataclass(eq=False, repr=False)
class RankNet(Ranker):
    r"""RankNet: a network with one hidden layer, by the logistic loss of all pairs.

    The score is :math:`s(\phi) = v \cdot \tanh(A^\top z(\phi) + b)`, where z standardises the
    features (mean 0 and variance 1 on the training data). Minimises

    .. math::
        \frac{1}{|\mathcal{X}|} \sum_x \frac{1}{|P_x|} \sum_{(i, j) \in P_x}
        \log\big(1 + e^{-(s_i - s_j)}\big)
        + \frac{\alpha}{2} \big(\lVert A \rVert^2 + \lVert v \rVert^2\big),
        \qquad P_x = \{(i, j):\, W_{xi} > W_{xj}\}

    by Adam, one query a step, in a new random order each epoch. All pairs of a query are summed
    in closed form, none is sampled.

    Graded labels: every pair of documents of one query with different labels counts, and counts
    alike. Several queries: each counts the same, however many pairs it has.

    Parameters
    ----------
    hidden_units : int, default=10
        Units of the hidden layer, as in RankLib.
    alpha : float, default=1e-2
        Strength of the L2 penalty. RankLib has none.
    learning_rate : float, default=1e-3
        Adam's step size. (RankLib's default is plain gradient steps of 5e-5, which hardly move the
        network within its 100 epochs.)
    max_iter : int, default=100
        The most epochs, as in RankLib.
    patience : int or None, default=20
        With validation data: stop after so many epochs without progress. None: run them all.
    k : int or None, default=10
        Progress is measured by mean NDCG@k (None: the full list) on the validation data.
    convention : str, default="standard"
        The convention of that NDCG; see `robirank.metrics`.
    random_state : int, Generator, RandomState or None, default=None
        Decides the weights to start from and the order of queries.
    verbose : bool, default=False
        Show a progress line.

    Attributes
    ----------
    mean_, scale_ : array of shape (n_features,)
        z(φ) = (φ − mean) / scale; the scale of a constant feature is 1.
    hidden_coef_ : array of shape (n_features, hidden_units)
        The weights A.
    hidden_intercept_ : array of shape (hidden_units,)
        The weights b.
    output_coef_ : array of shape (hidden_units,)
        The weights v. (A constant would cancel in pairs.)
    n_iter_ : int
        The epochs that were run.
    best_iter_ : int
        The epoch whose weights were kept: the best on validation data, else the last.
    loss_curve_ : list of float
        The mean loss of the queries as they were met in each epoch, without the penalty.
    validation_scores_ : list of float
        NDCG@k on the validation data after each epoch; empty without.

    References
    ----------
    Burges, Shaked, Renshaw, Lazier, Deeds, Hamilton, Hullender: Learning to rank using gradient
    descent. ICML 2005.

    Examples
    --------
    >>> from robirank import make_ranking
    >>> from robirank.ltr.ranknet import RankNet
    >>> data = make_ranking(n_queries=50, random_state=0)
    >>> model = RankNet(max_iter=20, random_state=0).fit(data.X, data.y, qid=data.qid)
    >>> model.score(data.X, data.y, qid=data.qid) > 0.6
    True
    """

    fitted_parts = FittedParts(
        {
            "mean_": FittedArray(("features",)),
            "scale_": FittedArray(("features",)),
            "hidden_coef_": FittedArray(("features", "units")),
            "hidden_intercept_": FittedArray(("units",)),
            "output_coef_": FittedArray(("units",)),
            "loss_curve_": FittedArray(("iterations",), is_list=True),
            "validation_scores_": FittedArray(("rounds",), is_list=True),
        },
        {"n_iter_": int, "best_iter_": int},
        required=("mean_", "scale_", "hidden_coef_", "hidden_intercept_", "output_coef_"),
    )
    comparison = Comparison(
        "RankNet",
        tuple({"learning_rate": r, "alpha": a} for r in (1e-3, 1e-2) for a in (1e-3, 1e-2, 0.1)),
    )
    test_settings = ({"learning_rate": 1e-2, "max_iter": 10, "random_state": 0},)

    hidden_units: int = 10
    _: KW_ONLY
    alpha: float = 1e-2
    learning_rate: float = 1e-3
    max_iter: int = 100
    patience: int | None = 20
    k: int | None = 10
    convention: str = "standard"
    random_state: RandomStateLike = None
    verbose: bool = False

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        validation: Any = None,
    ) -> Self:
        """Train the network.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), or RankingData
            Features of the documents, dense.
        y : array-like of shape (n_rows,), optional
            Relevance labels; only their order within a query matters. A RankingData has its own.
        qid : array-like of shape (n_rows,), optional
            The query of each row; without it all rows are one query.
        validation : (X, y, qid) or RankingData, optional
            Held-out queries; the epoch with the best NDCG@k there is kept.
        """
        self._check_params()
        X, y, queries = self._check_fit(X, y, qid, accept_sparse=False)
        check_labels(y)
        lists = [*_lists_with_pairs(y, queries)]
        if not lists:
            raise ValueError(
                "y must differ within some query, or there is no pair to learn from "
                f"(n_samples = {len(y)})"
            )
        held_out = self._held_out(validation)
        self.mean_ = X.mean(axis=0, dtype=np.float64)
        spread = X.std(axis=0, dtype=np.float64)
        self.scale_ = np.where(spread > 0, spread, 1.0)
        with one_blas_thread():
            self._train(self._standardise(X), lists, held_out)
        return self

    def predict(self, X: Any) -> Floats64:
        """Score documents by the network; within a query, a higher score means a better place.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows,)
        """
        X = self._check_predict(X, accept_sparse=False)
        hidden = np.tanh(self._standardise(X) @ self.hidden_coef_ + self.hidden_intercept_)
        return np.asarray(hidden @ self.output_coef_)

    def _check_params(self) -> None:
        check_count("hidden_units", self.hidden_units)
        check_not_negative("alpha", self.alpha)
        check_positive("learning_rate", self.learning_rate)
        check_count("max_iter", self.max_iter)
        check_count("patience", self.patience, or_none=True)
        check_count("k", self.k, or_none=True)

    def _standardise(self, X: NDArray[Any]) -> Floats64:
        return np.asarray((X - self.mean_) / self.scale_, dtype=np.float64)

    def _train(self, Z: Floats64, lists: list[PairList], held_out: HeldOut | None) -> None:
        """Run epochs until they are enough or held-out queries gain no more; keep the best."""
        rng = as_random_state(self.random_state)
        network = Network.draw(Z.shape[1], self.hidden_units, rng)
        adam = Adam(network.theta, float(self.learning_rate))
        best = BestSoFar(self.patience)
        self.loss_curve_ = []
        with self._progress(self.max_iter) as progress:
            for epoch in range(1, self.max_iter + 1):
                losses = [
                    self._step(network, adam, Z, lists[i]) for i in rng.permutation(len(lists))
                ]
                self.loss_curve_.append(float(np.mean(losses)))
                self.n_iter_ = epoch
                progress.update(epoch, loss=self.loss_curve_[-1])
                if held_out is None or best.add(self._held_out_ndcg(network, held_out)):
                    self.best_iter_ = epoch
                    self._keep(network)
                if best.given_up:
                    break
        self.validation_scores_ = best.scores

    def _step(self, network: Network, adam: Adam, Z: Floats64, documents: PairList) -> float:
        """Take one step by one query; return its loss before the step."""
        loss, gradient = network.evaluate(Z[documents.rows], documents)
        adam.step(gradient + float(self.alpha) * network.penalised())
        return loss

    def _held_out_ndcg(self, network: Network, held_out: HeldOut) -> float:
        X = held_out.X if isinstance(held_out.X, np.ndarray) else held_out.X.toarray()
        return held_out.ndcg(network.hidden(self._standardise(X)) @ network.v)

    def _keep(self, network: Network) -> None:
        self.hidden_coef_ = network.A.copy()
        self.hidden_intercept_ = network.b.copy()
        self.output_coef_ = network.v.copy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


@dataclass(frozen=True)
class PairList:
    """The pairs of one query's documents, as a loss of their scores, best label first.

    Attributes
    ----------
    rows : array of shape (n_documents,)
        Their rows, by falling label.
    ends : array of shape (n_grades,)
        Where each grade ends; its documents are better than all that follow.
    """

    rows: Ints64
    ends: Ints64

    @property
    def n_pairs(self) -> int:
        """The number of pairs of different labels."""
        sizes = np.diff(self.ends, prepend=0)
        return int(sizes @ (len(self.rows) - self.ends))

    def __call__(self, s: Floats64) -> tuple[float, Floats64]:
        """Return the mean of log(1 + exp(−(s_i − s_j))) over pairs, and its derivative by s."""
        total, slope = 0.0, np.zeros(len(s))
        for start, end in zip(np.append(0, self.ends[:-1]), self.ends[:-1], strict=False):
            worse = s[end:]
            rows_at_once = max(1, _CELLS // len(worse))
            for first in range(start, end, rows_at_once):
                better = slice(first, min(first + rows_at_once, end))
                gap = worse[None, :] - s[better, None]
                total += float(np.logaddexp(0.0, gap).sum())
                push = expit(gap)
                slope[better] -= push.sum(axis=1)
                slope[end:] += push.sum(axis=0)
        return total / self.n_pairs, slope / self.n_pairs


def _lists_with_pairs(y: Floats64, queries: Queries) -> Iterator[PairList]:
    rows = queries.rows()
    for start, stop in zip(queries.offsets[:-1], queries.offsets[1:], strict=True):
        mine = rows[start:stop]
        mine = mine[np.argsort(-y[mine], kind="stable")]
        changes = np.flatnonzero(np.diff(y[mine])) + 1
        if len(changes):
            yield PairList(mine, np.append(changes, len(mine)))


class Network:
    """The network: its weights A, b and v are views of one vector, theta."""

    def __init__(self, theta: Floats64, n_features: int, n_hidden: int) -> None:
        self.theta = theta
        self.A = theta[: n_features * n_hidden].reshape(n_features, n_hidden)
        self.b = theta[n_features * n_hidden : -n_hidden]
        self.v = theta[-n_hidden:]

    @classmethod
    def draw(cls, n_features: int, n_hidden: int, rng: np.random.RandomState) -> Network:
        """Draw weights such that activations neither vanish nor saturate; b is 0."""
        network = cls(np.zeros((n_features + 2) * n_hidden), n_features, n_hidden)
        network.A[:] = rng.standard_normal(network.A.shape) / np.sqrt(n_features)
        network.v[:] = rng.standard_normal(n_hidden) / np.sqrt(n_hidden)
        return network

    def hidden(self, Z: Floats64) -> Floats64:
        """Return the activations of the hidden layer."""
        return np.asarray(np.tanh(Z @ self.A + self.b))

    def evaluate(self, Z: Floats64, documents: PairList) -> tuple[float, Floats64]:
        """Return the loss of a query's documents and its gradient by theta."""
        hidden = self.hidden(Z)
        loss, slope = documents(hidden @ self.v)
        gradient = Network(np.empty_like(self.theta), *self.A.shape)
        inner = np.outer(slope, self.v) * (1.0 - hidden**2)
        gradient.A[:] = Z.T @ inner
        gradient.b[:] = inner.sum(axis=0)
        gradient.v[:] = slope @ hidden
        return loss, gradient.theta

    def penalised(self) -> Floats64:
        """Return theta with 0 for b, which is free."""
        masked = Network(self.theta.copy(), *self.A.shape)
        masked.b[:] = 0.0
        return masked.theta


class Adam:
    """Kingma and Ba's step rule with its usual constants; moves theta in place."""

    def __init__(self, theta: Floats64, rate: float) -> None:
        self.theta, self.rate = theta, rate
        self._mean, self._square = np.zeros_like(theta), np.zeros_like(theta)
        self._steps = 0

    def step(self, gradient: Floats64) -> None:
        """Take one step down."""
        self._steps += 1
        self._mean += 0.1 * (gradient - self._mean)
        self._square += 0.001 * (gradient**2 - self._square)
        mean = self._mean / (1 - 0.9**self._steps)
        square = self._square / (1 - 0.999**self._steps)
        self.theta -= self.rate * mean / (np.sqrt(square) + 1e-8)
