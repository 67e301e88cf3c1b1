"""Fits, retrieval and fold-in with device="cuda", on PyTorch's CPU in place of a card."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from robirank import LatentRoBiRank, LatentRoBiRankCV, evaluate, load_model, make_interactions
from robirank._workers import Workers
from robirank.data.splits import split_ratio
from robirank.data.user_items import as_user_items
from robirank.latent.factors import topk_on_card
from robirank.latent.factors.order import order_of
from robirank.latent.factors.questions import items_of_users
from robirank.latent.factors.topk import prepare_rows, top_rows
from robirank.latent.gpu.device import DeviceError, device_errors, has_kernels
from robirank.latent.gpu.layout import KernelError
from robirank.latent.solvers import exact_on_card, start_of
from robirank.latent.solvers.exact import ExactSolver
from robirank.latent.solvers.exact_on_card import DeviceExactSolver
from robirank.latent.train.loop import DivergenceError
from robirank.latent.tune.fits import fits_side_by_side, whole_fit
from robirank.latent.tune.path import hold_out
from robirank.latent.tune.settle import settle_by_table

TABLE = make_interactions(80, 70, 1500, random_state=0)
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _card(as_if_a_card):
    return as_if_a_card


def model(device, **params):
    settings = {"iterations": 4, "regularization": 0.1, "random_state": 0} | params
    return LatentRoBiRank(8, device=device, **settings)


def scores_of(model):
    """What does not depend on the signs that a start gives to singular vectors."""
    return model.user_factors @ model.item_factors.T


@pytest.mark.parametrize("rho", ["log", "identity", "type2"])
def test_a_fit_is_that_of_the_cpu(rho):
    reg = {"log": 0.1, "identity": 20.0, "type2": 0.002}[rho]
    here, there = (
        model(device, rho=rho, regularization=reg).fit(TABLE, False) for device in ("cpu", "cuda")
    )
    assert there.solver_ == "exact"
    assert there.history_[-1]["loss"] == pytest.approx(here.history_[-1]["loss"], rel=1e-4)
    np.testing.assert_allclose(scores_of(there), scores_of(here), atol=0.02)
    for rows in ("user_factors", "item_factors"):
        one, other = (np.abs(getattr(model, rows)) for model in (here, there))
        np.testing.assert_allclose(one, other, atol=0.01)


@pytest.mark.parametrize("factors", [96, 128])
def test_a_fit_of_many_factors_is_that_of_the_cpu(factors):
    """Its items see half of the users' step, or their old rows."""
    settings = {"factors": factors, "regularization": 0.2, "iterations": 4}
    here, there = (
        model(device).set_params(**settings).fit(TABLE, False) for device in ("cpu", "cuda")
    )
    assert there.history_[-1]["loss"] == pytest.approx(here.history_[-1]["loss"], rel=1e-4)
    np.testing.assert_allclose(scores_of(there), scores_of(here), atol=0.02)


@pytest.mark.parametrize("factors", [64, 96, 256])
def test_an_epoch_has_as_many_steps_as_on_the_cpu(factors):
    """60, and twice as many with 256 factors."""
    table = as_user_items(make_interactions(1200, 20, 5000, random_state=0))
    request = LatentRoBiRank(factors, solver="exact", regularization=0.1, random_state=0).request()
    problem = settle_by_table(request, table)
    start = start_of(problem, table)
    with Workers(1) as workers:
        here = ExactSolver(problem, table, start, workers)
        there = DeviceExactSolver(problem, table, start, device=CPU)
        for solver in (here, there):
            solver.epoch(0, 1)
            assert int(solver.state()["steps"][0]) == (120 if factors == 256 else 60)


@pytest.mark.parametrize("size", [3, 200])
def test_the_spectrum_of_a_covariance(size):
    """Small ones on the host, large ones on the device; what is not finite has infinite values."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2, 2 * size, size))
    covariance = rows.swapaxes(1, 2) @ rows / (2 * size)
    values, vectors = exact_on_card._spectrum(torch.tensor(covariance))
    rebuilt = vectors @ torch.diag_embed(values) @ vectors.mT
    np.testing.assert_allclose(rebuilt.numpy(), covariance, atol=1e-5)
    covariance[0, 0, 0] = np.nan
    values, vectors = exact_on_card._spectrum(torch.tensor(covariance))
    assert values[0].isinf().all()
    assert values[1].isfinite().all()
    assert vectors.isfinite().all()


def test_one_seed_one_result():
    one, other = (model("cuda").fit(TABLE, False) for _ in range(2))
    np.testing.assert_array_equal(one.user_factors, other.user_factors)
    np.testing.assert_array_equal(one.item_factors, other.item_factors)


def test_a_fit_that_was_stopped_goes_on_with_the_same_bits(tmp_path):
    whole = model("cuda").fit(TABLE, False)
    path = tmp_path / "state"
    stopped = model("cuda").fit(
        TABLE, False, checkpoint=path, callbacks=[lambda report: report.epoch == 2]
    )
    assert stopped.n_iter_ == 2
    resumed = model("cuda").fit(TABLE, False, checkpoint=path, resume=True)
    np.testing.assert_array_equal(resumed.user_factors, whole.user_factors)
    np.testing.assert_array_equal(resumed.item_factors, whole.item_factors)


def test_models_move_between_devices(tmp_path):
    fitted = model("cuda").fit(TABLE, False)
    fitted.save(tmp_path / "m.safetensors")
    loaded = load_model(tmp_path / "m.safetensors")
    assert loaded.device == "cpu"
    users = np.arange(20)
    there = fitted.recommend(users, TABLE.matrix[:20], N=5)
    here = loaded.recommend(users, TABLE.matrix[:20], N=5)
    np.testing.assert_array_equal(there[0], here[0])
    np.testing.assert_allclose(there[1], here[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(
        fitted.similar_items([1, 2], N=4)[0], loaded.similar_items([1, 2], N=4)[0]
    )


def test_validation_callbacks_and_the_search_for_a_penalty():
    train, held_out = split_ratio(TABLE, 0.2, random_state=0)
    seen = []
    fitted = model("cuda", regularization=None).fit(
        train,
        False,
        validation=held_out,
        callbacks=[lambda report: seen.append(report.item_factors.copy())],
    )
    assert len(seen) == 4
    assert fitted.best_iter_ in (1, 2, 3, 4)
    assert any("ndcg@20" in entry for entry in fitted.history_)
    found = evaluate(fitted, train=train, test=held_out, k=20)
    best = max(entry["ndcg@20"] for entry in fitted.history_ if "ndcg@20" in entry)
    assert found["ndcg@20"] == pytest.approx(best)


def test_the_close_search():
    search = LatentRoBiRankCV(LatentRoBiRank(4, iterations=2, random_state=0, device="cuda"))
    search.fit(TABLE, False)
    assert search.best_estimator_.device == "cuda"
    assert search.best_params_["regularization"] > 0


def problems_under(penalties, train):
    request = replace(model("cuda").request(), epochs=3)
    return [settle_by_table(replace(request, regularization=reg), train) for reg in penalties]


@pytest.mark.parametrize("room", [1, 2, 16])
def test_fits_side_by_side_are_those_of_one_after_the_other(room, monkeypatch):
    monkeypatch.setattr("robirank.latent.solvers.exact_on_card._MOST_FITS", room)
    split = hold_out(as_user_items(TABLE), 0, "ndcg@5")
    problems = problems_under([0.05, 0.1, 0.2], split.train)
    with Workers(1) as workers:
        expected = [whole_fit(problem, split, workers)["values"][0] for problem in problems]
    found = fits_side_by_side(problems, split, start_of(problems[0], split.train))
    assert found == expected
    assert len(set(found)) == 3


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_fit_that_diverges_does_not_stop_those_beside_it():
    split = hold_out(as_user_items(TABLE), 0, "ndcg@5")
    problems = problems_under([0.1, 1e38], split.train)
    found = fits_side_by_side(problems, split, start_of(problems[0], split.train))
    assert found[0] > 0
    assert found[1] == -1


def test_folding_in_is_that_of_the_cpu():
    fitted = model("cuda").fit(TABLE, False)
    there = fitted.fold_in(TABLE.matrix[:30])
    here = fitted.set_params(device="cpu").fold_in(TABLE.matrix[:30])
    np.testing.assert_allclose(there, here, atol=0.02)


def test_partial_fit():
    fitted = model("cuda").fit(TABLE, False)
    before = fitted.item_factors.copy()
    fitted.partial_fit(TABLE, iterations=1)
    assert not np.array_equal(fitted.item_factors, before)


@pytest.mark.parametrize("with_liked", [False, True])
@pytest.mark.parametrize("with_rows", [False, True])
@pytest.mark.parametrize("n_best", [1, 20, 300])
def test_the_best_rows_are_those_of_the_cpu(with_liked, with_rows, n_best):
    rng = np.random.default_rng(0)
    queries = rng.integers(-2, 3, (40, 6)).astype(np.float32)  # whole numbers: many equal scores
    queries[0] = 0
    factors = rng.integers(-2, 3, (250, 6)).astype(np.float32)
    liked = items_of_users(make_interactions(40, 250, 900, random_state=0).matrix, 40, 250)
    arguments = (queries, np.arange(40, dtype=np.int32), factors, n_best)
    options = {
        "candidates": np.arange(0, 250, 3, dtype=np.int32) if with_rows else None,
        "excluded": liked if with_liked else None,
    }
    here = top_rows(*arguments, **options)
    for rows in (factors, prepare_rows(factors, "cuda")):
        there = topk_on_card.top_rows(queries, arguments[1], rows, n_best, **options)
        np.testing.assert_array_equal(here[0], there[0])
        np.testing.assert_array_equal(here[1], there[1])


def test_an_evaluation_uploads_the_items_once(monkeypatch):
    fitted = model("cuda").fit(TABLE, False)
    uploaded = []
    upload = topk_on_card.CardRows.of
    monkeypatch.setattr(
        topk_on_card.CardRows, "of", lambda *arguments: uploaded.append(1) or upload(*arguments)
    )
    train, test = split_ratio(TABLE, 0.2, random_state=0)
    evaluate(fitted, train=train, test=test, k=5, batch_size=7)
    assert len(uploaded) == 1


def test_factors_stay_on_the_card_until_they_are_asked_for():
    fitted = model("cuda").fit(TABLE, False)
    on_card = fitted.factors_.with_rows(
        torch.tensor(fitted.user_factors), torch.tensor(fitted.item_factors)
    )
    users = np.arange(20, dtype=np.int32)
    here = fitted.factors_.best_items(users, 5, device="cuda")
    there = on_card.prepared("cuda").best_items(users, 5, device="cuda")
    np.testing.assert_array_equal(here[0], there[0])
    np.testing.assert_array_equal(on_card.on_host().items.rows, fitted.item_factors)


def test_scores_fall_as_their_numbers_rise():
    scores = torch.tensor([-torch.inf, -1e30, -1.0, -1e-40, -0.0, 0.0, 1e-40, 2.0, torch.inf])
    numbers = topk_on_card._falling(scores)
    assert (numbers[:-1] >= numbers[1:]).all()
    assert numbers[4] == numbers[5]
    assert numbers.min() >= 0
    assert numbers.max() < 2**32


def test_there_are_no_kernels_for_the_cpu_or_for_very_many_factors():
    assert not has_kernels(64, CPU)
    with pytest.warns(UserWarning, match="256 factors at most, not 512"):
        assert not has_kernels(512, torch.device("cuda", 0))


def test_errors_of_a_device_are_told_in_plain_words(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**30, 2**34))
    memory = r"ran out of memory while it trained: 1.0 of 16.0 GiB"
    with pytest.raises(DeviceError, match=memory), device_errors("it trained"):
        raise torch.OutOfMemoryError("CUDA out of memory")
    lost = "the card failed while it trained: unspecified launch failure. The factors"
    with pytest.raises(DeviceError, match=lost), device_errors("it trained"):
        raise torch.AcceleratorError("unspecified launch failure\nmore")


def test_a_kernel_that_fails_is_a_lost_card():
    lost = "the card failed while it trained: count_scores could not be launched"
    with pytest.raises(DeviceError, match=lost), device_errors("it trained"):
        raise KernelError("count_scores could not be launched: unspecified launch failure")


def test_a_diverging_fit_is_told_as_on_the_cpu():
    for device in ("cpu", "cuda"):
        with pytest.raises(DivergenceError, match="training diverged in epoch"):
            model(device, learning_rate=1e20).fit(TABLE, False)


def test_no_item_is_left():
    fitted = model("cuda").fit(TABLE, False)
    ids, _ = fitted.recommend([0, 1], TABLE.matrix[:2], N=3, filter_items=np.arange(TABLE.n_items))
    assert (ids == -1).all()


def test_what_nobody_knows_is_the_same_as_on_the_cpu():
    """User 3 and item 5 have no interaction."""
    kept = (TABLE.user_codes() != 3) & (TABLE.indices != 5)
    table = TABLE.take(kept)
    fitted = model("cuda").fit(table, False)
    counts = np.bincount(table.indices, minlength=70)
    ids, scores = fitted.recommend([2, 3], table.matrix[[2, 3]], N=70, unknown_users="popular")
    assert ids[1, :69].tolist() == [n for n in np.argsort(-counts, kind="stable") if n != 5]
    assert scores[1, :69].tolist() == sorted(counts.tolist(), reverse=True)[:69]
    assert ids[1, 69] == -1
    assert ids[0, 0] >= 0
    assert (fitted.similar_items([5])[0] == -1).all()
    assert 5 not in fitted.similar_items(np.delete(np.arange(70), 5), N=70)[0]
    assert (fitted.similar_users([3])[0] == -1).all()


def test_factors_of_any_layout():
    rng = np.random.default_rng(0)
    U, V = np.asfortranarray(rng.standard_normal((5, 8))), rng.standard_normal((8, 20)).T
    found = topk_on_card.top_rows(U, np.arange(5, dtype=np.int32), V, 3)
    expected = np.argsort(-(U @ V.T), axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(found[0], expected)


def test_auto_trains_with_other_solvers_on_the_cpu(monkeypatch):
    monkeypatch.setattr("robirank.latent.gpu.device._why_not", lambda: "")
    assert LatentRoBiRank(device="auto").solver_for(10**6, 10**6) == "exact"
    assert LatentRoBiRank(solver="sgd", device="auto").request().device == "cpu"


def test_a_checkpoint_belongs_to_a_device(tmp_path, monkeypatch):
    monkeypatch.setattr("robirank.latent.gpu.device._why_not", lambda: "no card")
    model("auto").fit(TABLE, False, checkpoint=tmp_path / "c")
    monkeypatch.setattr("robirank.latent.gpu.device._why_not", lambda: "")
    with pytest.raises(ValueError, match="checkpoint"):
        model("auto").fit(TABLE, False, checkpoint=tmp_path / "c", resume=True)


def test_what_follows_is_learned_on_a_card():
    data = make_interactions(150, 40, 1500, random_state=3)
    times = np.random.default_rng(0).permutation(len(data))
    timed = replace(data, timestamps=times)
    params = {"order": True, "order_weight": 0.5}
    here, there = (model(device, **params).fit(timed, False) for device in ("cpu", "cuda"))
    assert there.order_weight_ == 0.5
    for one, other in zip(order_of(here.factors_), order_of(there.factors_), strict=True):
        np.testing.assert_allclose(np.abs(other), np.abs(one), atol=0.02)
    np.testing.assert_allclose(scores_of(there), scores_of(here), atol=0.05)
    basket = [3, 9, 4]
    np.testing.assert_allclose(
        there.recommend_for(basket, N=5)[1], here.recommend_for(basket, N=5)[1], atol=0.05
    )
    chosen = model("cuda", order=True).fit(timed, False)
    assert chosen.order_weight_ == 0.0  # the order has no meaning
