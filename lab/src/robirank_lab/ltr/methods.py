"""The methods of the comparison: a table of their names, estimators and search grids.

RankLib's and the authors' defaults are where each grid starts; a grid is small, because all of it
is searched on every fold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from typing import Any

Grid = tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Method:
    """A method of the comparison.

    Attributes
    ----------
    name : str
        The paper's name of the method, or the method's own.
    home : str
        The place of the estimator's class, "module:class"; each process imports it from there.
    grid : tuple of dict
        The settings to choose from, on the validation part of each fold.
    fixed : dict
        Parameters that all settings share.
    stream : int
        Tells variants apart that differ only in their random numbers.
    """

    name: str
    home: str
    grid: Grid
    fixed: Mapping[str, Any] = field(default_factory=dict)
    stream: int = 0

    @cached_property
    def estimator(self) -> type[Any]:
        """The estimator's class."""
        module, name = self.home.split(":")
        cls: type[Any] = getattr(import_module(module), name)
        return cls

    @property
    def missing(self) -> str:
        """The package that the method needs, where it is not installed; else an empty text."""
        package = getattr(self.estimator, "needs", "")
        return package if package and find_spec(package) is None else ""

    @property
    def stops_early(self) -> bool:
        """Whether ``fit`` takes the validation part to know when to stop."""
        return "validation" in signature(self.estimator.fit).parameters

    @property
    def is_random(self) -> bool:
        """Whether the method takes a seed."""
        return "random_state" in signature(self.estimator).parameters

    def make(self, params: Mapping[str, Any], seed: int) -> Any:
        """An estimator with the given setting; one thread, because units run side by side."""
        always = {"random_state": 1000 * self.stream + seed, "num_threads": 1}
        accepted = signature(self.estimator).parameters
        always = {name: value for name, value in always.items() if name in accepted}
        return self.estimator(**{**always, **self.fixed, **params})


def log_grid(name: str, start: float, stop: float, n: int) -> Grid:
    """Settings of one parameter, from 10^start to 10^stop in equal ratios.

    Examples
    --------
    >>> log_grid("alpha", 0, -2, 3)
    ({'alpha': 1.0}, {'alpha': 0.1}, {'alpha': 0.01})
    """
    powers = [start + (stop - start) * i / (n - 1) for i in range(n)]
    return tuple({name: float(f"{10**power:.3g}")} for power in powers)


def _product(**values: Sequence[Any]) -> Grid:
    """All combinations of the values of two parameters."""
    (first, firsts), (second, seconds) = values.items()
    return tuple({first: a, second: b} for a in firsts for b in seconds)


_ALPHAS = log_grid("alpha", 0.5, -4.5, 11)
_PUSH = log_grid("alpha", 3, -3, 7)
_TREES: Grid = (
    *_product(learning_rate=(0.03, 0.1), max_leaf_nodes=(4, 10)),
    {"learning_rate": 0.03, "max_leaf_nodes": 4, "min_samples_leaf": 50},
    {"learning_rate": 0.03, "max_leaf_nodes": 10, "min_samples_leaf": 50},
)
_FORESTS: Grid = (
    *_product(max_leaf_nodes=(30, 100), min_samples_leaf=(1, 10)),
    {"max_leaf_nodes": 100, "min_samples_leaf": 1, "max_features": 0.1},
    {"max_leaf_nodes": 100, "min_samples_leaf": 10, "max_features": 0.1},
)

#: The methods of the paper's comparison, in its order.
PAPER = (
    Method("RoBiRank", "robirank:RoBiRank", _ALPHAS),
    Method("RankSVM", "robirank:RankSVM", log_grid("C", -6, 1, 8)),
    Method("LSRank", "robirank:LSRank", log_grid("alpha", 3, -2, 6)),
    Method("InfNormPush", "robirank:InfNormPush", _PUSH),
    Method("IRPush", "robirank:IRPush", _PUSH),
    Method("Identity", "robirank:RoBiRank", _ALPHAS, {"rho": "identity"}),
    Method("MART", "robirank:MART", _TREES),
    Method(
        "RankNet",
        "robirank:RankNet",
        _product(learning_rate=(1e-3, 1e-2), alpha=(1e-3, 1e-2, 0.1)),
    ),
    Method("RankBoost", "robirank:RankBoost", tuple({"n_thresholds": n} for n in (10, 50, None))),
    Method("AdaRank", "robirank:AdaRank", _product(metric=("map", "ndcg"), max_consecutive=(1, 5))),
    Method(
        "CoordAscent",
        "robirank:CoordinateAscent",
        tuple({"slack": slack} for slack in (0.0, 0.03, 0.1, 0.3)),
    ),
    Method("LambdaMART", "robirank:LambdaMART", _TREES),
    Method("ListNet", "robirank:ListNet", log_grid("alpha", 0, -4, 9), {"max_iter": 2000}),
    Method("RandomForests", "robirank:RandomForests", _FORESTS),
)
#: RoBiRank's other scorers, and boosters of other packages.
OTHERS = (
    Method("RoBiRankBooster", "robirank:RoBiRankBooster", _TREES),
    Method(
        "RoBiRankNet",
        "robirank:RoBiRankNet",
        _product(learning_rate=(1e-3, 3e-3), alpha=(1e-3, 1e-2, 0.1)),
    ),
    Method("LightGBM lambdarank", "robirank_lab.ltr.boosters:LightGBMLambdaRank", _TREES),
    Method("LightGBM rank_xendcg", "robirank_lab.ltr.boosters:LightGBMXendcg", _TREES),
    Method("XGBoost rank:ndcg", "robirank_lab.ltr.boosters:XGBoostNDCG", _TREES),
    Method("CatBoost YetiRank", "robirank_lab.ltr.boosters:CatBoostYetiRank", _TREES),
)
#: RoBiRank from zeros, from RankSVM's solution, and from ten random starts.
STARTS = (
    Method("zeros", "robirank:RoBiRank", _ALPHAS),
    Method("RankSVM start", "robirank_lab.ltr.starts:FromRankSVM", _ALPHAS),
    *(
        Method(f"random start {i}", "robirank:RoBiRank", _ALPHAS, {"init": "random"}, stream=i + 1)
        for i in range(10)
    ),
)
TYPE_TWO = Method("Type-II", "robirank_lab.ltr.starts:TypeTwo", _ALPHAS)

#: What each command compares where it is not told otherwise, by name.
PAPER_FIELD = tuple(method.name for method in PAPER)
START_FIELD = tuple(method.name for method in STARTS)
IDENTITY_FIELD = ("RoBiRank", "Identity", "Type-II")

_added: dict[str, Method] = {}


def add_method(
    estimator: type[Any],
    grid: Sequence[Mapping[str, Any]] = ({},),
    *,
    name: str | None = None,
    fixed: Mapping[str, Any] | None = None,
) -> None:
    """Let an estimator take part in ``robirank experiment ltr``.

    Call it in the module that the command is told to ``--import``.

    Parameters
    ----------
    estimator : type
        A class with ``fit(X, y, qid=…)`` and ``predict(X)``. If its ``fit`` takes ``validation``,
        it gets the validation part; if it takes ``random_state`` or ``num_threads``, it gets
        those.
    grid : sequence of dict, optional
        The settings to choose from, on the validation part of each fold; the defaults of the
        estimator where it is not given.
    name : str, optional
        What tables call it; the name of the class by default.
    fixed : dict, optional
        Parameters that all settings share.
    """
    home = f"{estimator.__module__}:{estimator.__qualname__}"
    name = name or estimator.__name__
    _added[name] = Method(name, home, tuple(map(dict, grid)), fixed or {})


def all_methods() -> dict[str, Method]:
    """Every method by its name, those of users last."""
    listed = (*PAPER, *OTHERS, *STARTS, TYPE_TWO)
    return {method.name: method for method in (*listed, *_registered(), *_added.values())}


def _registered() -> list[Method]:
    """Rankers that others have registered with robirank, with their defaults."""
    import robirank as rr

    return [
        Method(name, f"{cls.__module__}:{cls.__qualname__}", ({},))
        for name, cls in rr.rankers().items()
        if cls.__module__.split(".")[0] != "robirank"
    ]


def whole_field() -> tuple[str, ...]:
    """The paper's methods in its order, and behind them other boosters and methods of users.

    Those whose package is missing are left out; `left_out` names them.
    """
    variants = {*START_FIELD, TYPE_TWO.name}
    field = {name: method for name, method in all_methods().items() if name not in variants}
    return tuple(name for name, method in field.items() if not method.missing)


def left_out() -> dict[str, str]:
    """The methods that `whole_field` leaves out, and the package that each needs."""
    return {name: method.missing for name, method in all_methods().items() if method.missing}
