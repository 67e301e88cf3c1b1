"""The latent methods of the paper's figure, with the settings that are searched.

Every method begins at the same random factors and is searched in the same way: three step sizes
around its default, and on while the best one is at the edge; then two other penalties.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

__all__ = ["IDENTITY", "LATENT_FIELD", "ROBIRANK", "LatentMethod"]

RATE_FACTOR = 3.0
REGULARIZATION_FACTOR = 2.0


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
    rate : float
        The step size in the middle of the grid.
    regularization : callable
        Gives the penalty in the middle of the grid for a number of items.
    """

    name: str
    home: str
    fixed: Mapping[str, Any]
    rate: float
    regularization: Callable[[int], float]

    def make(self, params: Mapping[str, Any], **options: Any) -> Any:
        """A model with the given setting."""
        module, name = self.home.split(":")
        return getattr(import_module(module), name)(**self.fixed, **params, **options)

    def middle(self, n_items: int) -> dict[str, float]:
        """The setting that the search begins with."""
        return {
            "learning_rate": self.rate,
            "regularization": float(f"{self.regularization(n_items):.3g}"),
        }


_ROBIRANK = "robirank.latent.model:LatentRoBiRank"

_METHODS = (
    LatentMethod("RoBiRank exact", _ROBIRANK, {"solver": "exact"}, 0.02, lambda _: 0.2),
    LatentMethod("RoBiRank sgd", _ROBIRANK, {"solver": "sgd"}, 0.05, lambda _: 0.2),
    LatentMethod(
        "Identity exact",
        _ROBIRANK,
        {"solver": "exact", "rho": "identity"},
        0.02,
        lambda n_items: n_items / 128,
    ),
    LatentMethod(
        "Identity sgd",
        _ROBIRANK,
        {"solver": "sgd", "rho": "identity"},
        0.05,
        lambda n_items: n_items / 128,
    ),
    LatentMethod("WARP", "robirank.latent.warp:WARP", {}, 0.05, lambda _: 0.05),
)

LATENT_FIELD: dict[str, LatentMethod] = {m.name: m for m in _METHODS}
"""Every method by its name."""

ROBIRANK = ("RoBiRank exact", "RoBiRank sgd")
IDENTITY = ("Identity exact", "Identity sgd")
