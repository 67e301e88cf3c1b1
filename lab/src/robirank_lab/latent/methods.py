"""The latent methods of the paper's figure, with the settings that are searched.

Every method begins at the same random factors and its defaults, and is searched in the same way:
step sizes a third and three times as large, then penalties smaller and larger by a factor of 1.4,
each on while the best one is at the edge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from typing import Any

import robirank as rr

RATE_FACTOR = 3.0
REGULARIZATION_FACTOR = 1.4


@dataclass(frozen=True)
class LatentMethod:
    """A method of the comparison.

    Attributes
    ----------
    name : str
    home : str
        The place of its class, "module:class".
    steps : dict from str to (float or None, float)
        The parameters that are searched, step size and penalty, with the default and the factor
        between neighbours; None is the penalty that the rule gives a table.
    fixed : dict
        Parameters that all settings share.
    needs : str
        The package that must be installed.
    """

    name: str
    home: str
    steps: Mapping[str, tuple[float | None, float]]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    needs: str = ""

    @property
    def missing(self) -> str:
        """The package that the method needs, where it is not installed; else an empty text."""
        return self.needs if self.needs and find_spec(self.needs) is None else ""

    def make(self, params: Mapping[str, Any], **options: Any) -> Any:
        """A model with the given setting, and with those of the options that it has."""
        module, name = self.home.split(":")
        cls = getattr(import_module(module), name)
        accepted = signature(cls).parameters
        options = {name: value for name, value in options.items() if name in accepted}
        return cls(**self.fixed, **params, **options)

    def setting(
        self, rate: int, penalty: int, *, factors: int, train: rr.Interactions
    ) -> dict[str, float]:
        """A place of the grid, counted in steps from the defaults."""
        setting = {}
        for (name, (default, factor)), step in zip(
            self.steps.items(), (rate, penalty), strict=False
        ):
            if default is None:
                default = self.make({}, factors=factors).regularization_for(train)
            setting[name] = float(f"{default * factor**step:.3g}")
        return setting


POPULARITY = "Popularity"
_ROBIRANK = "robirank:LatentRoBiRank"
_PENALTY = {"regularization": (None, REGULARIZATION_FACTOR)}
_EXACT = {"learning_rate": (0.07, RATE_FACTOR), **_PENALTY}
_SGD = {"learning_rate": (0.1, RATE_FACTOR), **_PENALTY}

_METHODS = (
    LatentMethod("RoBiRank exact", _ROBIRANK, _EXACT, {"solver": "exact"}),
    LatentMethod("RoBiRank sgd", _ROBIRANK, _SGD, {"solver": "sgd"}),
    LatentMethod("Identity exact", _ROBIRANK, _EXACT, {"solver": "exact", "rho": "identity"}),
    LatentMethod("Identity sgd", _ROBIRANK, _SGD, {"solver": "sgd", "rho": "identity"}),
    LatentMethod("WARP", "robirank:WARP", _SGD),
    LatentMethod(
        "implicit ALS",
        "robirank_lab.latent.peers:AlternatingLeastSquares",
        {"alpha": (10.0, RATE_FACTOR), "regularization": (1.0, 3.0)},
        needs="implicit",
    ),
    LatentMethod(POPULARITY, "robirank:Popularity", {}),
)

LATENT_FIELD: dict[str, LatentMethod] = {m.name: m for m in _METHODS}
"""Every method by its name."""

ROBIRANK = ("RoBiRank exact", "RoBiRank sgd")
IDENTITY = ("Identity exact", "Identity sgd")
