"""A fit with features on a cluster has the bits of one on threads, whatever is lost on the way."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import robirank as rr
from engine.clusters import PARTS, SETTINGS, Disturbance, kill_worker, on_ray, same_factors

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def features(data):
    """Features of both sides, with three items and two users that have no interaction."""
    rng = np.random.default_rng(0)
    items = [*data.items[:], 1001, 1002, 1003]
    users = [*data.users[:], "new a", "new b"]
    return {
        "item_features": rr.Features.from_frame(
            {"id": items, "kind": [f"k{n % 5}" for n in range(len(items))]}
        ),
        "user_features": rr.Features.from_frame({"id": users, "age": rng.random(len(users))}),
    }


@pytest.fixture(scope="module")
def here(data, features):
    model = rr.LatentRoBiRank(parts=PARTS, **SETTINGS)
    return model.fit(data, show_progress=False, **features)


def same_model(model, expected):
    same_factors(model, expected)
    for side in ("user_centres_", "item_centres_"):
        assert_array_equal(getattr(model, side).weights, getattr(expected, side).weights)
    assert model.item_ids_ == expected.item_ids_
    assert model.regularization_ == expected.regularization_


def test_workers_change_no_bit(ray_cluster, data, features, here, tmp_path):
    model = on_ray(tmp_path).set_params(parts=PARTS).fit(data, show_progress=False, **features)
    same_model(model, here)
    asked = model.recommend("new a", N=5, filter_already_liked_items=False)
    expected = here.recommend("new a", N=5, filter_already_liked_items=False)
    assert asked[0].tolist() == expected[0].tolist()


def test_partitions_and_warp(ray_cluster, data, features, partitions):
    settings = {"factors": 4, "iterations": 2, "random_state": 1, "parts": PARTS}
    expected = rr.WARP(**settings).fit(data, show_progress=False, **features)
    model = rr.WARP(engine="ray", **settings).fit(partitions, show_progress=False, **features)
    same_model(model, expected)


@pytest.mark.parametrize("seconds", [1e-6, 1000])
def test_a_worker_is_killed(ray_cluster, data, features, here, tmp_path, monkeypatch, seconds):
    disturbance = Disturbance(monkeypatch, "sweep", [3, 10], kill_worker)
    model = on_ray(tmp_path, checkpoint_seconds=seconds).set_params(parts=PARTS)
    with pytest.warns(RuntimeWarning, match="workers were lost"):
        model.fit(data, show_progress=False, **features)
    assert not disturbance.left
    same_model(model, here)


def test_an_interrupted_run_goes_on(ray_cluster, data, features, here, tmp_path, monkeypatch):
    def give_up(engine):
        raise KeyError("gave up")

    Disturbance(monkeypatch, "sweep", [7], give_up)
    with pytest.raises(KeyError, match="gave up"):
        on_ray(tmp_path).set_params(parts=PARTS).fit(data, show_progress=False, **features)
    model = on_ray(tmp_path).set_params(parts=PARTS)
    model.fit(data, show_progress=False, resume=True, **features)
    same_model(model, here)


def test_a_resumed_run_needs_its_centres(ray_cluster, data, features, tmp_path, monkeypatch):
    def give_up(engine):
        raise KeyError("gave up")

    Disturbance(monkeypatch, "sweep", [7], give_up)
    with pytest.raises(KeyError, match="gave up"):
        on_ray(tmp_path).set_params(parts=PARTS).fit(data, show_progress=False, **features)
    for path in (tmp_path / "centres").glob("*.json"):
        path.unlink()
    with pytest.raises(rr.RobirankError, match="the factors have changed since it was written"):
        on_ray(tmp_path).set_params(parts=PARTS).fit(
            data, show_progress=False, resume=True, **features
        )


def test_validation_is_refused(data, features, validation, tmp_path):
    with pytest.raises(rr.ArgumentError, match="validation must be left out with features"):
        on_ray(tmp_path).fit(data, show_progress=False, validation=validation, **features)
