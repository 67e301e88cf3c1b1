"""RankNet: a small neural network trained on pairs of documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from robirank._checks import Count
from robirank._queries import Queries
from robirank._random import as_random_state
from robirank._types import Floats64, Ints64
from robirank.errors import ArgumentError
from robirank.ltr._network import Epochs, NetworkRanker, network_parts
from robirank.registry import register
from robirank.storage.fitted_parts import FittedArray

_CELLS = 1 << 20  # pairs looked at in one go: a long list is cut so that memory stays small


@register
@dataclass(eq=False, repr=False)
class RankNet(NetworkRanker):
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
    random_state : int, Generator, RandomState or None, default=None
        Decides the weights to start from and the order of queries.
    patience, k, convention, verbose
        As in `RoBiRankNet`.

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
    n_iter_, best_iter_, validation_scores_
        As in `RoBiRankNet`.
    loss_curve_ : list of float
        The mean loss of the queries in each epoch, each before its step, without the penalty.

    References
    ----------
    Burges, Shaked, Renshaw, Lazier, Deeds, Hamilton, Hullender: Learning to rank using gradient
    descent. ICML 2005.

    Examples
    --------
    >>> from robirank import RankNet, make_ranking
    >>> data = make_ranking(n_queries=50, random_state=0)
    >>> model = RankNet(max_iter=20, random_state=0).fit(data.X, data.y, qid=data.qid)
    >>> model.score(data.X, data.y, qid=data.qid) > 0.6
    True
    """

    fitted_parts = network_parts(
        {
            "hidden_coef_": FittedArray(("features", "units")),
            "hidden_intercept_": FittedArray(("units",)),
            "output_coef_": FittedArray(("units",)),
        }
    )

    hidden_units: Count = 10

    def _epochs(self, X: Any, Z: Floats64, y: Floats64, queries: Queries) -> Epochs:  # noqa: ARG002
        lists = [*_lists_with_pairs(y, queries)]
        if not lists:
            raise ArgumentError(
                "y",
                "must differ within some query, or there is no pair to learn from "
                f"(n_samples = {len(y)})",
            )
        rng = as_random_state(self.random_state)
        weights = _draw(Z.shape[1], self.hidden_units, rng)
        adam = Adam(weights, float(self.learning_rate))
        while True:
            losses = [self._step(adam, Z, lists[i]) for i in rng.permutation(len(lists))]
            yield float(np.mean(losses)), {name: array.copy() for name, array in weights.items()}

    def _step(self, adam: Adam, Z: Floats64, documents: PairList) -> float:
        """Take one step by one query; return its loss before the step."""
        loss, gradients = evaluate(Z[documents.rows], documents, adam.weights)
        for name in ("hidden_coef_", "output_coef_"):
            gradients[name] += float(self.alpha) * adam.weights[name]
        adam.step(gradients)
        return loss

    def _forward(self, Z: Any, weights: Mapping[str, Any]) -> Floats64:
        return _forward(Z, weights)[1]


@dataclass(frozen=True)
class PairList:
    """The pairs of one query's documents, as a loss of their scores, best label first.

    ``rows`` has the documents by falling label. Each of ``ends`` is where a grade ends; its
    documents are better than all that follow.
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
        total, gradient = 0.0, np.zeros(len(s))
        for start, end in zip(np.append(0, self.ends[:-1]), self.ends[:-1], strict=False):
            worse = s[end:]
            rows_at_once = max(1, _CELLS // len(worse))
            for first in range(start, end, rows_at_once):
                better = slice(first, min(first + rows_at_once, end))
                gap = worse[None, :] - s[better, None]
                total += float(np.logaddexp(0.0, gap).sum())
                push = expit(gap)
                gradient[better] -= push.sum(axis=1)
                gradient[end:] += push.sum(axis=0)
        return total / self.n_pairs, gradient / self.n_pairs


def _lists_with_pairs(y: Floats64, queries: Queries) -> Iterator[PairList]:
    rows = queries.rows()
    for start, stop in zip(queries.offsets[:-1], queries.offsets[1:], strict=True):
        best_first = rows[start:stop][np.argsort(-y[rows[start:stop]], kind="stable")]
        changes = np.flatnonzero(np.diff(y[best_first])) + 1
        if len(changes):
            yield PairList(best_first, np.append(changes, len(best_first)))


def _draw(n_features: int, n_hidden: int, rng: np.random.RandomState) -> dict[str, Floats64]:
    """Draw weights such that activations neither vanish nor saturate; b is 0."""
    return {
        "hidden_coef_": rng.standard_normal((n_features, n_hidden)) / np.sqrt(n_features),
        "hidden_intercept_": np.zeros(n_hidden),
        "output_coef_": rng.standard_normal(n_hidden) / np.sqrt(n_hidden),
    }


def _forward(Z: Any, weights: Mapping[str, Any]) -> tuple[Floats64, Floats64]:
    """The activations of the hidden layer, and the scores, of standardised rows."""
    hidden = np.tanh(Z @ weights["hidden_coef_"] + weights["hidden_intercept_"])
    return hidden, hidden @ weights["output_coef_"]


def evaluate(
    Z: Floats64, documents: PairList, weights: Mapping[str, Floats64]
) -> tuple[float, dict[str, Floats64]]:
    """Return the loss of a query's documents and its gradients by the weights."""
    hidden, scores = _forward(Z, weights)
    loss, by_score = documents(scores)
    by_input = np.outer(by_score, weights["output_coef_"]) * (1.0 - hidden**2)
    return loss, {
        "hidden_coef_": Z.T @ by_input,
        "hidden_intercept_": by_input.sum(axis=0),
        "output_coef_": by_score @ hidden,
    }


class Adam:
    """Kingma and Ba's step rule with its usual constants; moves the weights in place."""

    def __init__(self, weights: dict[str, Floats64], rate: float) -> None:
        self.weights, self.rate = weights, rate
        self._means = {name: np.zeros_like(array) for name, array in weights.items()}
        self._squares = {name: np.zeros_like(array) for name, array in weights.items()}
        self._steps = 0

    def step(self, gradients: dict[str, Floats64]) -> None:
        """Take one step down."""
        self._steps += 1
        for name, gradient in gradients.items():
            self._means[name] += 0.1 * (gradient - self._means[name])
            self._squares[name] += 0.001 * (gradient**2 - self._squares[name])
            mean = self._means[name] / (1 - 0.9**self._steps)
            square = self._squares[name] / (1 - 0.999**self._steps)
            self.weights[name] -= self.rate * mean / (np.sqrt(square) + 1e-8)
