"""RoBiRank over a small neural network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from robirank._blas import one_blas_thread
from robirank._checks import check_choice, check_count, check_not_negative, check_positive
from robirank._queries import Queries
from robirank._random import RandomStateLike, as_random_state
from robirank._types import Floats64, Ints64
from robirank.data.ranking import signed_log
from robirank.losses import RHOS, RhoName
from robirank.ltr._held_out import BestSoFar, HeldOut
from robirank.ltr._row_order import settled_order
from robirank.ltr.base import Ranker, check_labels
from robirank.metrics._conventions import Gain
from robirank.objectives.listwise import Lists, Metric
from robirank.registry import Comparison, register
from robirank.storage.fitted_parts import FittedArray, FittedParts

_WEIGHTS = (
    "input_coef_",
    "input_intercept_",
    "block_coef_",
    "block_intercept_",
    "output_coef_",
)


@register
@dataclass(eq=False, repr=False)
class RoBiRankNet(Ranker):
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
        How many residual blocks.
    rho : {"log", "identity", "type2"}, default="log"
        The transformation of a document's sum of losses: ``log`` is RoBiRank.
    metric : {"ndcg", "dcg"}, default="ndcg"
        The metric to bound: c_x is one over the best DCG of the query, or 1.
    gain : {"exp", "linear"} or callable, default="exp"
        v(·): 2^W − 1, W, or a function from an array of labels to an array of weights.
    dropout : float, default=0.1
        The share of a block's activations that are set to 0 in training, from 0 to below 1.
    alpha : float, default=1e-2
        Weight decay.
    learning_rate : float, default=1e-3
        The rate of Adam.
    batch_size : int, default=16
        Queries of a step.
    max_iter : int, default=100
        The most epochs.
    patience : int or None, default=20
        With validation data: stop after so many epochs without progress. None: run all epochs.
    k : int or None, default=10
        Progress is measured by mean NDCG@k (None: the full list) on the validation data.
    convention : str, default="standard"
        The convention of that NDCG; see `robirank.metrics`.
    device : str, default="cpu"
        Where PyTorch trains, such as "cuda". The same seed gives the same bits on the CPU.
    random_state : int, Generator, RandomState or None, default=None
        Decides the first weights, the order of queries and dropout.
    verbose : bool, default=False
        Show a progress line.

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
            "input_coef_": FittedArray(("features", "units")),
            "input_intercept_": FittedArray(("units",)),
            "block_coef_": FittedArray(("blocks", "units", "units")),
            "block_intercept_": FittedArray(("blocks", "units")),
            "output_coef_": FittedArray(("units",)),
            "loss_curve_": FittedArray(("iterations",), is_list=True),
            "validation_scores_": FittedArray(("rounds",), is_list=True),
        },
        {"n_iter_": int, "best_iter_": int},
        required=("mean_", "scale_", *_WEIGHTS),
    )
    comparison = Comparison(
        "RoBiRankNet",
        tuple({"learning_rate": r, "alpha": a} for r in (1e-3, 3e-3) for a in (1e-3, 1e-2, 0.1)),
    )
    test_settings = (
        {"units": 16, "learning_rate": 1e-2, "max_iter": 12, "random_state": 0},
        {"units": 16, "learning_rate": 1e-2, "max_iter": 12, "random_state": 0, "rho": "identity"},
    )
    needs = "torch"

    units: int = 64
    _: KW_ONLY
    blocks: int = 2
    rho: RhoName = "log"
    metric: Metric = "ndcg"
    gain: Gain = "exp"
    dropout: float = 0.1
    alpha: float = 1e-2
    learning_rate: float = 1e-3
    batch_size: int = 16
    max_iter: int = 100
    patience: int | None = 20
    k: int | None = 10
    convention: str = "standard"
    device: str = "cpu"
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
            Relevance labels, 0 for irrelevant; a RankingData has its own, and its own qid.
        qid : array-like of shape (n_rows,), optional
            The query of each row; without it all rows are one query.
        validation : (X, y, qid) or RankingData, optional
            Held-out queries. The weights of the epoch with the best NDCG@k there are kept, and
            training ends ``patience`` epochs after it.
        """
        self._check_params()
        X, y, queries = self._check_fit(X, y, qid, accept_sparse=False)
        check_labels(y)
        held_out = self._held_out(validation)
        logs = _logs(X)
        self.mean_ = logs.mean(axis=0)
        spread = logs.std(axis=0)
        self.scale_ = np.where(spread > 0, spread, 1.0)
        rows = settled_order(X, y, queries)
        in_order = replace(queries, order=None)
        with one_blas_thread():
            self._train(self._standardise(logs)[rows], y[rows], in_order, held_out)
        return self

    def predict(self, X: Any) -> Floats64:
        """Score documents by the network; within a query, a higher score means a better place.

        PyTorch is not needed.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows,)
        """
        X = self._check_predict(X, accept_sparse=False)
        return forward(self._standardise(_logs(X)), {n: getattr(self, n) for n in _WEIGHTS})

    def _check_params(self) -> None:
        for name in ("units", "blocks", "batch_size", "max_iter"):
            check_count(name, getattr(self, name))
        check_choice("rho", self.rho, RHOS)
        check_not_negative("dropout", self.dropout)
        if self.dropout >= 1:
            raise ValueError(f"dropout must be below 1; got {self.dropout!r}")
        check_not_negative("alpha", self.alpha)
        check_positive("learning_rate", self.learning_rate)
        check_count("patience", self.patience, or_none=True)
        check_count("k", self.k, or_none=True)

    def _standardise(self, logs: Floats64) -> Floats64:
        return np.asarray((logs - self.mean_) / self.scale_)

    def _batch_loss(self, y: Floats64, queries: Queries) -> Any:
        """What the network minimises: a function of the scores of some queries, by number."""
        from robirank.torch.loss import loss_of_lists

        settings: Any = {"metric": self.metric, "gain": self.gain, "rho": self.rho}

        def loss(scores: Any, chosen: Ints64) -> Any:
            some = queries.take(chosen)
            lists = Lists.build(y[some.rows()], replace(some, order=None), **settings)
            return loss_of_lists(scores, lists)

        return loss

    def _train(self, Z: Floats64, y: Floats64, queries: Queries, held_out: HeldOut | None) -> None:
        """Run epochs until they are enough or held-out queries gain no more; keep the best."""
        network = _import_network()
        schedule = network.Schedule(
            units=int(self.units),
            blocks=int(self.blocks),
            dropout=float(self.dropout),
            learning_rate=float(self.learning_rate),
            alpha=float(self.alpha),
            batch_size=int(self.batch_size),
            epochs=int(self.max_iter),
            seed=int(as_random_state(self.random_state).randint(2**31 - 1)),
            device=str(self.device),
        )
        best = BestSoFar(self.patience)
        self.loss_curve_ = []
        loss = self._batch_loss(y, queries)
        held_z = None if held_out is None else self._standardise(_logs(held_out.X))
        epochs = network.train_epochs(Z.astype(np.float32), queries, loss, schedule)
        with self._progress(self.max_iter) as progress:
            for epoch, (mean_loss, weights) in enumerate(epochs, 1):
                self.loss_curve_.append(mean_loss)
                self.n_iter_ = epoch
                progress.update(epoch, loss=mean_loss)
                if held_out is None or best.add(held_out.ndcg(forward(held_z, weights))):
                    self.best_iter_ = epoch
                    for name, array in weights.items():
                        setattr(self, name, array)
                if best.given_up:
                    break
        self.validation_scores_ = best.scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


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
    dense = X if isinstance(X, np.ndarray) else X.toarray()
    return np.asarray(signed_log(dense.astype(np.float64)))


def forward(Z: Any, weights: Mapping[str, Any]) -> Floats64:
    """The scores of standardised rows."""
    hidden = Z @ weights["input_coef_"] + weights["input_intercept_"]
    for coef, intercept in zip(weights["block_coef_"], weights["block_intercept_"], strict=True):
        hidden = hidden + np.maximum(hidden @ coef + intercept, 0.0)
    return np.asarray(hidden @ weights["output_coef_"])
