"""LatentRoBiRank beyond the contract: its objective, its variants, its defaults."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix

from latent.plain import objective as plain_objective
from robirank import (
    Interactions,
    LatentRoBiRank,
    evaluate,
    load_model,
    losses,
    make_interactions,
    split_ratio,
)
from robirank.data.user_items import UserItems, as_user_items
from robirank.latent.solvers import start_of
from robirank.latent.solvers.objective import bound, inner_sums, objective
from robirank.latent.tune.settle import settle_by_table


@pytest.fixture(scope="module")
def data():
    data = make_interactions(300, 120, 4000, factors=4, noise=0.1, random_state=0)
    counts = np.random.default_rng(0).geometric(0.5, len(data)).astype(np.float32)
    return Interactions(data.users, data.items, data.indptr, data.indices, counts)


def fit(data, factors=8, iterations=8, **changes):
    settings = {"random_state": 0} | changes
    return LatentRoBiRank(factors, iterations=iterations, **settings).fit(data, show_progress=False)


@pytest.mark.parametrize("rho", ["log", "identity", "type2"])
@pytest.mark.parametrize("weighting", ["binary", "log", "count"])
def test_objective_is_the_formula(data, rho, weighting):
    model = fit(data.matrix[:40], iterations=2, rho=rho, weighting=weighting, regularization=0.3)
    counts = data.matrix[:40].toarray().astype(np.float64)
    table = {"binary": counts > 0, "log": np.log2(1 + counts), "count": counts}[weighting]
    U, V = model.user_factors, model.item_factors
    wanted = plain_objective(U, V, table.astype(np.float64), rho, 0.3)[0]
    assert_allclose(model.objective(data.matrix[:40]), wanted, rtol=1e-4)


def test_objective_bounds_and_falls(data):
    # L(U, V, ξ) of any ξ is no lower, a ξ-step makes it equal, and training lowers it.
    values = []
    for iterations in (1, 4, 16):
        model = fit(data, iterations=iterations, regularization=1e-9)
        interactions = as_user_items(data)
        t = inner_sums(
            model.user_factors, model.item_factors, interactions.indptr, interactions.items
        )
        values.append(model.objective(data))
        assert bound(t, np.full(len(t), 0.05)) > values[-1]
        assert_allclose(bound(t, losses.xi(t)), values[-1], rtol=1e-6)
    assert values[0] > values[1] > values[2]


def test_objective_of_another_table(data):
    model = fit(data, iterations=1)
    with pytest.raises(ValueError, match=r"model's shape \(300, 120\); it has \(299, 120\)"):
        model.objective(data.matrix[:299])


def test_history_shows_the_loss_of_a_record(data):
    model = fit(data, learning_rate=1e-9, iterations=1, regularization=1e-9)
    # V hardly moves and U moves after its loss was taken, so it is the loss of the start.
    interactions = as_user_items(data)
    start = start_of(settle_by_table(model.request(), interactions), interactions)
    wanted = objective(start, interactions) / interactions.n_interactions
    assert model.history_[0]["loss"] == pytest.approx(wanted, rel=1e-4)
    assert wanted < losses.rho1(119.0)  # that of factors that know nothing


def test_identity_pays_less_heed_to_the_top(data):
    train, test = split_ratio(data, random_state=0)
    first = {}
    for rho in ("log", "identity"):
        model = fit(train, rho=rho, iterations=None)
        first[rho] = evaluate(model, train=train, test=test, k=1)["precision@1"]
    assert first["log"] > first["identity"]


def test_counts_as_weights_change_the_model(data):
    models = [fit(data, weighting=w) for w in ("binary", "log", "count")]
    assert (models[0].item_factors != models[1].item_factors).any()
    assert (models[1].item_factors != models[2].item_factors).any()
    ones = data.binarize()
    assert_array_equal(fit(ones, weighting="count").item_factors, models[0].item_factors)
    assert_allclose(fit(ones, weighting="log").item_factors, models[0].item_factors)


def test_stronger_regularisation_gives_shorter_rows(data):
    lengths = [
        np.linalg.norm(fit(data, regularization=reg).item_factors) for reg in (0.01, 0.3, 10.0)
    ]
    assert lengths[0] > lengths[1] > lengths[2]


def table_of(users, items):
    return UserItems(np.zeros(users + 1, np.int64), np.zeros(0, np.int32), None, items)


def test_auto_takes_the_exact_solver_where_an_epoch_is_affordable(data):
    assert fit(data, iterations=1).solver_ == "exact"
    auto = LatentRoBiRank(64)
    assert auto.solver_for(29_858, 40_981) == "exact"  # Gowalla
    assert auto.solver_for(1_129_318, 386_133) == "sgd"  # the Million Songs
    assert LatentRoBiRank(64, engine="ray").solver_for(10, 10) == "sgd"
    for solver in ("exact", "sgd"):
        assert LatentRoBiRank(solver=solver).solver_for(10, 10) == solver


def test_loaded_model_folds_in_the_same(data, tmp_path):
    model = fit(data)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert (loaded.solver_, loaded.user_scale_) == ("exact", model.user_scale_)
    assert_array_equal(loaded.fold_in(data.matrix[:5]), model.fold_in(data.matrix[:5]))
    assert loaded.objective(data) == model.objective(data)
    assert_array_equal(
        loaded.partial_fit(data, iterations=1).user_factors,
        model.partial_fit(data, iterations=1).user_factors,
    )


def test_partial_fit_puts_new_users_near_where_a_fit_would(data):
    train, test = split_ratio(data, random_state=0)
    model = fit(train.matrix[:200], iterations=None)
    model.partial_fit(train.matrix)
    new = np.arange(200, 300)
    grown, whole = (
        evaluate(m, train=train, test=test, users=new, k=10)["ndcg@10"]
        for m in (model, fit(train, iterations=None))
    )
    assert grown > 0.85 * whole


def test_partial_fit_on_the_same_table_does_no_harm(data):
    model = fit(data, iterations=None)
    before = model.objective(data)
    assert model.partial_fit(data).objective(data) < 1.01 * before


def test_one_user_one_item_and_other_small_tables():
    for table in ([[1]], [[1, 0]], [[1], [0]], [[1, 1, 1]], [[0, 1], [1, 0]]):
        model = fit(csr_matrix(np.array(table, np.float32)), factors=1)
        assert np.isfinite(model.user_factors).all()
        assert np.isfinite(model.item_factors).all()
        assert np.isfinite(model.objective(csr_matrix(np.array(table))))


def test_different_seeds_start_from_different_but_sound_points(data):
    ends = [fit(data, random_state=seed).objective(data) for seed in range(3)]
    assert len(set(ends)) == 3
    assert max(ends) < 1.03 * min(ends)


def test_more_factors_than_any_memory_has_room_for(data):
    with pytest.raises(ValueError, match="factors must be at most 65536; got 2147483648"):
        LatentRoBiRank(2**31).fit(data, show_progress=False)
