"""The field: every method that the paper compares, with the settings that are searched.

RankLib's and the authors' defaults are where each grid starts; a grid is small, because it is
searched on every fold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np

__all__ = ["FIELD", "IDENTITY_FIELD", "PAPER_FIELD", "RANKLIB", "START_FIELD", "Method"]


@dataclass(frozen=True)
class Method:
    """A method of the comparison.

    Attributes
    ----------
    name : str
        As the paper calls it.
    home : str
        Where its estimator lives, "module:class".
    grid : tuple of dict
        The settings to choose from, on the validation part.
    fixed : dict
        Parameters that all settings share.
    stops_early : bool
        Whether ``fit`` takes the validation part to know when to stop.
    stream : int
        Tells variants apart that differ only in their random numbers.
    """

    name: str
    home: str
    grid: tuple[dict[str, Any], ...]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    stops_early: bool = False
    stream: int = 0

    def make(self, params: Mapping[str, Any], seed: int) -> Any:
        """An estimator with the given setting; one thread, because units run side by side."""
        module, name = self.home.split(":")
        cls = getattr(import_module(module), name)
        known = signature(cls).parameters
        always = {
            k: v
            for k, v in (("random_state", 1000 * self.stream + seed), ("num_threads", 1))
            if k in known
        }
        return cls(**{**always, **self.fixed, **params})


def _path(name: str, start: float, stop: float, n: int) -> tuple[dict[str, Any], ...]:
    values = (float(f"{v:.3g}") for v in np.logspace(start, stop, n))
    return tuple({name: v} for v in values)


_ROBIRANK = "robirank.ltr.robirank:RoBiRank"
_ALPHAS = _path("alpha", 0.5, -4.5, 11)
_CS = _path("C", -6, 1, 8)

_BOOSTED = (
    {"learning_rate": 0.03, "max_leaf_nodes": 4},
    {"learning_rate": 0.03, "max_leaf_nodes": 10},
    {"learning_rate": 0.1, "max_leaf_nodes": 4},
    {"learning_rate": 0.1, "max_leaf_nodes": 10},
    {"learning_rate": 0.03, "max_leaf_nodes": 4, "min_samples_leaf": 50},
    {"learning_rate": 0.03, "max_leaf_nodes": 10, "min_samples_leaf": 50},
)
_BAGGED = (
    {"max_leaf_nodes": 30, "min_samples_leaf": 1},
    {"max_leaf_nodes": 30, "min_samples_leaf": 10},
    {"max_leaf_nodes": 100, "min_samples_leaf": 1},
    {"max_leaf_nodes": 100, "min_samples_leaf": 10},
    {"max_leaf_nodes": 100, "min_samples_leaf": 1, "max_features": 0.1},
    {"max_leaf_nodes": 100, "min_samples_leaf": 10, "max_features": 0.1},
)
_NETS = tuple(
    {"learning_rate": rate, "alpha": alpha} for rate in (1e-3, 1e-2) for alpha in (1e-3, 1e-2, 0.1)
)
_THRESHOLDS = tuple({"n_thresholds": n} for n in (10, 50, None))
_ADARANK = tuple(
    {"metric": metric, "max_consecutive": n} for metric in ("map", "ndcg") for n in (1, 5)
)

_METHODS = (
    Method("RoBiRank", _ROBIRANK, _ALPHAS),
    Method("RankSVM", "robirank.ltr.ranksvm:RankSVM", _CS),
    Method("LSRank", "robirank.ltr.lsrank:LSRank", _path("alpha", 3, -2, 6)),
    Method("InfNormPush", "robirank.ltr.infnormpush:InfNormPush", _path("alpha", 3, -3, 7)),
    Method("IRPush", "robirank.ltr.irpush:IRPush", _path("alpha", 3, -3, 7)),
    Method("Identity", _ROBIRANK, _ALPHAS, {"rho": "identity"}),
    Method("MART", "robirank.ltr.mart:MART", _BOOSTED, stops_early=True),
    Method("RankNet", "robirank.ltr.ranknet:RankNet", _NETS, stops_early=True),
    Method("RankBoost", "robirank.ltr.rankboost:RankBoost", _THRESHOLDS, stops_early=True),
    Method("AdaRank", "robirank.ltr.adarank:AdaRank", _ADARANK, stops_early=True),
    Method(
        "CoordAscent",
        "robirank.ltr.coordinate_ascent:CoordinateAscent",
        tuple({"slack": slack} for slack in (0.0, 0.03, 0.1, 0.3)),
        stops_early=True,
    ),
    Method("LambdaMART", "robirank.ltr.lambdamart:LambdaMART", _BOOSTED, stops_early=True),
    Method("ListNet", "robirank.ltr.listnet:ListNet", _path("alpha", 0, -4, 9), {"max_iter": 2000}),
    Method("RandomForests", "robirank.ltr.random_forests:RandomForests", _BAGGED),
)

# Variants that only their own experiments run.
_STARTS = (
    Method("zeros", _ROBIRANK, _ALPHAS),
    Method("RankSVM start", "robirank.experiments.ltr.starts:FromRankSVM", _ALPHAS),
    *(
        Method(f"random start {i}", _ROBIRANK, _ALPHAS, {"init": "random"}, stream=i + 1)
        for i in range(10)
    ),
)
_TYPE2 = Method("Type-II", "robirank.experiments.ltr.starts:TypeTwo", _ALPHAS)

PAPER_FIELD: tuple[str, ...] = tuple(m.name for m in _METHODS)
"""The methods of the paper's comparison, in its order."""

START_FIELD: tuple[str, ...] = tuple(m.name for m in _STARTS)
"""RoBiRank from zeros, from RankSVM's solution, and from ten random starts."""

IDENTITY_FIELD: tuple[str, ...] = ("RoBiRank", "Identity", "Type-II")
"""The three transformations ρ."""

RANKLIB = frozenset(
    ("MART", "RankNet", "RankBoost", "AdaRank", "CoordAscent", "LambdaMART", "ListNet")
) | {"RandomForests"}
"""The methods that the paper took from RankLib, and shows in a figure of their own."""

FIELD: dict[str, Method] = {m.name: m for m in (*_METHODS, *_STARTS, _TYPE2)}
