"""Tree rankers for search engines and other programs: Solr, Elasticsearch, LightGBM."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from robirank._types import Floats32
from robirank.errors import Argument, ArgumentError
from robirank.ltr._forest import Forest, ForestRanker
from robirank.ltr.export import check_names, check_one_line, check_request, check_single
from robirank.storage.files import write_text

Format = Literal["solr", "elasticsearch", "ranklib", "lightgbm"]


def export_trees(
    model: ForestRanker,
    format: Format = "solr",
    *,
    feature_names: Sequence[str] | None = None,
    name: str = "robirank",
    path: str | os.PathLike[str] | None = None,
    feature_store: str | None = None,
) -> dict[str, Any] | str:
    """Write a tree ranker in the format of a search engine, or as a model of LightGBM.

    Parameters
    ----------
    model : RoBiRankBooster, MART, LambdaMART or RandomForests
        Fitted.
    format : {"solr", "elasticsearch", "ranklib", "lightgbm"}, default="solr"
        ``solr`` is the ``MultipleAdditiveTreesModel`` of Solr's Learning To Rank module, to be PUT
        to ``schema/model-store``. ``elasticsearch`` is the ``model/xgboost+json`` and ``ranklib``
        the ``model/ranklib`` of the Learning to Rank plugin for Elasticsearch and OpenSearch, to be
        POSTed to ``_ltr/_featureset/<featureset>/_createmodel``; RankLib counts features from 1 in
        the order of the feature set. ``lightgbm`` is a text that ``lightgbm.Booster`` loads.
    feature_names, name, path, feature_store
        As in `export_model`.

    Returns
    -------
    dict, or str for LightGBM
        What the file holds.

    Notes
    -----
    Search engines compute in single precision; a model with numbers beyond it is an error. A
    threshold t is written as the largest float32 that is not above it, so that x ≤ t means the same
    for every float32 x. Solr and RankLib know no
    missing values: both take 0 for them, and so does the document that is ranked there. Only
    LightGBM's text can hold splits by categories.

    Examples
    --------
    >>> from robirank import MART, export_trees
    >>> model = MART(1, max_leaf_nodes=2).fit([[0.0], [0.0], [1.0], [1.0]], [0, 0, 2, 2])
    >>> tree = export_trees(model, feature_names=["bm25"])["params"]["trees"][0]
    >>> tree["root"]["feature"], tree["root"]["left"]["value"] < tree["root"]["right"]["value"]
    ('bm25', True)
    """
    check_request(format, _FORMATS, name, feature_store)
    if not isinstance(model, ForestRanker):
        raise TypeError(
            f"model must be a tree ranker; got {type(model).__name__}. "
            "export_model knows what can be written of each ranker"
        )
    forest = model.forest()
    if format != "lightgbm":
        check_forest_for(f"{Argument('format', format)}", forest)
    share = 1.0 / model.divisor(forest)
    document = _FORMATS[format](forest, share, check_names(model, feature_names), name)
    if feature_store is not None:
        assert isinstance(document, dict)
        document = {"store": feature_store, **document}
    if path is not None:
        text = document if isinstance(document, str) else _json(document) + "\n"
        write_text(path, text)
    return document


def _json(document: Any) -> str:
    return json.dumps(document, allow_nan=False)


def check_forest_for(what: str, forest: Forest) -> None:
    """Raise an error if a format of single precision, without categories, cannot hold a forest."""
    if forest.has_categories:
        raise ValueError(
            f"{what} cannot hold splits by categories; fit the model without "
            "categorical_features, or use format='lightgbm'"
        )
    # Missing values are split from all others by the largest double; the largest float32 will do.
    check_single("threshold", forest.threshold[forest.threshold < np.finfo(np.float64).max])
    check_single("leaf", forest.leaf_value)


def single_thresholds(forest: Forest) -> Floats32:
    """The largest float32 that is not above each threshold."""
    with np.errstate(over="ignore"):
        nearest = forest.threshold.astype(np.float32)
    nearest = np.clip(nearest, np.finfo(np.float32).min, np.finfo(np.float32).max)
    above = nearest.astype(np.float64) > forest.threshold
    return np.where(above, np.nextafter(nearest, np.float32(-np.inf)), nearest)


def _nested(forest: Forest, leaf: Callable[[int], Any], inner: Callable[..., Any]) -> Iterator[Any]:
    """Yield what ``leaf(node)`` and ``inner(node, left, right)`` make of each tree, bottom up."""
    done: dict[int, Any] = {}
    starts = forest.tree_offsets.tolist()
    for begin, end in pairwise(starts):
        for node in range(end - 1, begin - 1, -1):  # children stand behind their parents
            if forest.split_feature[node] < 0:
                done[node] = leaf(node)
            else:
                left = int(forest.left_child[node])
                done[node] = inner(node, done.pop(left), done.pop(left + 1))
        yield done.pop(begin)


def _solr(forest: Forest, share: float, names: list[str], name: str) -> dict[str, Any]:
    threshold = single_thresholds(forest)

    def inner(node: int, left: Any, right: Any) -> dict[str, Any]:
        return {
            "feature": names[forest.split_feature[node]],
            "threshold": float(threshold[node]),
            "left": left,
            "right": right,
        }

    roots = _nested(forest, lambda node: {"value": float(forest.leaf_value[node])}, inner)
    return {
        "class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel",
        "name": name,
        "features": [{"name": feature} for feature in names],
        "params": {"trees": [{"weight": share, "root": root} for root in roots]},
    }


def _elasticsearch(forest: Forest, share: float, names: list[str], name: str) -> dict[str, Any]:
    """XGBoost's JSON dump of trees, where a document goes left ("yes") if x < split_condition."""
    with np.errstate(over="ignore"):
        below = np.nextafter(single_thresholds(forest), np.float32(np.inf))
    below = np.minimum(below, np.finfo(np.float32).max)
    first = np.repeat(forest.tree_offsets[:-1], np.diff(forest.tree_offsets))

    def leaf(node: int) -> dict[str, Any]:
        value = float(np.float32(share * forest.leaf_value[node]))
        return {"nodeid": int(node - first[node]), "leaf": value}

    def inner(node: int, left: Any, right: Any) -> dict[str, Any]:
        return {
            "nodeid": int(node - first[node]),
            "split": names[forest.split_feature[node]],
            "split_condition": float(below[node]),
            "yes": left["nodeid"],
            "no": right["nodeid"],
            "missing": (left if forest.missing_left[node] else right)["nodeid"],
            "children": [left, right],
        }

    definition = _json(list(_nested(forest, leaf, inner)))
    model = {"type": "model/xgboost+json", "definition": definition}
    return {"model": {"name": name, "model": model}}


def _ranklib(forest: Forest, share: float, _: list[str], name: str) -> dict[str, Any]:
    threshold = single_thresholds(forest)

    def leaf(node: int) -> str:
        return f"<output>{float(np.float32(forest.leaf_value[node]))!r}</output>"

    def inner(node: int, left: str, right: str) -> str:
        return (
            f"<feature>{forest.split_feature[node] + 1}</feature>"
            f"<threshold>{float(threshold[node])!r}</threshold>"
            f'<split pos="left">{left}</split><split pos="right">{right}</split>'
        )

    trees = [
        f'<tree id="{number}" weight="{share!r}"><split>{root}</split></tree>'
        for number, root in enumerate(_nested(forest, leaf, inner), 1)
    ]
    definition = "\n".join(["## LambdaMART", "", "<ensemble>", *trees, "</ensemble>", ""])
    return {"model": {"name": name, "model": {"type": "model/ranklib", "definition": definition}}}


def _lightgbm(forest: Forest, share: float, names: list[str], _: str) -> str:
    head = [
        "tree",
        "version=v4",
        "num_class=1",
        "num_tree_per_iteration=1",
        "label_index=0",
        f"max_feature_idx={len(names) - 1}",
        "objective=custom",
        "feature_names=" + " ".join(_lightgbm_names(names)),
        "feature_infos=" + " ".join(["[-inf:inf]"] * len(names)),
        "",
    ]
    trees = [_lightgbm_tree(forest, share, number) for number in range(forest.n_trees)]
    return "\n".join([*head, *trees, "end of trees", ""])


def _lightgbm_names(names: list[str]) -> list[str]:
    """The names as LightGBM writes them, with underscores for blanks."""
    check_one_line(names, "LightGBM's text")
    renamed: dict[str, str] = {}
    for name in names:
        other = renamed.setdefault(name.replace(" ", "_"), name)
        if other != name:
            raise ArgumentError(
                "feature_names",
                "must differ once blanks are underscores, as in LightGBM; "
                f"got {other!r} and {name!r}",
            )
    return list(renamed)


def _lightgbm_tree(forest: Forest, share: float, number: int) -> str:
    """A tree in LightGBM's text format, which `robirank.ltr._lightgbm` reads."""
    nodes = np.arange(forest.tree_offsets[number], forest.tree_offsets[number + 1])
    inner = nodes[forest.split_feature[nodes] >= 0]
    leaves = nodes[forest.split_feature[nodes] < 0]
    place = {int(node): i for i, node in enumerate(inner)}
    place |= {int(node): -1 - i for i, node in enumerate(leaves)}
    left = forest.left_child[inner]
    thresholds, kinds, words = [], [], []
    bounds = [0]
    for node in inner.tolist():
        mask = _category_words(forest, node)
        if mask:
            thresholds.append(str(len(bounds) - 1))
            kinds.append(1)
            words += mask
            bounds.append(len(words))
        else:
            thresholds.append(repr(float(forest.threshold[node])))
            kinds.append(8 + 2 * int(forest.missing_left[node]))
    values = share * forest.leaf_value[leaves]
    lines = {
        "num_leaves": [len(leaves)],
        "num_cat": [len(bounds) - 1],
        "split_feature": forest.split_feature[inner].tolist(),
        "split_gain": [0] * len(inner),
        "threshold": thresholds,
        "decision_type": kinds,
        "left_child": [place[int(child)] for child in left],
        "right_child": [place[int(child) + 1] for child in left],
        "leaf_value": [repr(float(value)) for value in values],
        "leaf_weight": [0] * len(leaves),
        "leaf_count": [0] * len(leaves),
        "internal_value": [0] * len(inner),
        "internal_weight": [0] * len(inner),
        "internal_count": [0] * len(inner),
    }
    if words:
        lines |= {"cat_boundaries": bounds, "cat_threshold": words}
    lines |= {"is_linear": [0], "shrinkage": [1]}
    text = [f"{key}={' '.join(map(str, entries))}" for key, entries in lines.items()]
    return "\n".join([f"Tree={number}", *text, "", ""])


def _category_words(forest: Forest, node: int) -> list[int]:
    """The categories of a node as a set of bits in 32-bit words; empty for a node without."""
    begin, end = forest.category_offsets[node : node + 2]
    chosen = forest.categories[begin:end]
    if not len(chosen):
        return []
    bits = np.zeros((int(chosen.max()) // 32 + 1) * 32, dtype=np.uint8)
    bits[chosen] = 1
    return [int(word) for word in np.packbits(bits, bitorder="little").view("<u4")]


_FORMATS: dict[str, Callable[[Forest, float, list[str], str], dict[str, Any] | str]] = {
    "solr": _solr,
    "elasticsearch": _elasticsearch,
    "ranklib": _ranklib,
    "lightgbm": _lightgbm,
}
