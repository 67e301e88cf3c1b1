"""The estimators of the package, by name.

A class that is decorated with `register` can be saved, and loaded by its name. Its class attributes
declare what others need to know of it:

- ``fitted_parts``, a `FittedParts`: what a fitted one consists of;
- ``comparison``, a `Comparison`, of a ranker: how it takes part in ``robirank experiment ltr``;
- ``test_settings``, a tuple of dicts, of a ranker: cheap parameters for the contract tests;
- ``needs``, the name of a package, of a ranker: without it the ranker cannot be fitted, and takes
  no part in tests and comparisons.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

Settings = tuple[dict[str, Any], ...]
_Class = TypeVar("_Class", bound=type[Any])

_LTR = "robirank.ltr"
_OTHERS = (
    "robirank.classifier",
    "robirank.latent.model",
    "robirank.latent.popularity",
    "robirank.latent.warp",
)
_classes: dict[str, type[Any]] = {}


@dataclass(frozen=True)
class Comparison:
    """How a ranker takes part in the comparison of ``robirank experiment ltr``.

    Attributes
    ----------
    name : str
        In tables: the paper's name for it, or its own.
    grid : tuple of dict
        The settings to choose from, on the validation part of each fold.
    fixed : mapping
        Parameters that all settings share.
    """

    name: str
    grid: Settings
    fixed: Mapping[str, Any] = field(default_factory=dict)


def log_grid(name: str, start: float, stop: float, n: int) -> Settings:
    """Settings of one parameter, from 10^start to 10^stop in equal ratios.

    Examples
    --------
    >>> log_grid("alpha", 0, -2, 3)
    ({'alpha': 1.0}, {'alpha': 0.1}, {'alpha': 0.01})
    """
    return tuple({name: float(f"{value:.3g}")} for value in np.logspace(start, stop, n))


def register(cls: _Class) -> _Class:
    """Make an estimator known by the name of its class; use it as a decorator."""
    known = _classes.get(cls.__name__, cls)
    if known.__module__ != cls.__module__:
        raise ValueError(
            f"there is an estimator {cls.__name__} in {known.__module__} already; the one in "
            f"{cls.__module__} needs another name"
        )
    if not hasattr(cls, "fitted_parts"):
        raise TypeError(f"{cls.__name__} must declare fitted_parts: what is saved of it")
    _classes[cls.__name__] = cls
    return cls


def find(name: str) -> type[Any] | None:
    """The estimator of that name, or None."""
    return _classes[name] if name in _classes else estimators().get(name)


def estimators() -> dict[str, type[Any]]:
    """All registered estimators by name: those of this package, and those registered elsewhere.

    Examples
    --------
    >>> [name for name in estimators() if name.startswith("RankN")]
    ['RankNet']
    """
    for module in _modules():
        import_module(module)
    return dict(sorted(_classes.items()))


def rankers() -> dict[str, type[Any]]:
    """The registered estimators that rank documents by their features."""
    base = import_module("robirank.ltr.base").Ranker
    return {name: cls for name, cls in estimators().items() if issubclass(cls, base)}


def _modules() -> Iterator[str]:
    """The modules of this package that have estimators; importing them loads no extra."""
    for module in pkgutil.iter_modules(import_module(_LTR).__path__):
        if not module.name.startswith("_"):
            yield f"{_LTR}.{module.name}"
    yield from _OTHERS
