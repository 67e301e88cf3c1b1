"""What `GET /v1/model` tells of a model."""

from __future__ import annotations

import math
from typing import Any

from msgspec import UNSET

from robirank.ltr.base import ExplainedRanker, feature_names
from robirank.serve.loaded import Served, ServedRecommender
from robirank.serve.messages import ModelFacts

_PLAIN = (str, int, float, bool, type(None))


def model_facts(served: Served) -> ModelFacts:
    """The name, the checksum, the shape and the figures of a model."""
    about, model = served.about, served.model
    facts: dict[str, Any] = {
        "model": about.checksum,
        "name": type(model).__name__,
        "loaded": about.loaded.isoformat(timespec="seconds"),
        "trained": UNSET if about.trained is None else about.trained.isoformat(timespec="seconds"),
        "file": UNSET if about.file is None else about.file,
        "figures": _plain(about.extra) | _fitted(model),
        "parameters": _plain(model.get_params(deep=False)),
    }
    if isinstance(served, ServedRecommender):
        return ModelFacts(kind="recommender", **facts, **_of_recommender(served))
    can = ["rank", "explain"] if isinstance(model, ExplainedRanker) else ["rank"]
    return ModelFacts(kind="ranker", features=list(feature_names(model)), can=can, **facts)


def _of_recommender(served: ServedRecommender) -> dict[str, Any]:
    model, able = served.model, ["recommend", "similar", "items", "feedback"]
    if hasattr(model, "_user_penalty"):
        able.append("explain")
    if served.history is not None:
        able.append("seen")
    if served.other is not None:
        able.append("compare")
    centres = model.factors_.users.centres
    columns = [] if centres is None else centres.features.encoder.columns
    return {
        "users": len(served.users),
        "items": len(served.items),
        "factors": int(model.factors_.items.rows.shape[1]),
        "columns": served.catalogue.columns,
        "user_features": [column.settings.name for column in columns],
        "can": able,
    }


def _fitted(model: Any) -> dict[str, Any]:
    """Numbers and names that a fit leaves."""
    names = ("regularization_", "noise_level_", "solver_", "n_iter_", "best_iter_")
    return _plain({name: getattr(model, name) for name in names if hasattr(model, name)})


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Those of some values that JSON can hold, and lists of such."""
    return {name: value for name, value in values.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(isinstance(entry, _PLAIN) and _is_plain(entry) for entry in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, _PLAIN)
