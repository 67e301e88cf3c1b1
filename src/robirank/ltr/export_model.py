"""Rankers for other programs: one function for every kind of ranker and every format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from robirank._checks import check_choice
from robirank.ltr._forest import ForestRanker
from robirank.ltr.base import LinearRanker, Ranker
from robirank.ltr.export import check_store, export_linear
from robirank.ltr.export_onnx import export_onnx
from robirank.ltr.export_trees import export_trees

Format = Literal["solr", "elasticsearch", "ranklib", "lightgbm", "onnx"]


def export_model(
    model: Any,
    format: Format = "solr",
    *,
    feature_names: Sequence[str] | None = None,
    name: str = "robirank",
    path: str | os.PathLike[str] | None = None,
    feature_store: str | None = None,
) -> dict[str, Any] | str | bytes:
    """Write a ranker for another program: by `export_linear`, `export_trees` or `export_onnx`.

    Parameters
    ----------
    model : a fitted ranker, a Pipeline, or any fitted estimator with one row of ``coef_``
    format : {"solr", "elasticsearch", "ranklib", "lightgbm", "onnx"}, default="solr"
        Linear rankers can be written for Solr, for Elasticsearch and OpenSearch, and as ONNX; a
        Pipeline for search engines; trees in every format; networks as ONNX.
    feature_names : sequence of str, optional
        The engine's names of the features, in the order of the columns. By default those that the
        model was fitted or saved with, else f1, f2, …
    name : str, default="robirank"
        The name of the model in the search engine, or of the ONNX graph.
    path : str or path-like, optional
        Also write the model to this file.
    feature_store : str, optional
        For Solr: the feature store, if it is not the default one.

    Returns
    -------
    dict, str for LightGBM, or bytes for ONNX
        What the file holds.

    Examples
    --------
    >>> from robirank import MART, RoBiRank, export_model
    >>> X, y = [[0.0], [0.0], [1.0], [1.0]], [0, 0, 2, 2]
    >>> export_model(RoBiRank().fit(X, y))["class"]
    'org.apache.solr.ltr.model.LinearModel'
    >>> export_model(MART(1).fit(X, y))["class"]
    'org.apache.solr.ltr.model.MultipleAdditiveTreesModel'
    """
    check_choice("format", format, _formats(model), f" for a {type(model).__name__}")
    settings: Any = {"feature_names": feature_names, "name": name, "path": path}
    if format == "onnx":
        check_store(format, feature_store)
        return export_onnx(model, **settings)
    export: Any = export_trees if isinstance(model, ForestRanker) else export_linear
    return export(model, format, feature_store=feature_store, **settings)


def _formats(model: Any) -> tuple[str, ...]:
    """The formats that can hold such a model."""
    if isinstance(model, ForestRanker):
        return ("solr", "elasticsearch", "ranklib", "lightgbm", "onnx")
    if isinstance(model, LinearRanker):
        return ("solr", "elasticsearch", "onnx")
    return ("onnx",) if isinstance(model, Ranker) else ("solr", "elasticsearch")
