"""Forests of regression trees as plain arrays, which need no library but NumPy to predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from robirank._features import dense_chunks
from robirank._types import Floats64, Ints32
from robirank.ltr.base import ExplainedRanker
from robirank.ltr.explain import forest_effects
from robirank.storage.fitted_parts import FittedArray, FittedParts

_CELLS = 1 << 16  # rows × trees that are walked at once; the arrays for so many stay in cache


@dataclass(frozen=True)
class Forest:
    """Binary trees, one behind the other, in arrays with an entry a node.

    Attributes
    ----------
    tree_offsets : int32 array of shape (n_trees + 1,)
        Tree t owns the nodes ``tree_offsets[t]:tree_offsets[t + 1]``; the first is its root.
    split_feature : int32 array of shape (n_nodes,)
        The feature by which an inner node splits; −1 marks a leaf.
    threshold : float64 array of shape (n_nodes,)
        A document goes left if the feature is ≤ threshold; 0 in leaves.
    left_child : int32 array of shape (n_nodes,)
        The number of the left child, and the right one is its neighbour, ``left_child + 1``.
        A leaf is its own child.
    leaf_value : float64 array of shape (n_nodes,)
        What a leaf adds to the score; 0 in inner nodes.
    missing_left : int32 array of shape (n_nodes,)
        Whether (1) or not (0) a document goes left if the feature is missing (NaN).
    category_offsets : int32 array of shape (n_nodes + 1,)
        Node i has the categories ``categories[category_offsets[i]:category_offsets[i + 1]]``. An
        inner node that has some sends documents left whose feature is one of them, and all others
        right, also those with a missing or unknown category.
    categories : int32 array
        The categories, in rising order at each node.
    """

    tree_offsets: Ints32
    split_feature: Ints32
    threshold: Floats64
    left_child: Ints32
    leaf_value: Floats64
    missing_left: Ints32
    category_offsets: Ints32
    categories: Ints32

    @property
    def has_categories(self) -> bool:
        """Whether any node splits by categories."""
        return len(self.categories) > 0

    @property
    def n_trees(self) -> int:
        """The number of trees."""
        return len(self.tree_offsets) - 1

    def depth(self) -> int:
        """The most splits on the way from a root to a leaf."""
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
        for rows, chunk in dense_chunks(X, max(1, _CELLS // self.n_trees)):
            first = (np.arange(len(chunk)) * chunk.shape[1])[:, None]
            values = chunk.ravel()
            node = np.tile(roots, (len(chunk), 1))
            by_threshold = not self.has_categories and not np.isnan(values).any()
            for _ in range(depth):
                value = values.take(first + feature.take(node))
                right = value > threshold.take(node)
                if not by_threshold:
                    right = self._correct(value, node, right)
                node = left.take(node) + right
            scores[rows] = self.leaf_value.take(node).sum(axis=1)
        return scores

    def goes_left(self, row: Floats64) -> NDArray[np.bool_]:
        """Whether a document with these features goes left, for each node; True in leaves."""
        value = row[np.maximum(self.split_feature, 0)]
        right = (value > self.threshold) & (self.split_feature >= 0)
        return ~self._correct(value, np.arange(len(right)), right)

    def _correct(self, value: Any, node: Any, right: Any) -> Any:
        """Correct which documents go right: missing values, and nodes that split by categories."""
        inner = self.split_feature.take(node) >= 0
        right = np.where(np.isnan(value) & inner, self.missing_left.take(node) == 0, right)
        if self.has_categories:
            by_category = inner & (np.diff(self.category_offsets).take(node) > 0)
            right[by_category] = ~self._is_category(value[by_category], node[by_category])
        return right

    def _is_category(self, value: Any, node: Any) -> Any:
        """Whether each value is one of the categories of its node."""
        width = int(self.categories.max()) + 1
        owner = np.repeat(np.arange(len(self.threshold)), np.diff(self.category_offsets))
        # Node and category in one number, rising, for a binary search.
        categories = owner.astype(np.int64) * width + self.categories
        with np.errstate(invalid="ignore"):
            inside = (value > -1) & (value < width)  # False where it is missing
        code = node * width + np.where(inside, value, 0).astype(np.int64)
        place = np.minimum(np.searchsorted(categories, code), len(categories) - 1)
        return inside & (categories[place] == code)


def join_forests(forests: Sequence[Forest]) -> Forest:
    """Put forests behind one another."""
    nodes = np.cumsum([0, *(len(f.threshold) for f in forests)])
    categories = np.cumsum([0, *(len(f.categories) for f in forests)])
    shifts = {"tree_offsets": nodes, "left_child": nodes, "category_offsets": categories}

    def joined(name: str) -> Any:
        parts = [getattr(f, name) for f in forests]
        if name in shifts:
            parts = [part + n for part, n in zip(parts, shifts[name], strict=False)]
        if name.endswith("offsets"):
            parts = [parts[0], *(part[1:] for part in parts[1:])]
        return np.concatenate(parts, dtype=getattr(forests[0], name).dtype)

    return Forest(*(joined(field.name) for field in fields(Forest)))


def check_forest(forest: Forest, n_features: int) -> None:
    """Raise a ValueError unless the arrays are binary trees, so that walks through them end."""
    offsets, feature, left = forest.tree_offsets, forest.split_feature, forest.left_child
    n_nodes = len(feature)
    nodes = np.arange(n_nodes)
    if any(np.shape(a) != (n_nodes,) for a in (forest.threshold, left, forest.leaf_value)):
        raise ValueError("a forest must have one entry a node in each of its arrays")
    if any(a.ndim != 1 or a.dtype.kind != "i" for a in (offsets, feature, left)):
        raise ValueError("a forest must number its nodes and features by vectors of integers")
    if len(offsets) < 2 or not _are_offsets(offsets, n_nodes) or (np.diff(offsets) < 1).any():
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


def _are_offsets(offsets: Ints32, total: int) -> bool:
    """Whether offsets begin at 0, never fall, and end at the total."""
    return bool(offsets[0] == 0 and offsets[-1] == total and (np.diff(offsets) >= 0).all())


def _check_special(forest: Forest, leaf: NDArray[np.bool_]) -> None:
    """Raise a ValueError unless the arrays for missing values and categories are valid."""
    missing, offsets, categories = forest.missing_left, forest.category_offsets, forest.categories
    if missing.shape != leaf.shape or not np.isin(missing, (0, 1)).all():
        raise ValueError("missing_left of a forest must be 0 or 1 for each node")
    if (
        offsets.shape != (len(leaf) + 1,)
        or not _are_offsets(offsets, len(categories))
        or np.diff(offsets)[leaf].any()
    ):
        raise ValueError("category_offsets of a forest must count the categories of inner nodes")
    within = np.diff(np.repeat(np.arange(len(leaf)), np.diff(offsets))) == 0
    if (categories < 0).any() or (np.diff(categories)[within] <= 0).any():
        raise ValueError("categories of a node must rise from 0 or above")


class ForestRanker(ExplainedRanker):
    """A ranker whose score comes from a forest, which it keeps as arrays."""

    fitted_parts = FittedParts(
        {
            "tree_offsets_": FittedArray(("offsets",), "I32"),
            "split_feature_": FittedArray(("nodes",), "I32"),
            "threshold_": FittedArray(("nodes",)),
            "left_child_": FittedArray(("nodes",), "I32"),
            "leaf_value_": FittedArray(("nodes",)),
        },
        required=("tree_offsets_", "split_feature_", "threshold_", "left_child_", "leaf_value_"),
        check=lambda fitted: check_forest(_forest_of(fitted), fitted["n_features_in_"]),
    )

    #: Whether the score is the mean over trees, in place of their sum.
    averages: ClassVar[bool] = False

    def _scores(self, X: Any) -> Floats64:
        forest = self.forest()
        return forest.sum(X) / self.divisor(forest)

    def _effects(self, a: Floats64, b: Floats64) -> Floats64:
        forest = self.forest()
        return forest_effects(forest, a, b) / self.divisor(forest)

    def divisor(self, forest: Forest) -> int:
        """What the sum over trees is divided by."""
        return forest.n_trees if self.averages else 1

    def forest(self) -> Forest:
        """The trees, checked: a walk through anything else may not end."""
        check_is_fitted(self)
        forest = _forest_of(vars(self))
        check_forest(forest, self.n_features_in_)
        return forest

    def _keep(self, forest: Forest) -> None:
        """Keep those arrays of a forest that belong to the fitted parts of this class."""
        for field in fields(Forest):
            if f"{field.name}_" in self.fitted_parts.arrays:
                setattr(self, f"{field.name}_", getattr(forest, field.name))


def _forest_of(fitted: Mapping[str, Any]) -> Forest:
    """The forest that fitted attributes make; missing values go left where nothing is said."""
    n_nodes = len(fitted["threshold_"])
    arrays = {
        "missing_left_": np.ones(n_nodes, dtype=np.int32),
        "category_offsets_": np.zeros(n_nodes + 1, dtype=np.int32),
        "categories_": np.zeros(0, dtype=np.int32),
        **fitted,
    }
    return Forest(*(arrays[f"{field.name}_"] for field in fields(Forest)))
