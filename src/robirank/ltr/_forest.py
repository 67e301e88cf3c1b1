"""Forests of regression trees as plain arrays, which need no library but NumPy to predict.

Arrays can be saved and loaded like any others, and `check_forest` finds out whether arrays
from a file are trees at all, so that a walk through them ends and never leaves them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from robirank._types import Floats64, Ints32
from robirank.ltr.base import ExplainedRanker
from robirank.ltr.explain import forest_effects
from robirank.storage.fitted_parts import FittedArray, FittedParts

_CELLS = 1 << 16  # rows × trees of one block; its few arrays stay in cache


@dataclass(frozen=True)
class Forest:
    """Binary trees, one behind the other, in arrays with an entry a node.

    Attributes
    ----------
    tree_offsets : int32 array of shape (n_trees + 1,)
        Tree t owns the nodes ``tree_offsets[t]:tree_offsets[t + 1]``; the first is its root.
    split_feature : int32 array of shape (n_nodes,)
        The feature an inner node asks for; −1 marks a leaf.
    threshold : float64 array of shape (n_nodes,)
        A document goes left if the feature is ≤ threshold; 0 in leaves.
    left_child : int32 array of shape (n_nodes,)
        The number of the left child, and the right one is its neighbour, ``left_child + 1``.
        A leaf is its own child.
    leaf_value : float64 array of shape (n_nodes,)
        What a leaf adds to the score; 0 in inner nodes.
    missing_left : int32 array of shape (n_nodes,), or None
        Whether (1) or not (0) a document goes left if the feature is missing (NaN). None: features
        are never missing.
    category_offsets : int32 array of shape (n_nodes + 1,), or None
        Node i has the categories ``categories[category_offsets[i]:category_offsets[i + 1]]``. An
        inner node that has some asks whether the feature is one of them: if so, a document goes
        left, and a missing or unknown category goes right. None: there are no such nodes.
    categories : int32 array, or None
        The categories, in rising order at each node.
    """

    tree_offsets: Ints32
    split_feature: Ints32
    threshold: Floats64
    left_child: Ints32
    leaf_value: Floats64
    missing_left: Ints32 | None = None
    category_offsets: Ints32 | None = None
    categories: Ints32 | None = None

    @property
    def asks_categories(self) -> bool:
        """Whether any node asks for a category."""
        return self.categories is not None and len(self.categories) > 0

    @property
    def n_trees(self) -> int:
        """The number of trees."""
        return len(self.tree_offsets) - 1

    def depth(self) -> int:
        """The most questions that a document is asked on the way to a leaf."""
        level, depth = self.tree_offsets[:-1], 0
        while True:
            inner = level[self.split_feature[level] >= 0]
            if not len(inner):
                return depth
            level = np.concatenate([self.left_child[inner], self.left_child[inner] + 1])
            depth += 1

    def sum(self, X: Any) -> Floats64:
        """Add up the values of the trees for each row of a dense or CSR matrix.

        All trees are walked at once, one level a step; the result for a row does not depend on
        the other rows.
        """
        feature = np.maximum(self.split_feature, 0).astype(np.intp)
        threshold = np.where(self.split_feature < 0, np.inf, self.threshold)
        left = self.left_child.astype(np.intp)
        roots = self.tree_offsets[:-1].astype(np.intp)
        depth = self.depth()
        scores = np.empty(X.shape[0])
        for rows, block in dense_blocks(X, max(1, _CELLS // self.n_trees)):
            first = (np.arange(len(block)) * block.shape[1])[:, None]
            values = block.ravel()
            node = np.tile(roots, (len(block), 1))
            special = self.asks_categories or bool(np.isnan(values).any())
            for _ in range(depth):
                asked = values.take(first + feature.take(node))
                right = asked > threshold.take(node)
                if special:
                    right = self._send_special(asked, node, right)
                node = left.take(node) + right
            scores[rows] = self.leaf_value.take(node).sum(axis=1)
        return scores

    def goes_left(self, row: Floats64) -> NDArray[np.bool_]:
        """Whether a document with these features goes left, for each node; leaves say yes."""
        asked = row[np.maximum(self.split_feature, 0)]
        right = (asked > self.threshold) & (self.split_feature >= 0)
        return ~self._send_special(asked, np.arange(len(right)), right)

    def _send_special(self, asked: Any, node: Any, right: Any) -> Any:
        """Correct the way of documents with missing values, and at nodes with categories."""
        inner = self.split_feature.take(node) >= 0
        if self.missing_left is not None:
            away = self.missing_left.take(node) == 0
            right = np.where(np.isnan(asked) & inner, away, right)
        if self.asks_categories:
            assert self.category_offsets is not None
            asks = inner & (np.diff(self.category_offsets).take(node) > 0)
            right[asks] = ~self._among_categories(asked[asks], node[asks])
        return right

    def _among_categories(self, asked: Any, node: Any) -> Any:
        """Whether each value is one of the categories of its node."""
        assert self.category_offsets is not None
        assert self.categories is not None
        width = int(self.categories.max()) + 1
        owner = np.repeat(np.arange(len(self.threshold)), np.diff(self.category_offsets))
        known = owner.astype(np.int64) * width + self.categories
        with np.errstate(invalid="ignore"):
            inside = (asked > -1) & (asked < width)  # not so where it is missing
        code = node * width + np.where(inside, asked, 0).astype(np.int64)
        place = np.minimum(np.searchsorted(known, code), len(known) - 1)
        return inside & (known[place] == code)


def dense_blocks(X: Any, n_rows: int) -> Iterator[tuple[slice, Floats64]]:
    """Give a dense or CSR matrix as dense float64 blocks of rows, with the rows they hold."""
    for start in range(0, X.shape[0], n_rows):
        rows = slice(start, min(start + n_rows, X.shape[0]))
        block = X[rows] if isinstance(X, np.ndarray) else X[rows].toarray()
        yield rows, np.ascontiguousarray(block, dtype=np.float64)


def join_forests(forests: Sequence[Forest]) -> Forest:
    """Put forests behind one another."""
    starts = np.cumsum([0, *(len(f.threshold) for f in forests)])
    shifted = list(zip(forests, starts[:-1], strict=True))
    return Forest(
        np.concatenate(
            [*(f.tree_offsets[:-1] + s for f, s in shifted), starts[-1:]], dtype=np.int32
        ),
        np.concatenate([f.split_feature for f in forests]),
        np.concatenate([f.threshold for f in forests]),
        np.concatenate([f.left_child + s for f, s in shifted], dtype=np.int32),
        np.concatenate([f.leaf_value for f in forests]),
        *_join_special(forests),
    )


def _join_special(forests: Sequence[Forest]) -> tuple[Ints32 | None, ...]:
    """Join what only some forests have: ways of missing values, categories."""
    missing, counts, categories = [], [], []
    for f in forests:
        if f.missing_left is None or f.category_offsets is None or f.categories is None:
            return None, None, None
        missing.append(f.missing_left)
        counts.append(np.diff(f.category_offsets))
        categories.append(f.categories)
    offsets = np.cumsum(np.concatenate([[0], *counts]), dtype=np.int32)
    return np.concatenate(missing), offsets, np.concatenate(categories)


def check_forest(forest: Forest, n_features: int) -> None:
    """Raise a ValueError unless the arrays are binary trees over that many features."""
    offsets, feature, left = forest.tree_offsets, forest.split_feature, forest.left_child
    n_nodes = len(feature)
    nodes = np.arange(n_nodes)
    if any(np.shape(a) != (n_nodes,) for a in (forest.threshold, left, forest.leaf_value)):
        raise ValueError("a forest must have one entry a node in each of its arrays")
    if any(a.ndim != 1 or a.dtype.kind != "i" for a in (offsets, feature, left)):
        raise ValueError("a forest must number its nodes and features by vectors of integers")
    if (
        len(offsets) < 2
        or offsets[0] != 0
        or offsets[-1] != n_nodes
        or (np.diff(offsets) < 1).any()
    ):
        raise ValueError(f"tree_offsets of a forest must rise from 0 to its {n_nodes} nodes")
    if (feature < -1).any() or (feature >= n_features).any():
        raise ValueError(f"a forest must ask for features 0 to {n_features - 1}, or −1 for a leaf")
    leaf = feature < 0
    if (left[leaf] != nodes[leaf]).any():
        raise ValueError("a leaf of a forest must be its own child")
    # Children behind their parents: no circles. Each child once: no two ways to a node.
    inner, first = nodes[~leaf], left[~leaf].astype(np.int64)
    tree_end = np.repeat(offsets[1:], np.diff(offsets))[inner]
    if (first <= inner).any() or (first + 1 >= tree_end).any():
        raise ValueError("children in a forest must stand behind their parent, in the same tree")
    children = np.concatenate([first, first + 1, offsets[:-1]])
    if len(children) != n_nodes or (np.bincount(children, minlength=n_nodes) != 1).any():
        raise ValueError("every node of a forest must be a root or the child of one node")
    if not (np.isfinite(forest.threshold).all() and np.isfinite(forest.leaf_value).all()):
        raise ValueError("thresholds and leaf values of a forest must be finite")
    _check_special(forest, leaf)


def _check_special(forest: Forest, leaf: Any) -> None:
    """Raise a ValueError unless missing values and categories have one way to go."""
    missing, offsets, categories = (
        forest.missing_left,
        forest.category_offsets,
        forest.categories,
    )
    if missing is not None and (missing.shape != leaf.shape or not np.isin(missing, (0, 1)).all()):
        raise ValueError("missing_left of a forest must be 0 or 1 for each node")
    if (offsets is None) != (categories is None):
        raise ValueError("a forest must have both category_offsets and categories, or neither")
    if offsets is None or categories is None:
        return
    counts = np.diff(offsets)
    if (
        offsets.shape != (len(leaf) + 1,)
        or offsets[0] != 0
        or offsets[-1] != len(categories)
        or (counts < 0).any()
        or counts[leaf].any()
    ):
        raise ValueError("category_offsets of a forest must count the categories of inner nodes")
    within = np.diff(np.repeat(np.arange(len(leaf)), counts)) == 0
    if (categories < 0).any() or (np.diff(categories)[within] <= 0).any():
        raise ValueError("categories of a node must rise from 0 or above")


_ARRAYS = ("tree_offsets_", "split_feature_", "threshold_", "left_child_", "leaf_value_")
_SPECIAL = ("missing_left_", "category_offsets_", "categories_")


class ForestRanker(ExplainedRanker):
    """A ranker whose score comes from a forest, which it keeps as arrays."""

    fitted_parts = FittedParts(
        {
            "tree_offsets_": FittedArray(("offsets",), "I32"),
            "split_feature_": FittedArray(("nodes",), "I32"),
            "threshold_": FittedArray(("nodes",)),
            "left_child_": FittedArray(("nodes",), "I32"),
            "leaf_value_": FittedArray(("nodes",)),
            "missing_left_": FittedArray(("nodes",), "I32"),
            "category_offsets_": FittedArray(("category_offsets",), "I32"),
            "categories_": FittedArray(("categories",), "I32"),
        },
        required=_ARRAYS,
        check=lambda fitted: check_forest(_forest_of(fitted), fitted["n_features_in_"]),
    )

    tree_offsets_: Ints32
    split_feature_: Ints32
    threshold_: Floats64
    left_child_: Ints32
    leaf_value_: Floats64
    missing_left_: Ints32
    category_offsets_: Ints32
    categories_: Ints32

    def predict(self, X: Any) -> Floats64:
        """Score documents by the forest; within a query, a higher score means a better place.

        Neither the training data nor LightGBM is needed.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows,)
        """
        X = self._check_predict(X)
        forest = self.forest()
        return self._combine(forest.sum(X), forest.n_trees)

    def _effects(self, a: Floats64, b: Floats64) -> Floats64:
        forest = self.forest()
        return self._combine(forest_effects(forest, a, b), forest.n_trees)

    def forest(self) -> Forest:
        """The trees, checked: a walk through anything else may not end."""
        check_is_fitted(self)
        forest = _forest_of(vars(self))
        check_forest(forest, self.n_features_in_)
        return forest

    def _combine(self, total: Floats64, n_trees: int) -> Floats64:  # noqa: ARG002
        """Make a score of the sum over trees."""
        return total

    def _keep(self, forest: Forest) -> None:
        for name in (*_ARRAYS, *_SPECIAL):
            array = getattr(forest, name.removesuffix("_"))
            if array is not None:
                setattr(self, name, array)


def _forest_of(fitted: Mapping[str, Any]) -> Forest:
    """The forest that fitted attributes make."""
    return Forest(*(fitted[name] for name in _ARRAYS), *(fitted.get(name) for name in _SPECIAL))
