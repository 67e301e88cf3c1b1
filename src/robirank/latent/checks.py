"""Checks of what comes into a fit, beyond the table itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from robirank._checks import check_positive
from robirank.engine.ray import RayEngine
from robirank.latent.records import Records, as_records

__all__ = ["check_engine", "check_ids", "check_rate", "read_validation"]


def read_validation(validation: Any, user_items: Any) -> Records | None:
    """Read a validation set, which must have the users and items of the training set."""
    if validation is None:
        return None
    records = as_records(validation, name="validation")
    if validation.shape != user_items.shape:
        raise ValueError(
            f"validation must have the shape of user_items, {user_items.shape}; "
            f"it has {validation.shape}"
        )
    for kind in ("users", "items"):
        ids, known = getattr(validation, kind, None), getattr(user_items, kind, None)
        if ids is not None and known is not None and ids != known:
            raise ValueError(
                f"validation must have the {kind} of user_items, in their order; "
                "validation.align(user_items) sees to it"
            )
    if not records.n_records:
        raise ValueError("validation must hold at least one interaction; it has none")
    return records


def check_ids(kind: str, user_items: Any, known: Any, count: int) -> Any:
    """The outside ids of a table that must go on from known ones."""
    ids = getattr(user_items, kind, None)
    if known is None:
        return ids
    if ids is None:
        if count == len(known):
            return known
        raise ValueError(
            f"user_items has {count} {kind} and the model has ids of {len(known)}; give "
            "Interactions, so that the new ones have ids too"
        )
    if not np.array_equal(ids[: len(known)], known[:]):
        raise ValueError(f"user_items must begin with the {kind} of the model, in their order")
    return ids


def check_engine(engine: Any, solver: str) -> None:
    """Raise an error unless the engine is known and fits the solver."""
    if engine == "local":
        return
    if engine != "ray" and not isinstance(engine, RayEngine):
        raise ValueError(f'engine must be "local", "ray" or a RayEngine; got {engine!r}')
    if solver == "exact":
        raise ValueError('solver must be "sgd" on a cluster; got "exact"')


def check_rate(name: str, value: Any) -> None:
    """Raise an error unless the parameter is None or a positive number."""
    if value is not None:
        check_positive(name, value)
