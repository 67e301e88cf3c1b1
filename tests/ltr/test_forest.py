"""Forests as arrays: what they predict, and which arrays are no forest."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from robirank.ltr._forest import Forest, check_forest, join_forests


def forest(offsets, feature, threshold, left, value):
    return Forest(
        np.array(offsets, dtype=np.int32),
        np.array(feature, dtype=np.int32),
        np.array(threshold, dtype=np.float64),
        np.array(left, dtype=np.int32),
        np.array(value, dtype=np.float64),
        np.ones(len(value), dtype=np.int32),
        np.zeros(len(value) + 1, dtype=np.int32),
        np.zeros(0, dtype=np.int32),
    )


# x0 ≤ 1 ? 10 : (x1 ≤ −2 ? 20 : 30), then a constant 0.5.
TWO_TREES = forest(
    [0, 5, 6],
    [0, -1, 1, -1, -1, -1],
    [1.0, 0, -2.0, 0, 0, 0],
    [1, 1, 3, 3, 4, 5],
    [0, 10.0, 0, 20.0, 30.0, 0.5],
)


def test_scores_by_hand():
    X = np.array([[0, 0], [1, 9], [1.5, -2], [1.5, -1.9], [1.5, -2.1]])
    check_forest(TWO_TREES, 2)
    assert TWO_TREES.sum(X).tolist() == [10.5, 10.5, 20.5, 30.5, 20.5]
    assert (TWO_TREES.n_trees, TWO_TREES.depth()) == (2, 2)


def random_tree(rng, n_inner, n_features):
    """A tree grown by splitting random leaves; children of the i-th split are 2i+1 and 2i+2."""
    n = 2 * n_inner + 1
    feature, left = np.full(n, -1), np.arange(n)
    leaves = [0]
    for i in range(n_inner):
        node = leaves.pop(rng.integers(len(leaves)))
        feature[node], left[node] = rng.integers(n_features), 2 * i + 1
        leaves += [2 * i + 1, 2 * i + 2]
    inner = feature >= 0
    threshold = np.where(inner, rng.integers(-2, 3, n), 0)
    return forest([0, n], feature, threshold, left, np.where(inner, 0, rng.standard_normal(n)))


def walk(tree, x):
    node = 0
    while tree.split_feature[node] >= 0:
        right = x[tree.split_feature[node]] > tree.threshold[node]
        node = tree.left_child[node] + right
    return tree.leaf_value[node]


@pytest.fixture(scope="module")
def grown():
    rng = np.random.default_rng(0)
    trees = [random_tree(rng, n_inner, 4) for n_inner in (0, 1, 5, 30, 99)]
    X = rng.integers(-3, 4, (300, 4)).astype(np.float32)  # many values meet a threshold exactly
    return trees, X


def test_all_trees_at_once_are_walked_as_one_by_one(grown):
    trees, X = grown
    joined = join_forests(trees)
    check_forest(joined, 4)
    assert_allclose(joined.sum(X), [sum(walk(t, x) for t in trees) for x in X], rtol=1e-12)
    assert joined.depth() == max(t.depth() for t in trees)


def test_a_row_scores_the_same_alone_and_in_company(grown, monkeypatch):
    joined, X = join_forests(grown[0]), grown[1]
    together = joined.sum(X)
    assert_array_equal(np.concatenate([joined.sum(x[None]) for x in X]), together)
    monkeypatch.setattr("robirank.ltr._forest._CELLS", 37)
    assert_array_equal(joined.sum(X), together)


def test_sparse_rows_score_as_dense_ones(grown):
    joined, X = join_forests(grown[0]), grown[1]
    assert_array_equal(joined.sum(sp.csr_matrix(X)), joined.sum(X))


def changed(name, index, value):
    array = getattr(TWO_TREES, name).copy()
    array[index] = value
    return replace(TWO_TREES, **{name: array})


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (changed("left_child", 2, 0), "behind their parent"),
        (changed("left_child", 2, 2), "behind their parent"),
        (changed("left_child", 2, 4), "in the same tree"),
        (changed("left_child", 2, 2**31 - 1), "in the same tree"),
        (changed("left_child", 0, 3), "child of one node"),
        (changed("left_child", 1, 2), "own child"),
        (changed("left_child", 1, -9), "own child"),
        (changed("split_feature", 0, 2), "features 0 to 1"),
        (changed("split_feature", 0, -2), "features 0 to 1"),
        (changed("split_feature", 0, -1), "own child"),
        (changed("tree_offsets", 0, 1), "rise from 0 to its 6 nodes"),
        (changed("tree_offsets", 1, 0), "rise from 0"),
        (changed("tree_offsets", 2, 7), "rise from 0"),
        (changed("threshold", 0, np.nan), "finite"),
        (changed("leaf_value", 1, np.inf), "finite"),
        (replace(TWO_TREES, threshold=np.zeros(5)), "one entry a node"),
        (replace(TWO_TREES, left_child=np.zeros((6, 1), dtype=int)), "one entry a node"),
        (replace(TWO_TREES, left_child=np.zeros(6)), "integers"),
        (replace(TWO_TREES, tree_offsets=np.array([0], dtype=np.int32)), "rise from 0"),
        (forest([0], [], [], [], []), "rise from 0"),
    ],
)
def test_arrays_that_are_no_forest_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        check_forest(bad, 2)
