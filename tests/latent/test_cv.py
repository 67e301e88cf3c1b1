"""LatentRoBiRankCV: what it tries, what it chooses, and that it can be interrupted."""

import errno
import os

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone

import robirank as rr
from robirank.latent.tune.fits import STEP
from robirank.latent.tune.path import PenaltyPath, follow_path
from robirank.latent.tune.trials import Trial

SEARCH = "robirank.latent.tune.search"
MODEL = rr.LatentRoBiRank(8, iterations=8, random_state=0)


@pytest.fixture(scope="module")
def split():
    return rr.split_ratio(rr.make_interactions(600, 200, 12_000, random_state=1), random_state=0)


@pytest.fixture(scope="module")
def searched(split):
    return rr.LatentRoBiRankCV(MODEL).fit(split[0], show_progress=False)


def recall(model, split):
    return rr.evaluate(model, train=split[0], test=split[1], k=20)["recall@20"]


def test_it_is_as_good_as_the_best_of_a_grid(split, searched):
    regs = searched.best_params_["regularization"] * 1.2 ** np.arange(-3, 4.0)
    grid = [clone(MODEL).set_params(regularization=reg).fit(split[0], False) for reg in regs]
    assert recall(searched.best_estimator_, split) >= 0.97 * max(
        recall(model, split) for model in grid
    )


def test_the_best_model_is_fitted_to_everything(split, searched):
    alone = clone(MODEL).set_params(**searched.best_params_).fit(split[0], show_progress=False)
    assert_array_equal(searched.best_estimator_.item_factors, alone.item_factors)
    assert searched.best_estimator_.regularization_ == searched.best_params_["regularization"]


def test_what_was_tried_is_told(searched):
    found = searched.cv_results_
    assert len({len(column) for column in found.values()}) == 1
    fits = [reg for kind, reg in zip(found["kind"], found["regularization"], strict=True)
            if kind == "fit"]  # fmt: skip
    assert 3 <= len(fits) <= 6
    steps = np.sort(np.log(fits) / np.log(STEP))
    np.testing.assert_allclose(np.diff(steps), 1.0)
    assert found["kind"].count("path") > 6
    assert searched.best_score_ == max(
        value for kind, value in zip(found["kind"], found["value"], strict=True) if kind == "fit"
    )


def test_other_parameters_are_chosen_too(split):
    grid = {"factors": [1, 8], "iterations": [2, 8]}
    search = rr.LatentRoBiRankCV(MODEL, grid=grid).fit(split[0], show_progress=False)
    assert search.best_params_["factors"] == 8
    assert search.best_params_["iterations"] == 8
    assert search.best_estimator_.item_factors.shape[1] == 8
    assert set(search.cv_results_["factors"]) == {1, 8}


@pytest.mark.parametrize(
    ("model", "grid", "widths"),
    [
        (rr.LatentRoBiRank(80, iterations=4), None, {64}),
        (rr.LatentRoBiRank(80, iterations=4), {"user_exponent": [0.5, 1.0]}, {64}),
        (rr.LatentRoBiRank(80, iterations=4), {"factors": [70, 80]}, {70, 80}),
        (rr.LatentRoBiRank(80, iterations=4), {"learning_rate": [0.05, 0.07]}, {80}),
        (rr.LatentRoBiRank(80, iterations=4), {"solver": ["exact", "sgd"]}, {80}),
        (rr.WARP(80, iterations=4, parts=2), None, {80}),
    ],
)
def test_a_path_has_64_factors_at_most_as_in_a_default_fit(split, model, grid, widths, monkeypatch):
    """Unless what is compared differs with their number; what it finds is scaled to all of them."""
    follow, seen, fits = follow_path, set(), []

    def path(problem, *arguments):
        seen.add(problem.factors)
        return follow(problem, *arguments)

    def fit(problem, *_):
        fits.append(problem)
        return {"values": [-float(len(fits))]}

    monkeypatch.setattr(f"{SEARCH}.follow_path", path)
    monkeypatch.setattr(f"{SEARCH}.whole_fit", fit)
    search = rr.LatentRoBiRankCV(model.set_params(random_state=0), grid=grid)
    search.search(split[0], show_progress=False)
    assert seen == widths
    assert {problem.factors for problem in fits} <= ({70, 80} if 70 in widths else {80})
    assert {problem.epochs for problem in fits} == {4}  # as in the last fit
    if widths == {64} and grid is None:
        tried = search.cv_results_
        is_path = np.array(tried["kind"]) == "path"
        columns = (np.array(tried[name])[is_path] for name in ("regularization", "value"))
        centre = PenaltyPath(*columns).best()
        expected = centre * (80 / 64) ** 0.06
        assert fits[0].penalty.regularization == pytest.approx(expected)


def test_warp_is_searched_in_the_same_way(split):
    model = rr.WARP(8, iterations=8, parts=2, random_state=0)
    search = rr.LatentRoBiRankCV(model).fit(split[0], show_progress=False)
    assert isinstance(search.best_estimator_, rr.WARP)
    weak = clone(model).set_params(regularization=0.3).fit(split[0], show_progress=False)
    assert recall(search.best_estimator_, split) > recall(weak, split)


def test_several_splits_are_averaged(split, searched):
    search = rr.LatentRoBiRankCV(MODEL, cv=2).fit(split[0], show_progress=False)
    assert set(search.cv_results_["split"]) == {0, 1}
    # Near the best λ the metric is flat, so that λ says less than what the model is worth.
    assert recall(search.best_estimator_, split) > 0.98 * recall(searched.best_estimator_, split)


def test_a_sample_of_the_users_is_enough(split, searched):
    search = rr.LatentRoBiRankCV(MODEL, sample_users=300).fit(split[0], show_progress=False)
    assert recall(search.best_estimator_, split) > 0.97 * recall(searched.best_estimator_, split)
    assert len(search.best_estimator_.user_factors) == split[0].n_users


def test_a_search_goes_on_where_it_was_interrupted(split, searched, tmp_path, monkeypatch):
    calls = []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(*arguments)

    from robirank.latent.tune.search import whole_fit as whole

    with monkeypatch.context() as patch:
        patch.setattr(f"{SEARCH}.whole_fit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rr.LatentRoBiRankCV(MODEL).fit(split[0], False, checkpoint=tmp_path / "fit")
    del calls[:]
    with monkeypatch.context() as patch:
        patch.setattr(f"{SEARCH}.whole_fit", lambda *a: calls.append(1) or whole(*a))
        patch.setattr(f"{SEARCH}.follow_path", lambda *_: pytest.fail("again"))
        again = rr.LatentRoBiRankCV(MODEL)
        again.fit(split[0], False, checkpoint=tmp_path / "fit", resume=True)
    assert len(calls) == searched.cv_results_["kind"].count("fit") - 1
    assert again.best_params_ == searched.best_params_
    assert_array_equal(again.best_estimator_.item_factors, searched.best_estimator_.item_factors)
    other = rr.LatentRoBiRankCV(MODEL, metric="recall@5")
    with pytest.raises(rr.ModelFileError, match="belongs to another search"):
        other.fit(split[0], False, checkpoint=tmp_path / "fit", resume=True)
    (tmp_path / "fit.search").write_text('01234567 {"search": 3}')
    with pytest.raises(rr.ModelFileError, match=r"fit\.search is damaged: its last line is cut"):
        again.fit(split[0], False, checkpoint=tmp_path / "fit", resume=True)


def test_it_prints_a_line_for_each_trial(split, searched, capfd):
    rr.LatentRoBiRankCV(MODEL).fit(split[0])
    shown = capfd.readouterr().err
    assert shown.count("falling λ") == 1
    assert shown.count("fit        λ") == searched.cv_results_["kind"].count("fit")


def test_the_border_is_told(split, monkeypatch):
    def rising(*_):
        from robirank.latent.tune.path import PenaltyPath

        return PenaltyPath(0.9 ** np.arange(9.0), np.arange(9.0))

    monkeypatch.setattr(f"{SEARCH}.follow_path", rising)
    with pytest.warns(UserWarning, match="lies at the border"):
        rr.LatentRoBiRankCV(MODEL).fit(split[0], show_progress=False)


def test_the_model_is_one_like_others(split, searched, tmp_path):
    model, some = searched.best_estimator_, split[0].matrix[:5]
    assert type(model) is rr.LatentRoBiRank
    model.save(tmp_path / "model")
    loaded = rr.load_model(tmp_path / "model")
    ids = [each.recommend(np.arange(5), some, N=4)[0] for each in (model, loaded)]
    assert_array_equal(*ids)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rr.LatentRoBiRankCV(rr.RoBiRank()), "estimator must be a LatentRoBiRank"),
        (lambda: rr.LatentRoBiRankCV(grid={"regularization": [1]}), "grid may name"),
        (lambda: rr.LatentRoBiRankCV(grid={"colour": [1]}), "got 'colour'"),
        (lambda: rr.LatentRoBiRankCV(grid={"weighting": ["log"]}), "may not name weighting"),
        (lambda: rr.LatentRoBiRankCV(grid={"half_life": [1, 2]}), "may not name half_life"),
        (lambda: rr.LatentRoBiRankCV(grid={"factors": 8}), "must give a list for factors; got 8"),
        (lambda: rr.LatentRoBiRankCV(cv=0), "cv must be a positive integer"),
        (lambda: rr.LatentRoBiRankCV(metric="luck"), "luck"),
        (lambda: rr.LatentRoBiRankCV(rr.WARP(engine="ray")), "engine must be 'local'"),
    ],
)
def test_bad_parameters_are_named(split, make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make().fit(split[0], show_progress=False)


def test_a_search_is_no_model():
    assert not hasattr(rr.LatentRoBiRankCV(), "recommend")


def test_a_trial_is_known_again():
    trial = Trial("fit", {"factors": 8}, 0, [0.1], [0.5], 1.0)
    assert trial.is_of("fit", {"factors": 8}, 0)
    assert not trial.is_of("fit", {"factors": 9}, 0)


@pytest.mark.filterwarnings("ignore:the best")
def test_a_table_says_which_records_are_held_out():
    data = rr.make_interactions(200, 80, 4000, random_state=0)
    _, valid = rr.split_ratio(data, 0.15, random_state=1)
    model = rr.LatentRoBiRank(4, iterations=3, random_state=0)
    search = rr.LatentRoBiRankCV(model, cv=valid)
    found = search.search(data, False)
    assert found["regularization"] > 0
    assert rr.LatentRoBiRankCV(model, cv=np.int64(1)).search(data, False)["regularization"] > 0
    sampled = rr.LatentRoBiRankCV(model, cv=valid, sample_users=120).search(data, False)
    assert sampled["regularization"] != found["regularization"]
    with pytest.raises(ValueError, match="cv must have the shape of user_items"):
        rr.LatentRoBiRankCV(model, cv=valid.matrix[:, :50]).search(data, False)
    others = sp.csr_matrix(1 - (data.matrix.toarray() > 0))
    with pytest.raises(ValueError, match="cv must hold some of the interactions of user_items"):
        rr.LatentRoBiRankCV(model, cv=others).search(data, False)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (sp.csr_matrix((20, 10)), "user_items holds no interaction, so there is nothing to search"),
        (sp.identity(20, format="csr"), "of its 20 users 0 have more than one, and nothing was"),
    ],
    ids=["empty", "one a user"],
)
def test_a_table_that_cannot_be_searched_on_is_told(table, message):
    with pytest.raises(ValueError, match=message):
        rr.LatentRoBiRankCV(MODEL).search(table, False)


def test_a_full_disk_does_not_end_a_search(split, searched, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    search = rr.LatentRoBiRankCV(MODEL)
    with pytest.warns(RuntimeWarning, match=r"fit\.search could not be written"):
        assert search.search(split[0], False, checkpoint=tmp_path / "fit") == searched.best_params_


def test_places_of_a_checkpoint_that_cannot_be_are_told_before_the_search(
    split, tmp_path, monkeypatch
):
    monkeypatch.setattr(f"{SEARCH}.follow_path", lambda *_: pytest.fail("searched"))
    (tmp_path / "plays.csv").write_text("user,item\n")
    with pytest.raises(rr.ModelFileError, match=r"plays\.csv must not overwrite a file"):
        rr.LatentRoBiRankCV(MODEL).fit(split[0], False, checkpoint=tmp_path / "plays.csv")
    with pytest.raises(FileNotFoundError, match="no folder"):
        rr.LatentRoBiRankCV(MODEL).fit(split[0], False, checkpoint=tmp_path / "no" / "fit")
