"""Fitted attributes of a model that are parts of its users or items, and whether they fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from robirank.latent.factors.factors import Factors, Side

_OPTIONAL = ("ids", "centres", "content", "leads", "disliked")  # parts of a side


class SideAttribute:
    """A fitted attribute that is kept in `FactorModel.factors_`."""

    def __init__(self, side: str, part: str) -> None:
        self._side, self._part = side, part

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        factors = model.__dict__.get("factors_")
        value = None if factors is None else getattr(getattr(factors, self._side), self._part)
        if value is None and self._part not in _OPTIONAL:
            raise AttributeError(f"this {type(model).__name__} has no {self._name}; call fit first")
        return value

    def __set__(self, model: Any, value: Any) -> None:
        factors = model.__dict__.get("factors_", Factors(Side(None), Side(None)))
        side = replace(getattr(factors, self._side), prepared=None, **{self._part: value})
        model.factors_ = replace(factors, **{self._side: side})


def check_attributes(fitted: Mapping[str, Any]) -> None:
    """Raise a ValueError unless the parts of the users and items of a model fit together."""
    for side in ("user", "item"):
        centres, n_factors = fitted.get(f"{side}_centres_"), fitted[f"{side}_factors"].shape[1]
        if centres is None:
            continue
        if centres.weights.shape[1] != n_factors:
            raise ValueError(
                f"{side}_centres_.weights must have {n_factors} columns; it has "
                f"{centres.weights.shape[1]}"
            )
        if fitted.get(f"{side}_counts_") is None:
            raise ValueError(f"{side}_centres_ need {side}_counts_, which it does not have")
    leads, width = fitted.get("item_leads_"), fitted["item_factors"].shape[1]
    if leads is not None and leads.width >= width:
        raise ValueError(f"item_leads_ must have less than {width} columns; it has {leads.width}")
    n_items = len(fitted["item_factors"])
    for name, part in (("user_content_", "taken"), ("user_dislikes_", "table")):
        known = fitted.get(name)
        if known is not None and getattr(known, part).n_items != n_items:
            raise ValueError(
                f"{name} must have {n_items} items; it has {getattr(known, part).n_items}"
            )
