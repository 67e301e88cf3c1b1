"""Linear rankers for search engines: scaling folded into the weights, weights as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal
from unicodedata import category

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from robirank._types import Floats64
from robirank.ltr.base import LinearRanker, Ranker
from robirank.ltr.robirank_cv import RoBiRankCV
from robirank.storage.files import write_text

Format = Literal["solr", "elasticsearch"]


def fold_scaling(pipeline: Any) -> LinearRanker:
    r"""Fold the scaling of a pipeline into the weights: a ranker for features as they come.

    A scaler makes :math:`(x_f - m_f) / s_f` of feature f, so that the score is

    .. math::
        \sum_f \omega_f \frac{x_f - m_f}{s_f}
        = \sum_f \frac{\omega_f}{s_f} x_f \; - \; \sum_f \frac{\omega_f m_f}{s_f}

    The last sum is the same for every document. It moves all scores alike and never changes a
    ranking, so it is dropped: the result ranks as the pipeline does, with scores that differ by a
    constant.

    Parameters
    ----------
    pipeline : Pipeline or sequence of estimators
        Fitted; one or more of StandardScaler, MinMaxScaler, MaxAbsScaler and RobustScaler, and a
        RoBiRank, RoBiRankCV or another linear ranker at the end. ``(scaler, model)`` will do.

    Returns
    -------
    LinearRanker
        Of the class and with the parameters of the model; a RoBiRankCV becomes a RoBiRank with the
        chosen ``alpha_``. It can be saved.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from robirank import RoBiRank
    >>> pipeline = make_pipeline(StandardScaler(), RoBiRank())
    >>> pipeline = pipeline.fit([[100.0], [300.0]], [0, 1])
    >>> model = fold_scaling(pipeline)
    >>> round(float(pipeline[-1].coef_[0] / model.coef_[0]), 6)  # the scaler's scale_
    100.0
    """
    steps = _steps(pipeline)
    model = steps[-1]
    if not isinstance(model, LinearRanker):
        raise TypeError(
            f"the last step must be a RoBiRank or another linear ranker; got {type(model).__name__}"
        )
    return _plain(model, _fold(steps), getattr(steps[0], "feature_names_in_", None))


def export_linear(
    model: Any,
    format: Format = "solr",
    *,
    feature_names: Sequence[str] | None = None,
    name: str = "robirank",
    path: str | os.PathLike[str] | None = None,
    feature_store: str | None = None,
) -> dict[str, Any]:
    """Write a linear ranker in the format of a search engine.

    Parameters
    ----------
    model : RoBiRank, RoBiRankCV, Pipeline, or any fitted estimator with one row of ``coef_``
        The scaling of a Pipeline is folded into the weights (see `fold_scaling`), so that the
        search engine needs no normalizers. An intercept is left out: it never changes a ranking.
    format : {"solr", "elasticsearch"}, default="solr"
        ``solr`` is the ``LinearModel`` of Solr's Learning To Rank module, to be PUT to
        ``schema/model-store``; ``elasticsearch`` the ``model/linear`` of the Learning to Rank
        plugin for Elasticsearch and OpenSearch, to be POSTed to
        ``_ltr/_featureset/<featureset>/_createmodel``.
    feature_names : sequence of str, optional
        The engine's names of the features, in the order of the columns. By default those that the
        model was fitted or saved with, else f1, f2, …
    name : str, default="robirank"
        The name of the model in the search engine.
    path : str or path-like, optional
        Also write the JSON to this file.
    feature_store : str, optional
        For Solr: the feature store, if it is not the default one.

    Returns
    -------
    dict
        What the JSON holds.

    Notes
    -----
    Both engines compute in single precision.

    Examples
    --------
    >>> from robirank import RoBiRank, export_linear
    >>> model = RoBiRank(alpha=0.1).fit([[1.0, 0.0], [0.0, 0.0]], [1, 0])
    >>> document = export_linear(model, feature_names=["bm25", "age"])
    >>> document["class"]
    'org.apache.solr.ltr.model.LinearModel'
    >>> document["params"]["weights"]["age"]
    0.0
    """
    if format not in _FORMATS:
        raise ValueError(f"format must be one of {[*_FORMATS]}; got {format!r}")
    check_model_name(name)
    if feature_store is not None and format != "solr":
        raise ValueError(
            f"feature_store={feature_store!r} is for format='solr'; Elasticsearch is told the "
            "feature set by the address that the model is sent to"
        )
    steps = _steps(model) if hasattr(model, "steps") else [model]
    coef = _fold(steps)
    if not (np.abs(coef) <= np.finfo(np.float32).max).all():
        raise ValueError(
            "the weights must be finite in single precision, which search engines compute in; "
            f"the largest is {np.abs(coef).max():g}"
        )
    names = check_names(
        _seen_names(steps[0]) if feature_names is None else feature_names, len(coef)
    )
    weights = dict(zip(names, coef.tolist(), strict=True))
    document = _FORMATS[format](name, weights, feature_store)
    if path is not None:
        write_text(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return document


def _solr(name: str, weights: dict[str, float], feature_store: str | None) -> dict[str, Any]:
    return {
        "class": "org.apache.solr.ltr.model.LinearModel",
        "name": name,
        **({} if feature_store is None else {"store": feature_store}),
        "features": [{"name": feature} for feature in weights],
        "params": {"weights": weights},
    }


def _elasticsearch(name: str, weights: dict[str, float], _: str | None) -> dict[str, Any]:
    return {"model": {"name": name, "model": {"type": "model/linear", "definition": weights}}}


_FORMATS: dict[str, Callable[[str, dict[str, float], str | None], dict[str, Any]]] = {
    "solr": _solr,
    "elasticsearch": _elasticsearch,
}


def _steps(pipeline: Any) -> list[Any]:
    steps = [step for _, step in pipeline.steps] if hasattr(pipeline, "steps") else pipeline
    if isinstance(steps, BaseEstimator) or not isinstance(steps, list | tuple) or not len(steps):
        raise TypeError(
            "pipeline must be a fitted Pipeline or a pair (scaler, model); "
            f"got {type(pipeline).__name__}"
        )
    return [step for step in steps if step is not None and step != "passthrough"]


def _fold(steps: list[Any]) -> Floats64:
    """Return the weights of the last step for the features that the first step is given."""
    *scalers, model = steps
    coef = _coefficients(model)
    for scaler in reversed(scalers):
        coef = coef * _factors(scaler, len(coef))
    return coef


def _factors(scaler: Any, width: int) -> Floats64:
    """By how much the scaler multiplies each feature."""
    kind = type(scaler).__name__
    if kind not in ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler"):
        raise ValueError(
            f"cannot fold {kind} into the weights; StandardScaler, MinMaxScaler, MaxAbsScaler and "
            "RobustScaler can be folded"
        )
    check_is_fitted(scaler, "n_features_in_")
    if getattr(scaler, "clip", False):
        raise ValueError(f"cannot fold {kind}(clip=True) into the weights: clipping is not linear")
    if scaler.n_features_in_ != width:
        raise ValueError(
            f"{kind} was fitted with {scaler.n_features_in_} features, the step after it with "
            f"{width}; pass the scaler that the model was fitted after"
        )
    scale = getattr(scaler, "scale_", None)
    if scale is None:
        return np.ones(width)
    factors: Floats64 = np.asarray(scale, dtype=np.float64)
    return factors if kind == "MinMaxScaler" else 1.0 / factors


def _plain(model: LinearRanker, coef: Floats64, names: Any) -> LinearRanker:
    """Return a ranker with the parameters of the model and the given weights."""
    if isinstance(model, RoBiRankCV):
        plain: Any = model.with_alpha(model.alpha_)
    else:
        plain = type(model)(**model.get_params(deep=False))
    plain.coef_ = coef
    plain.n_features_in_ = len(coef)
    if names is not None:
        plain.feature_names_in_ = names
    for attribute in ("n_iter_", "loss_curve_"):
        if hasattr(model, attribute):
            setattr(plain, attribute, getattr(model, attribute))
    return plain


def _coefficients(model: Any) -> Floats64:
    if isinstance(model, Ranker) and not isinstance(model, LinearRanker):
        raise ValueError(
            f"a {type(model).__name__} has no weights to export: its scores are not linear in the "
            "features. export_model knows what can be written of each ranker"
        )
    check_is_fitted(model, "coef_")
    coef = model.coef_.toarray() if hasattr(model.coef_, "toarray") else np.asarray(model.coef_)
    if coef.ndim > 2 or (coef.ndim == 2 and coef.shape[0] != 1):
        raise ValueError(
            f"model.coef_ must be one row of weights, one for each feature; got shape {coef.shape}"
        )
    flat: Floats64 = np.ravel(coef).astype(np.float64)
    return flat


def _seen_names(step: Any) -> Any:
    return getattr(step, "feature_names_in_", getattr(step, "feature_names_", None))


def check_model_name(name: Any) -> None:
    """Raise an error unless a search engine can call a model so."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"name must be a non-empty string; got {name!r}")


def check_one_line(names: Sequence[str], where: str) -> None:
    """Raise an error where a name has a character that would break a format of lines."""
    bad = [n for n in names if any(category(c) in ("Cc", "Zl", "Zp") for c in n)]
    if bad:
        raise ValueError(
            f"feature_names must have no control characters in {where}; got {bad[0]!r}. "
            "Pass other feature_names"
        )


def check_names(given: Any, width: int) -> list[str]:
    """Check the engine's names of the features; f1, f2, … where none are given."""
    if given is None:
        return [f"f{j}" for j in range(1, width + 1)]
    names = [given] if isinstance(given, str) else list(given)
    if len(names) != width:
        raise ValueError(
            f"feature_names must name each of the {width} features; got {len(names)} names"
        )
    bad = [n for n in names if not isinstance(n, str) or not n.strip()]
    if bad:
        raise ValueError(f"feature_names must be strings that are not empty; got {bad[0]!r}")
    if len(set(names)) < width:
        twice = next(n for n in names if names.count(n) > 1)
        raise ValueError(f"feature_names must differ; {twice!r} occurs more than once")
    return names
