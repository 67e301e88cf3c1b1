"""Growing trees by LightGBM: the one place that knows it.

LightGBM is imported when a tree ranker is fitted. What it grew is read into a `Forest`, so that
predicting, saving and loading do without it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from robirank._threads import threads_for_cells
from robirank._types import Ints32
from robirank.ltr._forest import Forest, join_forests


def import_lightgbm() -> Any:
    """Import LightGBM, or say how to get it."""
    try:
        import lightgbm
    except ImportError as error:
        raise ImportError(
            "RoBiRankBooster, MART, LambdaMART and RandomForests are trained by LightGBM, which is "
            "not installed: pip install 'robirank[trees]'"
        ) from error
    return lightgbm


def tree_params(*, max_leaf_nodes: int, max_bins: int, seed: int) -> dict[str, Any]:
    """Return the parameters of LightGBM that all tree rankers share."""
    return {
        "num_leaves": int(max_leaf_nodes),
        "max_bin": int(max_bins),
        "min_data_in_bin": 1,
        "feature_pre_filter": False,
        "use_missing": False,  # features are finite: a question is x ≤ threshold, nothing else
        "metric": "none",
        "seed": seed,
        # One way to sum, in one order: the trees do not depend on the number of threads.
        "deterministic": True,
        "force_col_wise": True,
        "verbosity": -1,
    }


def tree_threads(X: Any, num_threads: int) -> dict[str, Any]:
    """Return the parameter that says how many threads grow a tree from such features.

    LightGBM hands out work several times a split, and each time waits for the slowest thread.
    """
    return {"num_threads": threads_for_cells(X.size, num_threads)}


def read_forest(booster: Any, n_trees: int | None = None, *, special: bool = False) -> Forest:
    """Read the first trees of a LightGBM booster (all by default).

    With ``special``, the ways of missing values and the categories are read too.
    """
    text = booster.model_to_string(num_iteration=-1 if n_trees is None else n_trees)
    _, *trees = text.partition("\nend of trees")[0].split("\nTree=")
    return join_forests([_read_tree(tree, special) for tree in trees])


def _read_tree(text: str, special: bool) -> Forest:
    """Read a tree from its lines ``name=numbers``.

    LightGBM counts inner nodes 0, 1, … in the order of their making and leaves −1, −2, …. Here
    the root is node 0 and the children of inner node i are nodes 2i + 1 and 2i + 2.
    """
    lines = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    values = np.array(lines["leaf_value"].split(), dtype=np.float64)
    n_leaves, n_inner = len(values), len(values) - 1
    n_nodes = n_leaves + n_inner
    place = np.zeros(n_nodes, dtype=np.int32)  # of the inner nodes, then of the leaves
    first_child = 2 * np.arange(n_inner, dtype=np.int32) + 1
    for side, name in enumerate(("left_child", "right_child")):
        child = np.array(lines[name].split() if n_inner else [], dtype=np.int64)
        place[np.where(child >= 0, child, n_inner - 1 - child)] = first_child + side
    inner, leaves = place[:n_inner], place[n_inner:]
    feature = np.full(n_nodes, -1, dtype=np.int32)
    threshold, leaf_value = np.zeros(n_nodes), np.zeros(n_nodes)
    left = np.arange(n_nodes, dtype=np.int32)
    leaf_value[leaves] = values
    if n_inner:
        feature[inner] = np.array(lines["split_feature"].split(), dtype=np.int32)
        threshold[inner] = np.array(lines["threshold"].split(), dtype=np.float64)
        left[inner] = first_child
    forest = Forest(np.array([0, n_nodes], dtype=np.int32), feature, threshold, left, leaf_value)
    return _read_special(forest, lines, inner) if special else forest


def _read_special(forest: Forest, lines: dict[str, str], inner: Ints32) -> Forest:
    """Add the ways of missing values and the categories of a tree.

    LightGBM's ``decision_type`` has bits: 0, whether the node asks for categories; 1, whether a
    missing value goes left; 2 and 3, what is missing: nothing (0; NaN then counts as 0) or NaN (2).
    The threshold of a node with categories is the number of its set of bits, 32 to a word.
    """
    # A split into missing and all others is at infinity, where no feature is.
    threshold = np.minimum(forest.threshold, np.finfo(np.float64).max)
    missing_left = np.zeros(len(threshold), dtype=np.int32)
    members: list[list[int]] = [[] for _ in threshold]
    kinds = np.array(lines["decision_type"].split() if len(inner) else [], dtype=np.int32)
    words = np.array(lines.get("cat_threshold", "").split(), dtype=np.uint32)
    bounds = np.array(lines.get("cat_boundaries", "").split(), dtype=np.int64)
    for node, kind in zip(inner.tolist(), kinds.tolist(), strict=True):
        if kind & 1:
            number = int(threshold[node])
            bits = words[bounds[number] : bounds[number + 1]].astype("<u4").view(np.uint8)
            members[node] = np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist()
            threshold[node] = 0.0
        else:
            missing_left[node] = kind >> 1 & 1 if kind >> 2 == 2 else threshold[node] >= 0
    counts = [len(found) for found in members]
    return replace(
        forest,
        threshold=threshold,
        missing_left=missing_left,
        category_offsets=np.cumsum([0, *counts], dtype=np.int32),
        categories=np.array([c for found in members for c in found], dtype=np.int32),
    )
