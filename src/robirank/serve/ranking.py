"""Documents with features, ranked by a ranker."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from msgspec import UNSET

from robirank._types import Floats64
from robirank.ltr.base import ExplainedRanker, feature_names
from robirank.ltr.explain import Explanation
from robirank.serve.loaded import ServedRanker
from robirank.serve.messages import Contrast, Documents, Ranked, Ranking
from robirank.serve.problems import as_field, bad_value

_MOST_EFFECTS = 20  # features of a document that are told


def rank(served: ServedRanker, asked: Documents) -> Ranking:
    """The documents, best first; of equal scores, in the order of the request."""
    names = feature_names(served.model)
    X = _matrix(asked, names, served.model.takes_nan)
    model = served.model
    given = as_fitted(model, X)
    if asked.explain:
        if not isinstance(model, ExplainedRanker):
            raise bad_value("$.explain", f"cannot be true: a {type(model).__name__} has no reasons")
        told = model.explain_query(given)
        order, scores = told.rows, told.scores
        above: list[Any] = [_contrasts(step) for step in told.steps] + [UNSET]
    else:
        plain = np.asarray(model.predict(given))
        order = np.argsort(-plain, kind="stable")
        scores, above = plain[order], [UNSET] * len(plain)
    documents = [
        Ranked(
            row, score, UNSET if asked.documents[row].id is None else asked.documents[row].id, why
        )
        for row, score, why in zip(order.tolist(), scores.tolist(), above, strict=True)
    ]
    return Ranking(served.checksum, documents)


def as_fitted(model: Any, X: Floats64) -> Any:
    """Features as a model wants them: a frame where it was fitted to one, which has names."""
    if "feature_names_in_" not in vars(model):
        return X
    return pl.DataFrame(X, schema=list(feature_names(model)), orient="row")


def _matrix(asked: Documents, names: tuple[str, ...], takes_nan: bool) -> Floats64:
    """A row for each document."""
    missing = asked.missing
    if missing is None and takes_nan:
        missing = np.nan
    X = np.empty((len(asked.documents), len(names)))
    places = {name: place for place, name in enumerate(names)}
    for number, document in enumerate(asked.documents):
        field = as_field("documents", number, "features")
        if isinstance(document.features, list):
            if len(document.features) != len(names):
                raise bad_value(
                    field,
                    f"must have {len(names)} numbers, one for each feature of the model; it has "
                    f"{len(document.features)}",
                )
            X[number] = document.features
            continue
        X[number] = np.nan if missing is None else missing
        given = np.zeros(len(names), bool)
        for name, value in document.features.items():
            if name not in places:
                raise bad_value(
                    field, f"has a feature {name!r:.80}; the model knows {list(names[:20])}"
                )
            X[number, places[name]] = value
            given[places[name]] = True
        if missing is None and not given.all():
            lacking = names[int(np.argmin(given))]
            raise bad_value(
                field, f"must have the feature {lacking!r}; or give `missing`, what it is then"
            )
    return _finite(X, takes_nan)


def _finite(X: Floats64, takes_nan: bool) -> Floats64:
    """Features, of which none is too large for the model's sums."""
    too_large = np.abs(X) > np.finfo(np.float32).max
    if too_large.any():
        row = int(np.argmax(too_large.any(axis=1)))
        raise bad_value(
            as_field("documents", row, "features"), "must have numbers that fit 32 bits"
        )
    assert takes_nan or not np.isnan(X).any()
    return X


def _contrasts(step: Explanation) -> list[Contrast]:
    """The strongest effects of one document above the next, and the sum of the others."""
    return [
        Contrast(name, effect, _or_none(a), _or_none(b))
        for name, a, b, effect in step.table(_MOST_EFFECTS)
    ]


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
