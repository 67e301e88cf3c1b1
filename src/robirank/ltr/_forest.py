"""Forests of regression trees as plain arrays, which need no library but NumPy to predict.

Arrays can be saved and loaded like any others, and `check_forest` finds out whether arrays
from a file are trees at all, so that a walk through them ends and never leaves them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robirank._types import Floats64, Ints32
from robirank.ltr.base import Ranker
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
    """

    tree_offsets: Ints32
    split_feature: Ints32
    threshold: Floats64
    left_child: Ints32
    leaf_value: Floats64

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
            for _ in range(depth):
                asked = values.take(first + feature.take(node))
                node = left.take(node) + (asked > threshold.take(node))
            scores[rows] = self.leaf_value.take(node).sum(axis=1)
        return scores


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
    )


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


_ARRAYS = ("tree_offsets_", "split_feature_", "threshold_", "left_child_", "leaf_value_")


class ForestRanker(Ranker):
    """A ranker whose score comes from a forest, which it keeps as arrays."""

    fitted_parts = FittedParts(
        {
            "tree_offsets_": FittedArray(("offsets",), "I32"),
            "split_feature_": FittedArray(("nodes",), "I32"),
            "threshold_": FittedArray(("nodes",)),
            "left_child_": FittedArray(("nodes",), "I32"),
            "leaf_value_": FittedArray(("nodes",)),
        },
        required=_ARRAYS,
        check=lambda fitted: check_forest(
            Forest(*(fitted[name] for name in _ARRAYS)), fitted["n_features_in_"]
        ),
    )

    tree_offsets_: Ints32
    split_feature_: Ints32
    threshold_: Floats64
    left_child_: Ints32
    leaf_value_: Floats64

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
        forest = Forest(*(getattr(self, name) for name in _ARRAYS))
        check_forest(forest, self.n_features_in_)  # a walk through anything else may not end
        return self._combine(forest.sum(X), forest.n_trees)

    def _combine(self, total: Floats64, n_trees: int) -> Floats64:  # noqa: ARG002
        """Make a score of the sum over trees."""
        return total

    def _keep(self, forest: Forest) -> None:
        self.tree_offsets_ = forest.tree_offsets
        self.split_feature_ = forest.split_feature
        self.threshold_ = forest.threshold
        self.left_child_ = forest.left_child
        self.leaf_value_ = forest.leaf_value
