"""What every latent model promises, whatever the method."""

import copy
import inspect
import pickle
import re
import signal

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_matrix, vstack
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from contract.latent_models import BAD, BAD_FOR_ALL, LATENT
from latent.tiny import tiny
from robirank import (
    DivergenceError,
    Interactions,
    UnknownUserWarning,
    evaluate,
    load_model,
    make_interactions,
    split_ratio,
)
from robirank.errors import RobirankError

each_model = pytest.mark.parametrize("model", LATENT, ids=repr)


@pytest.fixture(scope="module")
def data():
    return make_interactions(400, 150, 6000, factors=4, noise=0.1, random_state=1)


@pytest.fixture(scope="module")
def named(data):
    """The same with outside ids."""
    return Interactions.from_matrix(
        data.matrix,
        users=[f"user {n}" for n in range(400)],
        items=[f"item {n}" for n in range(150)],
    )


def fit(model, data, **changes):
    return clone(model).set_params(**changes).fit(data, show_progress=False)


def assert_same(a, b):
    assert_array_equal(a.user_factors, b.user_factors)
    assert_array_equal(a.item_factors, b.item_factors)


def most_popular(train):
    counts = np.bincount(train.indices, minlength=train.n_items)
    return tiny(np.ones((train.n_users, 1)), counts[:, None])


@each_model
def test_finds_planted_structure(model, data):
    train, test = split_ratio(data, random_state=0)
    fitted = fit(model, train)
    found, popular = (
        evaluate(m, train=train, test=test, k=10)["ndcg@10"] for m in (fitted, most_popular(train))
    )
    assert found > 1.3 * popular


@each_model
def test_checkerboard(model):
    # Even users like even items, odd users odd ones; each misses one of theirs.
    users, items = np.indices((40, 20))
    table = (users + items) % 2 == 0
    missing = (2 * np.arange(40) + np.arange(40) % 2) % 20
    table[np.arange(40), missing] = False
    matrix = csr_matrix(table.astype(np.float32))
    fitted = fit(model, matrix, factors=4, iterations=60)
    ids, _ = fitted.recommend(np.arange(40), matrix, N=1)
    assert_array_equal(ids[:, 0], missing)
    alike, _ = fitted.similar_items(3, N=10)
    assert set(alike % 2) == {1}


@each_model
def test_shapes_types_and_attributes(model, data):
    fitted = fit(model, data, iterations=3)
    assert fitted.user_factors.shape == (400, 8)
    assert fitted.item_factors.shape == (150, 8)
    assert fitted.user_factors.dtype == fitted.item_factors.dtype == np.float32
    assert fitted.n_iter_ == fitted.best_iter_ == 3
    assert [entry["epoch"] for entry in fitted.history_] == [1, 2, 3]
    assert fitted.fit(data, False) is fitted  # implicit's order of arguments


@pytest.fixture(scope="module")
def with_strangers(data):
    """The same, and then 5 users and 7 items without interactions."""
    return csr_matrix((data.matrix.data, data.indices, [*data.indptr, *[6000] * 5]), (405, 157))


@each_model
def test_what_nobody_knows_is_nobodys_neighbour(model, with_strangers):
    fitted = fit(model, with_strangers, iterations=5)
    assert_array_equal(fitted.item_counts_, np.bincount(with_strangers.indices, minlength=157))
    assert (fitted.similar_items(range(150, 157))[0] == -1).all()
    assert (fitted.similar_users(range(400, 405))[0] == -1).all()
    assert fitted.similar_items(range(150), N=157)[0].max() == 149
    assert fitted.similar_users(range(400), N=405)[0].max() == 399


@each_model
def test_users_without_interactions_get_the_popular_items(model, with_strangers, tmp_path):
    fitted = fit(model, with_strangers, iterations=2)
    popular = np.argsort(-fitted.item_counts_, kind="stable")[:10]
    fitted.save(tmp_path / "model")
    for each in (fitted, load_model(tmp_path / "model")):
        with pytest.warns(UnknownUserWarning, match="1 of 2 users have no interaction"):
            ids, scores = each.recommend([0, 404], with_strangers[[0, 404]])
        assert_array_equal(ids[1], popular)
        assert_array_equal(scores[1], fitted.item_counts_[popular])
        with pytest.warns(UnknownUserWarning):
            assert_array_equal(each.recommend_for([])[0], popular)


@each_model
def test_partial_fit_goes_on_counting(model, data):
    """Whether it is given the interactions of today alone, or all."""
    fitted = fit(model, data.matrix, iterations=1)
    before = fitted.item_counts_.copy()
    today = csr_matrix((np.ones(2, np.float32), ([3, 4], [7, 151])), (400, 152))
    fitted.partial_fit(today, iterations=1)
    assert_array_equal(fitted.item_counts_, [*before, 0, 1])
    both = data.matrix.copy()
    both.resize(400, 152)
    fitted.partial_fit((both + today).tocsr(), iterations=1)
    assert_array_equal(fitted.item_counts_, np.bincount((both + today).indices, minlength=152))


@each_model
@pytest.mark.filterwarnings("error::robirank.UnknownUserWarning")
def test_validation_is_what_evaluate_measures(model, data):
    """Also where users of the validation part have no interaction to learn from."""
    train, valid = split_ratio(data, random_state=0)
    train = train.take(train.user_codes() >= 40)
    fitted = clone(model).set_params(iterations=1)
    fitted.fit(train, show_progress=False, validation=valid)
    result = evaluate(fitted, train=train, test=valid, k=20)
    assert result.without_history.n_users == 40
    assert fitted.history_[-1]["ndcg@20"] == result["ndcg@20"]


@each_model
def test_arguments_of_implicit(model):
    names = list(inspect.signature(model.fit).parameters)
    assert names[:3] == ["user_items", "show_progress", "callback"]


@each_model
def test_same_seed_same_bits_for_any_number_of_threads(model, data):
    one = fit(model, data, num_threads=1, iterations=3)
    for n_threads in (2, 3, 0):
        assert_same(fit(model, data, num_threads=n_threads, iterations=3), one)
    other = fit(model, data, random_state=1, iterations=3)
    assert (other.item_factors != one.item_factors).any()


@each_model
def test_forms_of_the_table_change_nothing(model, data, named):
    fitted = fit(model, data, iterations=3)
    for table in (data.matrix, named):
        assert_same(fit(model, table, iterations=3), fitted)
    for table in (data.matrix.tocoo(), data.matrix.tocsc()):
        with pytest.warns(UserWarning, match=r"user_items is a c.._matrix.*give a CSR matrix"):
            assert_same(fit(model, table, iterations=3), fitted)


@each_model
def test_outside_ids_are_kept(model, data, named):
    fitted = fit(model, named, iterations=1)
    assert fitted.user_ids_[7] == "user 7"
    assert fitted.item_ids_[3] == "item 3"
    fitted.fit(data.matrix, show_progress=False)
    assert fitted.user_ids_ is None
    assert fitted.item_ids_ is None


@each_model
def test_user_without_interactions_has_no_taste(model, data):
    matrix = data.matrix.tolil()
    matrix[5], matrix[:, 9] = 0, 0
    fitted = fit(model, matrix.tocsr(), iterations=3)
    assert_array_equal(fitted.user_factors[5], 0)
    assert np.isfinite(fitted.item_factors[9]).all()


@each_model
def test_saved_model_is_the_same(model, named, tmp_path):
    fitted = fit(model, named, iterations=2)
    fitted.save(tmp_path / "model")
    for loaded in (load_model(tmp_path / "model"), type(model).load(tmp_path / "model")):
        assert type(loaded) is type(model)
        assert loaded.get_params() == fitted.get_params()
        assert_same(loaded, fitted)
        assert (loaded.n_iter_, loaded.best_iter_) == (2, 2)
        assert loaded.user_ids_ == fitted.user_ids_
        assert loaded.item_ids_ == fitted.item_ids_
        loaded.partial_fit(named, iterations=1)
    plain = fit(model, named.matrix, iterations=1)
    plain.save(tmp_path / "plain")
    assert load_model(tmp_path / "plain").user_ids_ is None


@each_model
def test_saved_before_it_is_fitted(model, data, tmp_path):
    new = clone(model).set_params(iterations=1)
    with (tmp_path / "model").open("wb") as file:
        new.save(file)
    loaded = type(model).load(tmp_path / "model")
    assert loaded.get_params() == new.get_params()
    assert_same(loaded.fit(data, show_progress=False), fit(model, data, iterations=1))


@each_model
@pytest.mark.parametrize("way", ["copy", "pickle"])
def test_copies(model, named, way):
    fitted = fit(model, named, iterations=2)
    copied = copy.deepcopy(fitted) if way == "copy" else pickle.loads(pickle.dumps(fitted))
    assert_same(copied, fitted)
    assert copied.history_ == fitted.history_
    assert copied.item_ids_ == fitted.item_ids_
    copied.item_factors[:] = 0
    assert fitted.item_factors.any()


@each_model
def test_parameters(model):
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert not hasattr(twin, "item_factors")
    assert twin.set_params(factors=3).factors == 3
    assert eval(repr(model), {type(model).__name__: type(model)}).get_params() == model.get_params()
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        clone(model).set_params(depth=3)


BAD_CASES = [
    pytest.param(model, changes, says, id=f"{type(model).__name__} {changes}")
    for model in {type(model): model for model in LATENT}.values()
    for changes, says in [*BAD[type(model).__name__], *BAD_FOR_ALL]
]


@pytest.mark.parametrize(("model", "changes", "says"), BAD_CASES)
def test_bad_parameters_are_named(model, changes, says, data):
    ((name, value),) = changes.items()
    with pytest.raises(
        ValueError, match=f"{name} must .*{re.escape(says)}.*{re.escape(repr(value))}"
    ):
        fit(model, data, **changes)


@each_model
def test_bad_tables(model, data):
    with pytest.raises(TypeError, match="user_items must be a sparse users × items matrix"):
        fit(model, data.matrix.toarray())
    with pytest.raises(ValueError, match="no interaction, so there is nothing to learn"):
        fit(model, data.matrix * 0)
    with pytest.raises(ValueError, match="user_items holds -1"):
        fit(model, -data.matrix.sign())


@each_model
def test_nothing_works_before_fit(model, data):
    new = clone(model)
    for call in (
        lambda: new.recommend(0, data.matrix[0]),
        lambda: new.similar_items(0),
        lambda: new.similar_users(0),
        lambda: new.recommend_for([0]),
        lambda: new.by_id,
    ):
        with pytest.raises(NotFittedError):
            call()


@each_model
def test_tomorrow(model, named, tmp_path):
    """Yesterday's model goes on with yesterday's table and today's rows."""
    yesterday = named.take(named.matrix.data > 0).filter(min_item=30)
    fitted = fit(model, yesterday, iterations=5)
    fitted.save(tmp_path / "model")
    today = {"user": ["user 7", "stranger", "stranger"], "item": ["novelty", "item 1", "novelty"]}
    grown = yesterday.extend(today)
    updated = load_model(tmp_path / "model").partial_fit(grown)
    assert updated.user_ids_ == grown.users
    ids, _ = updated.recommend(["stranger", "user 7"], grown, N=5)
    assert "novelty" not in ids
    assert "novelty" in updated.recommend("stranger", filter_already_liked_items=False, N=50)[0]


@each_model
def test_partial_fit_takes_new_users_and_items(model, data):
    known = data.matrix[:300, :120]
    fitted = fit(model, known)
    before = fitted.user_factors.copy()
    grown = data.matrix.tolil()
    grown[:100] = 0  # nothing new of these
    assert fitted.partial_fit(grown.tocsr(), iterations=5) is fitted
    assert fitted.user_factors.shape == (400, 8)
    assert fitted.item_factors.shape == (150, 8)
    assert_array_equal(fitted.user_factors[:100], before[:100])
    assert (fitted.user_factors[100:300] != before[100:]).any(axis=1).mean() > 0.9
    assert fitted.n_iter_ == 5


@each_model
def test_partial_fit_of_an_unfitted_model_is_fit(model, data):
    new = clone(model).set_params(iterations=2).partial_fit(data)
    assert_same(new, fit(model, data, iterations=2))


@each_model
def test_partial_fit_refuses_what_does_not_go_on(model, data, named):
    fitted = fit(model, named, iterations=2)
    before = fitted.user_factors.copy()
    with pytest.raises(ValueError, match=r"at least the 400 users and 150 items.*\(400, 149\)"):
        fitted.partial_fit(data.matrix[:, :149])
    with pytest.raises(ValueError, match="iterations must be a positive integer; got 0"):
        fitted.partial_fit(named, iterations=0)
    shuffled = Interactions.from_matrix(
        data.matrix,
        users=[f"user {n}" for n in range(400)],
        items=[f"item {n}" for n in range(149, -1, -1)],
    )
    with pytest.raises(ValueError, match="must begin with the items of the model"):
        fitted.partial_fit(shuffled)
    with pytest.raises(
        ValueError, match="401 users and the model has ids of 400; give Interactions"
    ):
        fitted.partial_fit(vstack([data.matrix, data.matrix[:1]]).tocsr())
    assert_array_equal(fitted.user_factors, before)
    fitted.partial_fit(data.matrix, iterations=1)  # as many as before: the ids stay
    assert fitted.user_ids_ == named.users


@each_model
def test_resumed_fit_has_the_same_bits(model, data, tmp_path):
    train, valid = split_ratio(data, random_state=0)

    def run(**options):
        new = clone(model).set_params(iterations=5)
        return new.fit(train, show_progress=False, validation=valid, **options)

    def kill(epoch, *_):
        if epoch == 3:
            raise InterruptedError

    saved = {"checkpoint": tmp_path / "fit", "checkpoint_minutes": 1e-9}
    with pytest.raises(InterruptedError):
        run(callback=kill, **saved)
    seen = []
    resumed = run(resume=True, callback=lambda *told: seen.append(told[0]), **saved)
    assert seen == [3, 4]
    assert_same(resumed, run())


@each_model
@pytest.mark.filterwarnings("error")
def test_divergence_leaves_the_model_as_it_was(model, data):
    fitted = fit(model, data, iterations=2)
    before = fitted.user_factors.copy(), fitted.item_factors.copy()
    fitted.set_params(learning_rate=1e30)
    with pytest.raises(DivergenceError, match=r"Lower learning_rate \(it is 1e\+30"):
        fitted.fit(data, show_progress=False)
    assert_array_equal(fitted.user_factors, before[0])
    assert_array_equal(fitted.item_factors, before[1])


@each_model
def test_ctrl_c_leaves_a_usable_model(model, data):
    def press(report):
        if report.epoch == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.warns(UserWarning, match="interrupted in epoch 2 of 30"):
        fitted = clone(model).fit(data, show_progress=False, callbacks=[press])
    assert fitted.n_iter_ == 2
    assert fitted.recommend(0, data.matrix[0], N=3)[0].shape == (3,)


@each_model
def test_a_recalculated_user_gets_what_the_stored_factors_give(model, data):
    fitted = fit(model, data, iterations=200)
    everyone = np.arange(400)
    stored, _ = fitted.recommend(everyone, data.matrix, N=10)
    again, _ = fitted.recommend(everyone, data.matrix, N=10, recalculate_user=True)
    shared = [len({*a} & {*b}) / 10 for a, b in zip(stored.tolist(), again.tolist(), strict=True)]
    # Exact solvers end where fold_in ends; the sampled ones near it.
    assert np.mean(shared) > {"exact": 0.98, "sgd": 0.95, "warp": 0.9}[fitted.solver_]


@each_model
def test_fold_in_does_not_depend_on_who_else_is_folded_in(model, data):
    """One with few items alone, and among the most active; WARP's samples differ a little."""
    fitted = fit(model, data)
    few = int(np.argmin(data.lengths))
    crowd = np.argsort(-data.lengths)[:50]
    alone = fitted.fold_in(data.matrix[few])[0]
    among = fitted.fold_in(data.matrix[[few, *crowd]])[0]
    assert np.linalg.norm(alone) == pytest.approx(np.linalg.norm(among), rel=0.1)


@each_model
def test_folded_in_users_are_recommended_alike(model, data):
    fitted = fit(model, data)
    some = np.arange(0, 400, 8)
    rows = data.matrix[some]
    U = fitted.fold_in(rows)
    assert U.shape == (50, 8)
    assert U.dtype == np.float32
    known, folded = (m @ fitted.item_factors.T for m in (fitted.user_factors[some], U))
    alike = [np.corrcoef(a, b)[0, 1] for a, b in zip(known, folded, strict=True)]
    assert np.median(alike) > 0.9
    assert_array_equal(fitted.fold_in(rows[:2] * 0), 0)
    with pytest.raises(ValueError, match="each of the 150 items; it has 149"):
        fitted.fold_in(rows[:, :149])


@each_model
def test_reasons_add_up_or_are_refused(model, data):
    fitted = fit(model, data)
    if not hasattr(fitted, "rho"):
        with pytest.raises(RobirankError, match="WARP cannot explain its scores"):
            fitted.explain(0, data.matrix, 0)
        return
    for user in (0, 7):
        ids, scores = fitted.recommend(user, data.matrix[user], N=3)
        for item, score in zip(ids, scores, strict=True):
            why = fitted.explain(user, data.matrix, item)
            assert why.score == pytest.approx(score, rel=1e-5)
            assert why.effects.sum() + why.rest == pytest.approx(why.score, rel=1e-5)
            assert why.distance < 0.1
            again = fitted.explain(user, data.matrix, item, recalculate_user=True)
            assert again.distance < 1e-3


@each_model
def test_partial_fit_does_not_ignore_a_cluster(model, data):
    fitted = clone(model).set_params(iterations=1, random_state=0).fit(data, show_progress=False)
    with pytest.raises(ValueError, match="engine must be 'local' in partial_fit; got 'ray'"):
        fitted.set_params(engine="ray").partial_fit(data)
