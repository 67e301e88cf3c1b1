"""The methods of the comparison: every registered ranker that says how, variants, other boosters.

A ranker's ``comparison`` has its name and the settings that are searched. RankLib's and the
authors' defaults are where each grid starts; a grid is small, because it is searched on every fold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from inspect import signature
from typing import Any

from robirank.registry import rankers

RANKLIB = frozenset(
    ("MART", "RankNet", "RankBoost", "AdaRank", "CoordAscent", "LambdaMART", "ListNet")
) | {"RandomForests"}
"""The methods that the paper took from RankLib, and shows in a figure of their own."""

PAPER_FIELD: tuple[str, ...] = (
    "RoBiRank",
    "RankSVM",
    "LSRank",
    "InfNormPush",
    "IRPush",
    "Identity",
    "MART",
    "RankNet",
    "RankBoost",
    "AdaRank",
    "CoordAscent",
    "LambdaMART",
    "ListNet",
    "RandomForests",
)
"""The methods of the paper's comparison, in its order."""

IDENTITY_FIELD: tuple[str, ...] = ("RoBiRank", "Identity", "Type-II")
"""The three transformations ρ."""

START_FIELD: tuple[str, ...] = (
    "zeros",
    "RankSVM start",
    *(f"random start {i}" for i in range(10)),
)
"""RoBiRank from zeros, from RankSVM's solution, and from ten random starts."""


@dataclass(frozen=True)
class Method:
    """A method of the comparison.

    Attributes
    ----------
    name : str
        As the paper calls it.
    estimator : type
        Its class. A process that does a part of the work imports it from its own module.
    grid : tuple of dict
        The settings to choose from, on the validation part.
    fixed : dict
        Parameters that all settings share.
    stream : int
        Tells variants apart that differ only in their random numbers.
    needs : str
        A package without which the method is left out.
    """

    name: str
    estimator: type[Any]
    grid: tuple[dict[str, Any], ...]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    stream: int = 0
    needs: str = ""

    @property
    def is_missing(self) -> bool:
        """Whether the package that the method needs is not installed."""
        return bool(self.needs) and find_spec(self.needs) is None

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
        known = signature(self.estimator).parameters
        always = {name: value for name, value in always.items() if name in known}
        return self.estimator(**{**always, **self.fixed, **params})


class _Field(Mapping[str, Method]):
    """Every method by its name; a ranker that is registered later is in it too."""

    def _methods(self) -> dict[str, Method]:
        found = [(cls, cls.comparison) for cls in rankers().values() if cls.comparison is not None]
        methods = [Method(c.name, cls, c.grid, c.fixed, needs=cls.needs) for cls, c in found]
        return {method.name: method for method in (*methods, *_boosters(), *_variants())}

    def __getitem__(self, name: str) -> Method:
        return self._methods()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods())

    def __len__(self) -> int:
        return len(self._methods())


FIELD: Mapping[str, Method] = _Field()
"""Every method by its name."""


def whole_field() -> tuple[str, ...]:
    """The paper's methods in its order, and behind them other rankers and other boosters.

    Those whose package is missing are left out; `left_out` names them.
    """
    variants = {method.name for method in _variants()}
    others = (name for name in FIELD if name not in {*PAPER_FIELD, *variants})
    return tuple(name for name in (*PAPER_FIELD, *others) if not FIELD[name].is_missing)


def left_out() -> dict[str, str]:
    """The methods that `whole_field` leaves out, and the package that each needs."""
    return {name: method.needs for name, method in FIELD.items() if method.is_missing}


def _boosters() -> Iterator[Method]:
    """Boosters of other packages, with the settings of ours."""
    from robirank.experiments.ltr import boosters
    from robirank.ltr._boosting import GRID

    yield Method("LightGBM lambdarank", boosters.LightGBMLambdaRank, GRID)
    yield Method("LightGBM rank_xendcg", boosters.LightGBMXendcg, GRID)
    yield Method("XGBoost rank:ndcg", boosters.XGBoostNDCG, GRID, needs="xgboost")
    yield Method("CatBoost YetiRank", boosters.CatBoostYetiRank, GRID, needs="catboost")


def _variants() -> Iterator[Method]:
    """RoBiRank with other transformations ρ and from other starts."""
    from robirank.experiments.ltr.starts import FromRankSVM, TypeTwo
    from robirank.ltr.robirank import RoBiRank

    grid = RoBiRank.comparison.grid
    yield Method("Identity", RoBiRank, grid, {"rho": "identity"})
    yield Method("Type-II", TypeTwo, grid)
    yield Method("zeros", RoBiRank, grid)
    yield Method("RankSVM start", FromRankSVM, grid)
    for i in range(10):
        yield Method(f"random start {i}", RoBiRank, grid, {"init": "random"}, stream=i + 1)
