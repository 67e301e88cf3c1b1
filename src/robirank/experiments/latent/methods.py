"""The latent methods of the paper's figure, with the settings that are searched.

Every method begins at the same random factors and its defaults, and is searched in the same way:
step sizes a third and three times as large, then penalties smaller and larger by a factor of 1.4,
each on while the best one is at the edge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from robirank.data.records import Records
from robirank.latent.tune.settle import settle_by_records

RATE_FACTOR = 3.0
REGULARIZATION_FACTOR = 1.4


@dataclass(frozen=True)
class LatentMethod:
    """A method of the comparison.

    Attributes
    ----------
    name : str
    home : str
        Where its class lives, "module:class".
    fixed : dict
        Parameters that all settings share.
    steps : dict from str to (float, float), optional
        For a method of another kind: the two parameters that are searched, in place of step size
        and penalty, with the default and the factor between neighbours; empty where there are none.
    needs : str, optional
        The package that must be installed.
    """

    name: str
    home: str
    fixed: Mapping[str, Any]
    steps: Mapping[str, tuple[float, float]] | None = None
    needs: str | None = None

    def is_there(self) -> bool:
        """Whether what it needs is installed."""
        return self.needs is None or find_spec(self.needs) is not None

    def make(self, params: Mapping[str, Any], **options: Any) -> Any:
        """A model with the given setting."""
        module, name = self.home.split(":")
        return getattr(import_module(module), name)(**self.fixed, **params, **options)

    def setting(
        self, rate: int, penalty: int, *, factors: int, records: Records
    ) -> dict[str, float]:
        """A place of the grid, counted in steps from the defaults."""
        if self.steps is not None:
            places = zip(self.steps.items(), (rate, penalty), strict=False)
            return {
                name: float(f"{middle * factor**step:.3g}")
                for (name, (middle, factor)), step in places
            }
        problem = settle_by_records(self.make({}, factors=factors).request(), records)
        middle = {
            "learning_rate": problem.learning_rate,
            "regularization": problem.penalty.regularization,
        }
        scale = {
            "learning_rate": RATE_FACTOR**rate,
            "regularization": REGULARIZATION_FACTOR**penalty,
        }
        return {name: float(f"{middle[name] * scale[name]:.3g}") for name in middle}


POPULARITY = "Popularity"
_ROBIRANK = "robirank.latent.model:LatentRoBiRank"

_METHODS = (
    LatentMethod("RoBiRank exact", _ROBIRANK, {"solver": "exact"}),
    LatentMethod("RoBiRank sgd", _ROBIRANK, {"solver": "sgd"}),
    LatentMethod("Identity exact", _ROBIRANK, {"solver": "exact", "rho": "identity"}),
    LatentMethod("Identity sgd", _ROBIRANK, {"solver": "sgd", "rho": "identity"}),
    LatentMethod("WARP", "robirank.latent.warp:WARP", {}),
    LatentMethod(
        "implicit ALS",
        "robirank.experiments.latent.peers:AlternatingLeastSquares",
        {},
        steps={"alpha": (10.0, RATE_FACTOR), "regularization": (1.0, 3.0)},
        needs="implicit",
    ),
    LatentMethod(POPULARITY, "robirank.experiments.latent.peers:PopularityInOneStep", {}, steps={}),
)

LATENT_FIELD: dict[str, LatentMethod] = {m.name: m for m in _METHODS}
"""Every method by its name."""

ROBIRANK = ("RoBiRank exact", "RoBiRank sgd")
IDENTITY = ("Identity exact", "Identity sgd")
