"""Models of factors from files, with the ids that they were trained on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robirank.data.ids import Ids


def load(path: Path, threads: int | None = None, device: str = "cpu") -> tuple[Any, Ids, Ids]:
    """A model, its users and its items; 0, 1, 2, … where it was trained without ids."""
    from robirank.latent.factors.factor_model import FactorModel
    from robirank.storage.estimators import load_model

    model = load_model(path)
    if not isinstance(model, FactorModel):
        raise ValueError(f"{path} holds a {type(model).__name__}, which has no users and items")
    if threads is not None:
        model.num_threads = threads
    model.device = device
    names = model.by_id._names()
    return model, names.users.ids, names.items.ids
