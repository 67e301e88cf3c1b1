"""RoBiRank over a small neural network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from robirank._blas import one_blas_thread
from robirank._features import dense, mean_and_scale
from robirank._params import Count, CountOrNone, NotNegative, Positive
from robirank._queries import Queries
from robirank._random import RandomStateLike, as_random_state
from robirank._types import Floats64, Ints64
from robirank.data.ranking import signed_log
from robirank.errors import ArgumentError
from robirank.losses import RhoName
from robirank.ltr._rounds import ROUND_ARRAYS, ROUND_NUMBERS, HeldOut, Round, RoundsRanker
from robirank.ltr._row_order import settled_order
from robirank.metrics._conventions import Gain
from robirank.objectives.listwise import Lists, Metric
from robirank.registry import register
from robirank.storage.fitted_parts import FittedArray, FittedParts

_WEIGHTS = {
    "input_coef_": FittedArray(("features", "units")),
    "input_intercept_": FittedArray(("units",)),
    "block_coef_": FittedArray(("blocks", "units", "units")),
    "block_intercept_": FittedArray(("blocks", "units")),
    "output_coef_": FittedArray(("units",)),
}


@register
@dataclass(eq=False, repr=False)
class RoBiRankNet(RoundsRanker):
    r"""A residual network trained by RoBiRank's loss.

    The score of features φ is :math:`v \cdot h_B` with

    .. math::
        z = \frac{\operatorname{sign}(\phi) \log(1 + |\phi|) - \mu}{s}, \qquad
        h_0 = A^\top z + a, \qquad
        h_b = h_{b-1} + \max(0, C_b^\top h_{b-1} + c_b)

    where μ and s standardise the logarithms on the training data: raw counts and scores of search
    engines spread over many powers of ten. Minimises the loss of `RoBiRank` by Adam on batches of
    queries, with dropout on each block and weight decay. It is trained by PyTorch
    (``pip install 'robirank[torch]'``), and kept as plain arrays.

    Parameters
    ----------
    units : int, default=64
        The width of the layers.
    blocks : int, default=2
        The number B of residual blocks.
    rho, metric, gain
        As in `RoBiRank`.
    dropout : float, default=0.1
        The share of a block's activations that are set to 0 in training, from 0 to below 1.
    alpha : float, default=1e-2
        Strength of the penalty, as AdamW's weight decay.
    learning_rate : float, default=1e-3
        Adam's step size.
    batch_size : int, default=16
        The number of queries of a step.
    max_iter : int, default=100
        The most epochs.
    patience : int or None, default=20
        With validation data: stop after so many epochs without progress. None: run all epochs.
    k, convention, verbose
        As in `RoBiRankBooster`.
    device : str, default="cpu"
        Where PyTorch trains, such as "cuda". The same seed gives the same bits on the CPU.
    random_state : int, Generator, RandomState or None, default=None
        Decides the first weights, the order of queries and dropout.

    Attributes
    ----------
    mean_, scale_ : array of shape (n_features,)
        μ and s.
    input_coef_, input_intercept_ : arrays of shape (n_features, units) and (units,)
        A and a.
    block_coef_, block_intercept_ : arrays of shape (blocks, units, units) and (blocks, units)
        C and c.
    output_coef_ : array of shape (units,)
        v.
    loss_curve_ : list of float
        The mean loss of each epoch.
    n_iter_, best_iter_ : int
        The epochs that were run, and the one whose weights were kept.
    validation_scores_ : list of float
        NDCG@k on the validation data after each epoch; empty without.

    References
    ----------
    Yun, Raman, Vishwanathan: Ranking via Robust Binary Classification. NeurIPS 2014. Qin et al.:
    Are Neural Rankers still Outperformed by Gradient Boosted Decision Trees? ICLR 2021 (on
    logarithms of features).
    """

    fitted_parts = FittedParts(
        {
            "mean_": FittedArray(("features",)),
            "scale_": FittedArray(("features",)),
            **_WEIGHTS,
            "loss_curve_": FittedArray(("iterations",), is_list=True),
            **ROUND_ARRAYS,
        },
        ROUND_NUMBERS,
        required=("mean_", "scale_", *_WEIGHTS),
    )
    needs = "torch"
    takes_sparse = False

    units: Count = 64
    _: KW_ONLY
    blocks: Count = 2
    rho: RhoName = "log"
    metric: Metric = "ndcg"
    gain: Gain = "exp"
    dropout: NotNegative = 0.1
    alpha: NotNegative = 1e-2
    learning_rate: Positive = 1e-3
    batch_size: Count = 16
    max_iter: Count = 100
    patience: CountOrNone = 20
    k: CountOrNone = 10
    convention: str = "standard"
    device: str = "cpu"
    random_state: RandomStateLike = None
    verbose: bool = False

    def _check_params(self) -> None:
        super()._check_params()
        if self.dropout >= 1:
            raise ArgumentError("dropout", f"must be below 1; got {self.dropout!r}")

    def _train(self, X: Any, y: Any, queries: Queries, held_out: HeldOut | None = None) -> None:
        rows = settled_order(X, y, queries)
        logs = _logs(X)
        self.mean_, self.scale_ = mean_and_scale(logs)
        self.loss_curve_: list[float] = []
        in_order = replace(queries, order=None)
        with one_blas_thread(), self._progress(self.max_iter) as progress:
            epochs = self._epochs(self._standardise(logs)[rows], y[rows], in_order, held_out)
            self._run(epochs, self.max_iter, progress)

    def _epochs(
        self, Z: Floats64, y: Floats64, queries: Queries, held_out: HeldOut | None
    ) -> Iterator[Round]:
        """Train the network on all queries, again and again; rows come query by query."""
        epochs = _import_network().train_epochs(
            Z.astype(np.float32),
            queries,
            self._batch_loss(y, queries),
            units=int(self.units),
            blocks=int(self.blocks),
            dropout=float(self.dropout),
            learning_rate=float(self.learning_rate),
            weight_decay=float(self.alpha),
            batch_size=int(self.batch_size),
            seed=int(as_random_state(self.random_state).randint(2**31 - 1)),
            device=str(self.device),
        )
        held_out_Z = None if held_out is None else self._standardise(_logs(held_out.X))
        for mean_loss, weights in epochs:
            self.loss_curve_.append(mean_loss)
            ndcg = None if held_out is None else held_out.ndcg(forward(held_out_Z, weights))
            yield Round(ndcg, {"loss": mean_loss}, weights)

    def _batch_loss(self, y: Floats64, queries: Queries) -> Any:
        """What the network minimises: a function of the scores of some queries, by number."""
        from robirank.torch.loss import loss_of_lists

        settings: Any = {"metric": self.metric, "gain": self.gain, "rho": self.rho}

        def loss(scores: Any, numbers: Ints64) -> Any:
            batch = queries.take(numbers)
            lists = Lists.build(y[batch.rows()], replace(batch, order=None), **settings)
            return loss_of_lists(scores, lists)

        return loss

    def _standardise(self, logs: Floats64) -> Floats64:
        return np.asarray((logs - self.mean_) / self.scale_)

    def _scores(self, X: Any) -> Floats64:
        return forward(self._standardise(_logs(X)), vars(self))


def _import_network() -> Any:
    try:
        from robirank.torch import network
    except ImportError as error:
        raise ImportError(
            "RoBiRankNet is trained by PyTorch, which is not installed: "
            "pip install 'robirank[torch]'"
        ) from error
    return network


def _logs(X: Any) -> Floats64:
    """The logarithms of features, dense and in double precision."""
    return np.asarray(signed_log(dense(X).astype(np.float64)))


def forward(Z: Any, weights: Mapping[str, Any]) -> Floats64:
    """The scores of standardised rows."""
    hidden = Z @ weights["input_coef_"] + weights["input_intercept_"]
    for coef, intercept in zip(weights["block_coef_"], weights["block_intercept_"], strict=True):
        hidden = hidden + np.maximum(hidden @ coef + intercept, 0.0)
    return np.asarray(hidden @ weights["output_coef_"])
