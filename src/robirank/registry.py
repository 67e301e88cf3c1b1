"""The estimators of the package, by name.

A class that is decorated with `register` can be saved, and loaded by its name. It declares what a
fitted one consists of (``fitted_parts``) and, of a ranker, the package without which it cannot be
fitted (``needs``).
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=type[Any])

_LTR = "robirank.ltr"
_OTHERS = (
    "robirank.classifier",
    "robirank.latent.model",
    "robirank.latent.popularity",
    "robirank.latent.warp",
)
_classes: dict[str, type[Any]] = {}


def register(cls: _Class) -> _Class:
    """Make an estimator known by the name of its class; use it as a decorator."""
    registered = _classes.get(cls.__name__, cls)
    if registered.__module__ != cls.__module__:
        raise ValueError(
            f"there is an estimator {cls.__name__} in {registered.__module__} already; the one in "
            f"{cls.__module__} needs another name"
        )
    if not hasattr(cls, "fitted_parts"):
        raise TypeError(f"{cls.__name__} must declare fitted_parts: what is saved of it")
    _classes[cls.__name__] = cls
    return cls


def find(name: str) -> type[Any] | None:
    """The estimator of that name, or None; of this package, no other module is imported for it."""
    package = import_module("robirank")
    if name not in _classes and name in package.__all__:
        getattr(package, name)  # its module is imported now, and registers it
    return _classes[name] if name in _classes else estimators().get(name)


def estimators() -> dict[str, type[Any]]:
    """All registered estimators by name: those of this package, and those registered elsewhere."""
    for module in _modules():
        import_module(module)
    return dict(sorted(_classes.items()))


def rankers() -> dict[str, type[Any]]:
    """The registered estimators that rank documents by their features: ours, and those of others.

    Examples
    --------
    >>> rankers()["RankNet"].__module__
    'robirank.ltr.ranknet'
    """
    base = import_module("robirank.ltr.base").Ranker
    return {name: cls for name, cls in estimators().items() if issubclass(cls, base)}


def _modules() -> Iterator[str]:
    """The modules of this package that have estimators; importing them loads no extra."""
    for module in pkgutil.iter_modules(import_module(_LTR).__path__):
        if not module.name.startswith("_"):
            yield f"{_LTR}.{module.name}"
    yield from _OTHERS
