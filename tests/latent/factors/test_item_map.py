"""Maps of items: two directions, and neighbours that stay together."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import robirank as rr
from robirank.latent.factors.item_map import ItemMap, map_of_directions, map_of_neighbours
from robirank.storage.tensor_file import ModelFileError


def clouds(n=120, d=8, seed=0):
    """Rows in three clouds, and the cloud of each."""
    rng = np.random.default_rng(seed)
    which = np.arange(n) % 3
    return (4 * np.eye(d)[which] + 0.4 * rng.normal(size=(n, d))).astype(np.float32), which


def purity(points, which):
    """How many of the 5 nearest points are of the same cloud."""
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    nearest = np.argsort(apart, axis=1)[:, 1:6]
    return (which[nearest] == which[:, None]).mean()


def test_directions_are_the_leading_ones_whatever_the_lengths():
    rows, _ = clouds()
    lengths = np.random.default_rng(1).uniform(0.1, 9, (len(rows), 1)).astype(np.float32)
    found, scaled = map_of_directions(rows), map_of_directions(rows * lengths)
    np.testing.assert_allclose(found.points, scaled.points, atol=1e-5)
    W = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    W = (W - W.mean(axis=0)).astype(np.float64)
    _, sizes, axes = np.linalg.svd(W, full_matrices=False)
    np.testing.assert_allclose(np.abs(found.points), np.abs(W @ axes[:2].T), atol=1e-5)
    assert found.share == pytest.approx((sizes[:2] ** 2).sum() / (sizes**2).sum(), rel=1e-5)


@pytest.mark.parametrize("rows", [np.zeros((4, 3)), np.ones((1, 2)), np.ones((3, 1))])
def test_rows_without_a_direction_have_a_point_too(rows):
    found = map_of_directions(rows)
    assert found.points.shape == (len(rows), 2)
    assert np.isfinite(found.points).all()


def test_neighbours_stay_together_also_those_that_are_placed_last():
    rows, which = clouds()
    for most in (len(rows), 60):
        found = map_of_neighbours(rows, np.arange(len(rows)), most=most)
        assert purity(found.points, which) > 0.95


def test_equal_arguments_give_equal_bits_for_any_number_of_threads():
    rows, _ = clouds()
    first = map_of_neighbours(rows, most=80).points
    with threadpool_limits(limits=1):
        again = map_of_neighbours(rows, most=80).points
    assert first.tobytes() == again.tobytes()


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_a_few_items_have_a_map(n):
    assert np.isfinite(map_of_neighbours(clouds(n)[0]).points).all()


def test_a_map_is_saved_and_a_model_is_none(tmp_path):
    rows, _ = clouds()
    path = tmp_path / "items.map"
    ItemMap(map_of_directions(rows).points, "directions", 0.5, "abc").save(path)
    loaded = ItemMap.load(path)
    assert (loaded.kind, loaded.share, loaded.model) == ("directions", 0.5, "abc")
    np.testing.assert_array_equal(loaded.points, map_of_directions(rows).points)
    rr.LatentRoBiRank(2).save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="robirank latent map"):
        ItemMap.load(tmp_path / "model")
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ModelFileError, match="damaged"):
        ItemMap.load(path)
