"""RoBiRank over a small neural network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from robirank._checks import Count, NotNegative
from robirank._features import dense, settled_order
from robirank._queries import Queries
from robirank._random import as_random_state
from robirank._types import Floats64
from robirank.data.ranking import signed_log
from robirank.errors import ArgumentError
from robirank.ltr._network import Epochs, NetworkRanker, network_parts
from robirank.ltr.base import ListwiseRanker
from robirank.registry import register
from robirank.storage.fitted_parts import FittedArray


@register
@dataclass(eq=False, repr=False)
class RoBiRankNet(ListwiseRanker, NetworkRanker):
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

    fitted_parts = network_parts(
        {
            "input_coef_": FittedArray(("features", "units")),
            "input_intercept_": FittedArray(("units",)),
            "block_coef_": FittedArray(("blocks", "units", "units")),
            "block_intercept_": FittedArray(("blocks", "units")),
            "output_coef_": FittedArray(("units",)),
        }
    )
    needs = "torch"

    units: Count = 64
    _: KW_ONLY
    blocks: Count = 2
    dropout: NotNegative = 0.1
    batch_size: Count = 16
    device: str = "cpu"

    def _check_params(self) -> None:
        super()._check_params()
        if self.dropout >= 1:
            raise ArgumentError("dropout", f"must be below 1; got {self.dropout!r}")

    def _epochs(self, X: Any, Z: Floats64, y: Floats64, queries: Queries) -> Epochs:
        rows = settled_order(X, y, queries)
        seed = int(as_random_state(self.random_state).randint(2**31 - 1))
        in_order = replace(queries, order=None)
        epochs: Epochs = _import_network().train_epochs(
            Z[rows].astype(np.float32), y[rows], in_order, self, seed
        )
        return epochs

    def _features(self, X: Any) -> Any:
        return signed_log(dense(X).astype(np.float64))

    def _forward(self, Z: Any, weights: Mapping[str, Any]) -> Floats64:
        hidden = Z @ weights["input_coef_"] + weights["input_intercept_"]
        for coef, bias in zip(weights["block_coef_"], weights["block_intercept_"], strict=True):
            hidden = hidden + np.maximum(hidden @ coef + bias, 0.0)
        return np.asarray(hidden @ weights["output_coef_"])


def _import_network() -> Any:
    try:
        from robirank.torch import network
    except ImportError as error:
        raise ImportError(
            "RoBiRankNet is trained by PyTorch, which is not installed: "
            "pip install 'robirank[torch]'"
        ) from error
    return network
