"""Linear rankers for search engines, as JSON; and the checks that all exports share."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal, cast
from unicodedata import category

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from robirank._checks import check_choice
from robirank._features import dense
from robirank._types import Floats64
from robirank.errors import Argument, ArgumentError
from robirank.ltr.base import LinearRanker, Ranker
from robirank.ltr.base import feature_names as names_of
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
    if isinstance(model, RoBiRankCV):
        folded: Any = model.with_alpha(model.alpha_)
    else:
        folded = type(model)(**model.get_params(deep=False))
    folded.coef_ = _fold(steps)
    folded.n_features_in_ = len(folded.coef_)
    attributes = {"feature_names_in_": steps[0], "n_iter_": model, "loss_curve_": model}
    for name, step in attributes.items():
        if hasattr(step, name):
            setattr(folded, name, getattr(step, name))
    return cast(LinearRanker, folded)


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
    feature_names, name, path, feature_store
        As in `export_model`.

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
    check_request(format, ("solr", "elasticsearch"), name, feature_store)
    steps = _steps(model) if hasattr(model, "steps") else [model]
    coef = _fold(steps)
    check_single("weight", coef)
    names = check_names(steps[0], feature_names)
    weights = dict(zip(names, coef.tolist(), strict=True))
    document: dict[str, Any] = {
        "model": {"name": name, "model": {"type": "model/linear", "definition": weights}}
    }
    if format == "solr":
        document = {
            "class": "org.apache.solr.ltr.model.LinearModel",
            "name": name,
            **({} if feature_store is None else {"store": feature_store}),
            "features": [{"name": feature} for feature in names],
            "params": {"weights": weights},
        }
    if path is not None:
        write_text(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return document


def _steps(pipeline: Any) -> list[Any]:
    steps = [step for _, step in pipeline.steps] if hasattr(pipeline, "steps") else pipeline
    if isinstance(steps, BaseEstimator) or not isinstance(steps, list | tuple) or not len(steps):
        raise TypeError(
            "pipeline must be a fitted Pipeline or a pair (scaler, model); "
            f"got {type(pipeline).__name__}"
        )
    return [step for step in steps if step is not None and step != "passthrough"]


def _fold(steps: list[Any]) -> Floats64:
    """The weights of the last step for the features that the first step is given."""
    *scalers, model = steps
    coef = _coefficients(model)
    for scaler in reversed(scalers):
        coef = coef * _factors(scaler, len(coef))
    return coef


def _factors(scaler: Any, width: int) -> Floats64:
    """The factor by which a scaler multiplies each feature."""
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
    factors = np.asarray(np.ones(width) if scale is None else scale, dtype=np.float64)
    return factors if kind == "MinMaxScaler" else 1.0 / factors


def _coefficients(model: Any) -> Floats64:
    if isinstance(model, Ranker) and not isinstance(model, LinearRanker):
        raise ValueError(
            f"a {type(model).__name__} has no weights to export: its scores are not linear in the "
            "features. export_model knows what can be written of each ranker"
        )
    check_is_fitted(model, "coef_")
    coef = np.asarray(dense(model.coef_), dtype=np.float64)
    if coef.ndim > 2 or (coef.ndim == 2 and coef.shape[0] != 1):
        raise ValueError(
            f"model.coef_ must be one row of weights, one for each feature; got shape {coef.shape}"
        )
    return np.ravel(coef)


def check_request(
    format: Any, formats: Iterable[str], name: Any, feature_store: str | None
) -> None:
    """Check the arguments that all exports to search engines share."""
    check_choice("format", format, formats)
    if not isinstance(name, str) or not name:
        raise ArgumentError("name", f"must be a non-empty string; got {name!r}")
    check_store(format, feature_store)


def check_store(format: str, feature_store: str | None) -> None:
    """Raise an error if a feature store is given for another format than Solr's."""
    if feature_store is not None and format != "solr":
        store = Argument("feature_store", feature_store)
        raise ArgumentError(store, "is for ", Argument("format", "solr"))


def check_single(what: str, values: Floats64) -> None:
    """Raise an error if a value is beyond the range of single precision."""
    most = float(np.finfo(np.float32).max)
    beyond = values[~(np.abs(values) <= most)]
    if len(beyond):
        raise ValueError(
            f"every {what} must be within single precision, ±{most:.3g}, which search engines and "
            f"ONNX compute in; one is {beyond[0]:g}. Scale the features; trees can also be written "
            "with format='lightgbm'"
        )


def check_names(model: Any, feature_names: Any) -> list[str]:
    """The engine's names of the features, checked; by default the model's own."""
    names = names_of(model) if feature_names is None else feature_names
    names = [names] if isinstance(names, str) else list(names)
    width = model.n_features_in_
    if len(names) != width:
        raise ArgumentError(
            "feature_names", f"must name each of the {width} features; got {len(names)} names"
        )
    bad = [n for n in names if not isinstance(n, str) or not n.strip()]
    if bad:
        raise ArgumentError("feature_names", f"must be strings that are not empty; got {bad[0]!r}")
    if len(set(names)) < width:
        twice = next(n for n in names if names.count(n) > 1)
        raise ArgumentError("feature_names", f"must differ; {twice!r} occurs more than once")
    return names


def check_one_line(names: Sequence[str], where: str) -> None:
    """Raise an error if a name has a character that would break a format of lines."""
    bad = [n for n in names if any(category(c) in ("Cc", "Zl", "Zp") for c in n)]
    if bad:
        raise ArgumentError(
            "feature_names",
            f"must have no control characters in {where}; got {bad[0]!r}. Pass other feature_names",
        )
