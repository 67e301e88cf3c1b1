"""What every ranker over features promises, whatever the method."""

import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import has_fit_parameter

from contract.rankers import MISSING, ONE_OF_EACH_CLASS, RANKERS, expected_failures, grid_of
from robirank import RankingData, load_model, make_ranking, save_model
from robirank._progress import FitProgress
from robirank.ltr.base import feature_names
from robirank.metrics import ndcg

each_ranker = pytest.mark.parametrize("ranker", RANKERS, ids=repr)


@pytest.mark.parametrize("cls", MISSING)
def test_ranker_without_its_package(cls):
    pytest.skip(f"{cls.__name__} needs {cls.needs}, which is not installed")


@pytest.fixture(scope="module")
def both():
    """Queries to fit to, and as many that are new to a model."""
    made = make_ranking(n_queries=120, n_docs=15, n_features=6, noise=0.2, random_state=0)
    numbers = made.queries.unsort(made.queries.codes())
    return made.take(numbers < 60), made.take(numbers >= 60)


@pytest.fixture(scope="module")
def data(both):
    return both[0]


@pytest.fixture(scope="module")
def fresh(both):
    return both[1]


@pytest.fixture(scope="module")
def fitted(data):
    """A ranker that was fitted to the data, once for all tests that do not change it."""
    models = {}

    def fit(ranker):
        if repr(ranker) not in models:
            models[repr(ranker)] = clone(ranker).fit(data.X, data.y, qid=data.qid)
        return models[repr(ranker)]

    return fit


@parametrize_with_checks(ONE_OF_EACH_CLASS, expected_failed_checks=expected_failures)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@each_ranker
def test_learns_the_planted_ranking(ranker, fitted, fresh):
    assert fitted(ranker).score(fresh.X, fresh.y, qid=fresh.qid) > 0.75
    untrained = np.random.default_rng(0).standard_normal(len(fresh))
    assert ndcg(fresh.y, untrained, fresh.qid, k=10) < 0.6


@each_ranker
def test_order_and_names_of_queries_do_not_matter(ranker, data, fitted):
    names = np.array([f"q{q}" for q in data.qid], dtype=object)
    shuffle = np.random.default_rng(1).permutation(len(data))
    # Keep the order of first appearance: folds of a CV are drawn over queries in that order.
    first = np.sort(np.unique(data.qid, return_index=True)[1])
    shuffle = np.concatenate([first, shuffle[~np.isin(shuffle, first)]])
    other = clone(ranker).fit(data.X[shuffle], data.y[shuffle], qid=names[shuffle])
    assert_allclose(other.predict(data.X), fitted(ranker).predict(data.X), rtol=1e-3, atol=1e-3)


@each_ranker
def test_kept_round_is_the_one_that_scored_best_on_validation(ranker, data):
    if not has_fit_parameter(ranker, "validation") or "k" not in ranker.get_params():
        pytest.skip(f"{type(ranker).__name__} does not stop early")
    # Short decimals from 0 to 1 in float32, as in LETOR's files: many values lie on a threshold.
    X = ((data.X - data.X.min(0)) / np.ptp(data.X, axis=0)).round(1).astype(np.float32)
    vali = (X[::-1].copy(), data.y[::-1], data.qid[::-1])
    model = clone(ranker).fit(X, data.y, qid=data.qid, validation=vali)
    if not hasattr(model, "validation_scores_"):
        pytest.skip(f"{type(ranker).__name__} keeps no curve")
    kept = ndcg(vali[1], model.predict(vali[0]), vali[2], k=model.k)
    assert kept == pytest.approx(max(model.validation_scores_), abs=1e-6)


@each_ranker
def test_patience_ends_a_fit_that_gains_no_more(ranker, data):
    if "patience" not in ranker.get_params():
        pytest.skip(f"{type(ranker).__name__} does not stop early")
    # Validation labels that have nothing to do with the features: progress soon ends.
    noise = np.random.default_rng(0).integers(0, 3, len(data))
    vali = (data.X, noise, data.qid)
    curves = {
        patience: clone(ranker)
        .set_params(patience=patience)
        .fit(data.X, data.y, qid=data.qid, validation=vali)
        .validation_scores_
        for patience in (2, None)
    }
    assert curves[2] == curves[None][: len(curves[2])]
    best = int(np.argmax(curves[2])) + 1
    assert len(curves[2]) in (best + 2, len(curves[None]))


@each_ranker
def test_a_validation_set_ends_a_fit_by_default(ranker):
    if not has_fit_parameter(ranker, "validation") or "n_estimators" not in ranker.get_params():
        pytest.skip(f"{type(ranker).__name__} has no rounds to save")
    default = type(ranker)()
    assert default.patience < default.n_estimators


@each_ranker
def test_every_iteration_is_shown_on_request(ranker, data, monkeypatch):
    """A line with the name of the method, and no other."""
    told, lines = [], []

    class Told(FitProgress):
        def __init__(self, show, *, total, title, **options):
            super().__init__(False, total=total, title=title)
            lines.append((show, title))

        def update(self, iteration, **figures):
            told.append(iteration)

    for module in [m for name, m in sys.modules.items() if name.startswith("robirank.ltr")]:
        if hasattr(module, "FitProgress"):
            monkeypatch.setattr(module, "FitProgress", Told)
    model = clone(ranker).set_params(verbose=True).fit(data.X, data.y, qid=data.qid)
    assert lines
    assert all(show for show, _ in lines)
    assert type(ranker).__name__.removesuffix("CV") in lines[0][1]
    assert told
    assert max(told) >= 1
    if hasattr(model, "n_iter_"):
        assert len(set(told)) >= model.n_iter_ - 1
    clone(ranker).fit(data.X, data.y, qid=data.qid)
    assert not lines[-1][0]


@each_ranker
def test_same_seed_same_bits(ranker, data, fitted):
    again = clone(ranker).fit(data.X, data.y, qid=data.qid)
    assert_array_equal(again.predict(data.X), fitted(ranker).predict(data.X))


@each_ranker
def test_threads_do_not_change_a_bit(ranker, data, fitted):
    if "num_threads" not in ranker.get_params():
        pytest.skip(f"{type(ranker).__name__} runs on one thread")
    three = clone(ranker).set_params(num_threads=3).fit(data.X, data.y, qid=data.qid)
    # One thread, or as many as there are cores: for data as small as these that is one, too.
    assert_array_equal(three.predict(data.X), fitted(ranker).predict(data.X))


@each_ranker
def test_judged_documents_in_one_argument(ranker, data, fitted):
    model = fitted(ranker)
    names = tuple("abcdef")
    named = RankingData(data.X, data.y, data.qid, feature_names=names)
    other = clone(ranker).fit(named)
    assert_array_equal(other.predict(data.X), model.predict(data.X))
    assert_array_equal(other.predict(named), model.predict(data.X))
    assert other.score(named) == model.score(data.X, data.y, qid=data.qid)
    assert feature_names(other) == names
    assert feature_names(other.fit(data.X[:150], data.y[:150], qid=data.qid[:150]))[0] == "f1"
    with pytest.raises(ValueError, match=r"y and qid must be left out .* has both; got y$"):
        clone(ranker).fit(data, data.y)
    with pytest.raises(ValueError, match=r"got qid$"):
        clone(ranker).fit(data, qid=data.qid)


@each_ranker
def test_sparse_features(ranker, data, fitted):
    if not ranker.__sklearn_tags__().input_tags.sparse:
        pytest.skip(f"{type(ranker).__name__} takes dense features only")
    sparse = clone(ranker).fit(sp.csr_matrix(data.X), data.y, qid=data.qid)
    scores = sparse.predict(sp.csr_matrix(data.X))
    assert_allclose(scores, fitted(ranker).predict(data.X), rtol=1e-3, atol=1e-3)


@each_ranker
def test_frame_keeps_feature_names(ranker, data):
    frame = pd.DataFrame(data.X, columns=[f"feature {j}" for j in range(data.n_features)])
    model = clone(ranker).fit(frame, data.y, qid=data.qid)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"feature 0": "other"}))


@each_ranker
def test_saved_model_predicts_the_same(ranker, data, fitted, tmp_path):
    model = fitted(ranker)
    save_model(model, tmp_path / "model.safetensors")
    loaded = load_model(tmp_path / "model.safetensors")
    assert type(loaded) is type(model)
    assert_array_equal(loaded.predict(data.X), model.predict(data.X))


@each_ranker
def test_grid_search_over_groups(ranker, data):
    with config_context(enable_metadata_routing=True):
        routed = clone(ranker).set_fit_request(qid=True).set_score_request(qid=True)
        search = GridSearchCV(routed, grid_of(ranker), cv=GroupKFold(2), error_score="raise")
        search.fit(data.X, data.y, qid=data.qid, groups=data.qid)
    assert search.best_score_ > 0.75


@each_ranker
def test_pipeline_with_a_scaler(ranker, data):
    with config_context(enable_metadata_routing=True):
        routed = clone(ranker).set_fit_request(qid=True).set_score_request(qid=True)
        pipeline = make_pipeline(StandardScaler(), routed)
        params = {"qid": data.qid, "groups": data.qid}
        scores = cross_val_score(pipeline, data.X * 100, data.y, cv=GroupKFold(2), params=params)
    assert scores.mean() > 0.75


@each_ranker
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.full(900, -1.0)}, "label"),
        ({"y": np.zeros(900)}, "no relevant document"),
        ({"y": np.ones(899)}, "inconsistent numbers of samples"),
        ({"qid": np.zeros(7)}, "one query id for each of the 900 rows"),
        ({"qid": np.full(900, np.nan)}, "missing value"),
    ],
    ids=["negative labels", "nothing relevant", "short y", "short qid", "missing qid"],
)
def test_bad_input_gets_a_clear_error(ranker, data, change, message):
    good = {"X": data.X, "y": data.y, "qid": data.qid}
    case = good | change
    with pytest.raises(ValueError, match=message):
        clone(ranker).fit(case["X"], case["y"], qid=case["qid"])


@each_ranker
def test_bad_features_get_a_clear_error(ranker, data, fitted):
    X = data.X.copy()
    X[5, 2] = np.nan
    if not ranker.__sklearn_tags__().input_tags.allow_nan:
        with pytest.raises(ValueError, match="NaN"):
            clone(ranker).fit(X, data.y, qid=data.qid)
    X[5, 2] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        clone(ranker).fit(X, data.y, qid=data.qid)
    with pytest.raises(NotFittedError):
        clone(ranker).predict(data.X)
    with pytest.raises(ValueError, match="features"):
        fitted(ranker).predict(data.X[:, :3])
