"""Growing trees by LightGBM, which no other module imports, and which only a fit needs."""

from __future__ import annotations

from typing import Any

import numpy as np

from robirank._types import Floats64, Ints32
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


def tree_params(max_leaf_nodes: int, max_bins: int, seed: int) -> dict[str, Any]:
    """The parameters of LightGBM that all tree rankers share."""
    return {
        "num_leaves": int(max_leaf_nodes),
        "max_bin": int(max_bins),
        "min_data_in_bin": 1,
        "feature_pre_filter": False,
        "use_missing": False,  # features are finite: a split is x ≤ threshold, nothing else
        "metric": "none",
        "seed": seed,
        # One way to sum, in one order: the trees do not depend on the number of threads.
        "deterministic": True,
        "force_col_wise": True,
        "verbosity": -1,
    }


def read_forest(booster: Any, n_trees: int | None = None) -> Forest:
    """Read the first trees of a LightGBM booster (all by default)."""
    text = booster.model_to_string(num_iteration=-1 if n_trees is None else n_trees)
    _, *trees = text.partition("\nend of trees")[0].split("\nTree=")
    return join_forests([_read_tree(tree) for tree in trees])


def _read_tree(text: str) -> Forest:
    """Read a tree from its lines ``name=numbers``.

    LightGBM counts inner nodes 0, 1, … in the order of their making and leaves −1, −2, …. Here
    the root is node 0 and the children of inner node i are nodes 2i + 1 and 2i + 2.
    """
    lines = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    values = _numbers(lines, "leaf_value", np.float64)
    n_inner = len(values) - 1
    n_nodes = n_inner + len(values)
    place = np.zeros(n_nodes, dtype=np.int32)  # of the inner nodes, then of the leaves
    first_child = 2 * np.arange(n_inner, dtype=np.int32) + 1
    for side, name in enumerate(("left_child", "right_child")):
        child = _numbers(lines, name, np.int64)
        place[np.where(child >= 0, child, n_inner - 1 - child)] = first_child + side
    inner, leaves = place[:n_inner], place[n_inner:]
    feature = np.full(n_nodes, -1, dtype=np.int32)
    feature[inner] = _numbers(lines, "split_feature", np.int32)
    left = np.arange(n_nodes, dtype=np.int32)
    left[inner] = first_child
    leaf_value = np.zeros(n_nodes)
    leaf_value[leaves] = values
    threshold, *special = _read_splits(lines, inner, n_nodes)
    return Forest(
        np.array([0, n_nodes], dtype=np.int32), feature, threshold, left, leaf_value, *special
    )


def _numbers(lines: dict[str, str], name: str, dtype: Any) -> Any:
    return np.array(lines.get(name, "").split(), dtype=dtype)


def _read_splits(
    lines: dict[str, str], inner: Ints32, n_nodes: int
) -> tuple[Floats64, Ints32, Ints32, Ints32]:
    """For all nodes: thresholds, whether missing values go left, and categories with offsets.

    LightGBM's ``decision_type`` has bits: 0, whether the node splits by categories; 1, whether a
    missing value goes left; 2 and 3, what is missing: nothing (0; NaN then counts as 0) or NaN (2).
    The threshold of a node with categories is the number of its bit set, of 32-bit words.
    """
    kinds = _numbers(lines, "decision_type", np.int32)
    by_category = (kinds & 1).astype(bool)
    # A split into missing and all others is at infinity, where no feature is.
    splits = np.minimum(_numbers(lines, "threshold", np.float64), np.finfo(np.float64).max)
    threshold = np.zeros(n_nodes)
    threshold[inner] = np.where(by_category, 0.0, splits)
    missing_left = np.zeros(n_nodes, dtype=np.int32)
    missing_left[inner] = np.where(kinds >> 2 == 2, kinds >> 1 & 1, splits >= 0) & ~by_category
    words = _numbers(lines, "cat_threshold", "<u4")
    bounds = _numbers(lines, "cat_boundaries", np.int64)
    categories = [np.zeros(0, dtype=np.int32)] * n_nodes
    for node, number in zip(inner[by_category], splits[by_category].astype(int), strict=True):
        bytes_of_node = words[bounds[number] : bounds[number + 1]].view(np.uint8)
        bits = np.unpackbits(bytes_of_node, bitorder="little")
        categories[node] = np.flatnonzero(bits).astype(np.int32)
    offsets = np.cumsum([0, *map(len, categories)], dtype=np.int32)
    return threshold, missing_left, offsets, np.concatenate(categories)
