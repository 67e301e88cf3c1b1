"""Models that look at the order: what they learn, what they answer, and that nothing is lost."""

import copy
import signal
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix

import robirank as rr
from robirank.data.user_items import as_user_items
from robirank.latent.factors.order import order_of, taste_of
from robirank.latent.train.local import LocalFit
from robirank.latent.train.request import FitOptions
from robirank.latent.tune import order
from robirank.latent.tune.order import best_weight

QUIET = {"show_progress": False}
N_ITEMS = 40


def walks(n_users=400, seed=0):
    """Users who mostly go from an item to the next one, and sometimes jump."""
    rng = np.random.default_rng(seed)
    users, items, times = [], [], []
    for user in range(n_users):
        walk = [int(rng.integers(N_ITEMS))]
        while len(walk) < 8:
            step = 1 if rng.random() < 0.7 else int(rng.integers(N_ITEMS))
            walk.append((walk[-1] + step) % N_ITEMS)
        walk = list(dict.fromkeys(walk))
        users += [user] * len(walk)
        items += walk
        times += range(len(walk))
    return rr.Interactions.from_arrays(users, items, times=times)


def model_of(**params):
    return rr.LatentRoBiRank(**{"factors": 8, "iterations": 10, "random_state": 0, **params})


@pytest.fixture(scope="module")
def parts():
    return rr.split_leave_one_out(walks(), by_time=True)


@pytest.fixture(scope="module")
def model(parts):
    return model_of(order=True).fit(parts[0], **QUIET)


def hit_rate(model, parts, **options):
    train, test = parts
    return rr.evaluate(model, train=train, test=test, k=3, **options)["hit_rate@3"]


def test_what_follows_is_learned(model, parts):
    plain = model_of().fit(parts[0], **QUIET)
    assert plain.order_weight_ == 0.0
    assert model.order_weight_ > 0
    assert hit_rate(model, parts) > hit_rate(plain, parts) + 0.2


def test_an_order_without_meaning_weighs_nothing():
    data = walks(seed=1)
    rng = np.random.default_rng(0)
    shuffled = replace(data, timestamps=rng.permutation(len(data)))
    model = model_of(order=True).fit(shuffled, **QUIET)
    plain = model_of().fit(shuffled, **QUIET)
    assert model.order_weight_ == 0.0
    assert_array_equal(model.item_factors, plain.item_factors)


def test_scores_are_taste_and_what_follows(model, parts):
    train, _ = parts
    P, W = order_of(model.factors_)
    taste = taste_of(model.factors_)
    user = 7
    row = slice(train.indptr[user], train.indptr[user + 1])
    latest = train.indices[row][np.argsort(-train.timestamps[row])][:3]
    c = np.array([1, 1 / 2, 1 / 3])[: len(latest)]
    q = (c / c.sum()) @ P[latest]
    expected = taste.items.rows @ taste.users.rows[user] + model.order_weight_ * (W @ q)
    ids, scores = model.recommend(user, train.matrix[user], N=10)
    assert_allclose(scores, expected[ids], rtol=1e-4, atol=1e-5)


def test_a_given_weight_is_taken(parts):
    model = model_of(order=True, order_weight=0.5).fit(parts[0], **QUIET)
    assert model.order_weight_ == 0.5
    none = model_of(order=True, order_weight=0).fit(parts[0], **QUIET)
    assert_array_equal(none.item_factors, model_of().fit(parts[0], **QUIET).item_factors)


def test_validation_chooses_the_weight(parts):
    train, test = parts
    model = model_of(order=True).fit(train, **QUIET, validation=test)
    assert model.order_weight_ > 0


def test_new_users_are_taken_in_the_order_of_their_lists(model):
    recommend_for = model.by_id.recommend_for
    forth, _ = recommend_for([30, 17, 4], N=3)
    back, _ = recommend_for([4, 17, 30], N=3)
    assert forth[0] == 5
    assert 31 in back
    assert 31 not in forth
    timed, _ = recommend_for([4, 17, 30], N=3, times=[30, 20, 10])
    assert timed.tolist() == forth.tolist()
    several, _ = recommend_for([[30, 17, 4], [4, 17, 30]], N=3, times=[[1, 2, 3], [3, 2, 1]])
    assert several.tolist() == [forth.tolist()] * 2


def test_an_item_that_comes_twice_counts_where_it_came_last(model):
    once, _ = model.by_id.recommend_for([4, 9, 5], N=3)
    twice, _ = model.by_id.recommend_for([5, 4, 9, 5], N=3)
    assert once.tolist() == twice.tolist()


def test_folded_in_users_keep_their_order(model, parts):
    train, _ = parts
    rows = model.fold_in(train)
    d = rows.shape[1] // 2
    assert_allclose(rows[:, d:], model.user_factors[:, d:], rtol=1e-5, atol=1e-6)
    without_times = model.fold_in(train.matrix)
    assert not np.allclose(without_times[:, d:], rows[:, d:], atol=1e-3)
    with_times = hit_rate(model, parts, recalculate_user=True)
    matrices = (train.matrix, parts[1].matrix)
    assert with_times > hit_rate(model, matrices, recalculate_user=True) + 0.1


def test_reasons_add_up_and_name_what_follows(model, parts):
    train, _ = parts
    ids, scores = model.recommend(7, train.matrix[7], N=3)
    why = model.explain(7, train, ids[0])
    assert why.score == pytest.approx(scores[0], rel=1e-4)
    assert why.effects.sum() + why.rest == pytest.approx(why.score, rel=1e-6)
    assert 1 <= np.count_nonzero(why.follows) <= 3
    assert "What usually follows your last items" in str(why)
    assert why.frame()["follows"].drop_nulls().sum() == pytest.approx(why.follows.sum())
    folded = model.by_id.explain_for([3, 4, 5], 6)
    assert folded.distance < 0.01
    assert folded.effects.sum() + folded.rest == pytest.approx(folded.score, rel=1e-4)
    assert abs(folded.rest) < 0.02 * abs(folded.score)
    by_matrix = model.explain(7, train.matrix, ids[0])
    assert by_matrix.score == pytest.approx(why.score)
    assert not by_matrix.follows.any()


def test_a_file_keeps_it(model, parts, tmp_path):
    model.save(tmp_path / "model.safetensors")
    loaded = rr.load_model(tmp_path / "model.safetensors")
    assert loaded.order_weight_ == model.order_weight_
    for ask in ([3, 4, 5], [5, 4, 3]):
        assert_array_equal(loaded.recommend_for(ask)[1], model.recommend_for(ask)[1])


def test_threads_change_nothing(model, parts):
    again = model_of(order=True, num_threads=1).fit(parts[0], **QUIET)
    assert_array_equal(again.item_factors, model.item_factors)
    assert_array_equal(again.user_factors, model.user_factors)


def test_a_fit_goes_on_from_its_checkpoint(model, parts, tmp_path):
    def stop(epoch, seconds, loss):
        if epoch == 4:
            raise KeyboardInterrupt

    file = tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        model_of(order=True).fit(
            parts[0], **QUIET, checkpoint=file, checkpoint_minutes=1e-6, callback=stop
        )
    resumed = model_of(order=True).fit(parts[0], **QUIET, checkpoint=file, resume=True)
    assert_array_equal(resumed.item_factors, model.item_factors)
    again = model_of(order=True).fit(parts[0], **QUIET, checkpoint=file, resume=True)
    assert_array_equal(again.item_factors, model.item_factors)


def test_partial_fit_learns_new_steps(model, parts):
    train, _ = parts
    more = {"user": [900, 900, 901], "item": [3, N_ITEMS, N_ITEMS], "time": [100, 101, 102]}
    grown = train.extend(more, time="time")
    model = model_of(order=True).fit(train, **QUIET).partial_fit(grown, iterations=3)
    assert model.item_factors.shape == (N_ITEMS + 1, 16)
    assert len(model.item_leads_) == N_ITEMS + 1
    table = as_user_items(grown)
    assert_allclose(
        model.user_factors[:, 8:], model.item_leads_.next_rows(table), rtol=1e-5, atol=1e-6
    )


def test_features_and_order_go_together(parts):
    train, _ = parts
    kinds = rr.Features.from_frame(
        {"id": [*range(N_ITEMS), 99], "side": [str(y % 4) for y in range(N_ITEMS)] + ["1"]}
    )
    model = model_of(order=True).fit(train, **QUIET, item_features=kinds)
    assert model.order_weight_ > 0
    assert model.item_factors.shape[1] == 16
    assert hit_rate(model, parts) > 0.3
    ids, _ = model.by_id.recommend_for([3, 4, 5], N=N_ITEMS)
    assert 99 in ids  # an item that is known by its features alone
    why = model.by_id.explain_for([3, 4, 5], 99)
    assert sum(why.item_features.values()) == pytest.approx(why.score, rel=1e-4, abs=1e-5)


def test_records_weigh_by_age(parts):
    train, _ = parts
    weighed = model_of(half_life=2.0).fit(train, **QUIET)
    assert_allclose(weighed.ages_, [2.0, train.timestamps.max()])
    assert not np.allclose(weighed.item_factors, model_of().fit(train, **QUIET).item_factors)
    late, _ = weighed.by_id.recommend_for([3, 9], times=[0, 8])
    early, _ = weighed.by_id.recommend_for([3, 9], times=[8, 0])
    assert late.tolist() != early.tolist()
    why = weighed.by_id.explain_for([3, 9], 4, times=[0, 8])
    assert why.distance < 0.01
    plain = model_of().fit(train, **QUIET)
    assert not hasattr(plain, "ages_")
    assert not hasattr(weighed.set_params(half_life=None).fit(train, **QUIET), "ages_")


def test_people_whose_records_are_very_old_keep_their_taste(parts):
    train, _ = parts
    model = model_of(half_life=2.0).fit(train, **QUIET)
    ids, scores = model.by_id.recommend_for([3, 9], times=[-(10**9)] * 2, unknown_users="error")
    assert len(np.unique(scores)) == len(ids)
    recent, _ = model.by_id.recommend_for([3, 9], times=[-20, -20])
    assert ids[:5].tolist() == recent[:5].tolist()


def test_dates_and_numbers_are_told_apart_where_ages_count(parts):
    train, test = parts
    days = np.datetime64("2025-01-01") + train.timestamps.astype("timedelta64[D]")
    dated = replace(train, timestamps=days)
    for table, half_life, other, given in (
        (train, 2.0, dated, ["2025-01-01"]),
        (dated, "2d", train, [5]),
    ):
        model = model_of(half_life=half_life).fit(table, **QUIET)
        by_id = model.by_id
        kinds = "must have (numbers|dates) as times"
        with pytest.raises(rr.ArgumentError, match=f"^times {kinds}"):
            model.by_id.recommend_for([3], times=given)
        with pytest.raises(rr.ArgumentError, match=f"^times {kinds}"):
            model.by_id.explain_for([3], 4, times=given)
        for ask, about in (
            (by_id.recommend, {"userid": [1], "recalculate_user": True}),
            (by_id.explain, {"userid": 1, "itemid": 3}),
            (model.fold_in, {}),
        ):
            with pytest.raises(rr.ArgumentError, match=f"^user_items {kinds}"):
                ask(user_items=other, **about)
        with pytest.raises(rr.ArgumentError, match=f"^train {kinds}"):
            model.by_id.explain_frame([1], [3], other)
        with pytest.raises(rr.ArgumentError, match=f"^train {kinds}"):
            rr.evaluate(model, train=other, test=test, recalculate_user=True)
        assert rr.evaluate(model, train=other, test=test).n_users == 400  # of stored rows


def test_an_empty_list_leaves_the_times_of_others_alone(model):
    """Times of 2^60 and 2^60 + 1 are one number as floats."""
    liked, late = [[3, 9], []], [[2**60, 2**60 + 1], []]
    lists, _ = model.by_id.recommend_for(liked, times=late, unknown_users="popular")
    alone, _ = model.by_id.recommend_for([3, 9])
    assert lists[0].tolist() == alone.tolist()


@pytest.mark.parametrize("params", [{"order": True}, {"half_life": 3}])
def test_times_are_needed(parts, params):
    with pytest.raises(rr.ArgumentError, match=r"needs a table with times"):
        model_of(**params).fit(parts[0].matrix, **QUIET)
    with pytest.raises(rr.ArgumentError, match=r"must be left out on a cluster"):
        model_of(**params, engine="ray").fit(parts[0], **QUIET)


def test_wrong_times_are_named(model):
    with pytest.raises(rr.ArgumentError, match=r"^times must have a time for each item of liked"):
        model.by_id.recommend_for([3, 4], times=[1])
    for times in (1, "2025-01-01"):
        with pytest.raises(rr.ArgumentError, match=r"^times must be a list for each list of"):
            model.by_id.recommend_for([3], times=times)
    with pytest.raises(rr.ArgumentError, match=r"^times must be a list for each list of"):
        model.by_id.recommend_for([[3], [4]], times=[1, 2])
    with pytest.raises(rr.ArgumentError, match=r"^order_weight must be"):
        model_of(order=True, order_weight=-1).request()


def test_too_few_users_choose_no_weight(parts):
    few = parts[0].take(parts[0].user_codes() < 50)
    with pytest.warns(UserWarning, match="order_weight is 0, as fewer than 100 users"):
        assert model_of(order=True).fit(few, **QUIET).order_weight_ == 0.0


def test_a_gain_that_could_be_chance_is_none():
    rng = np.random.default_rng(0)
    noise = {}

    def values(weight):
        return noise.setdefault(weight, rng.normal(size=200))

    assert best_weight(values) == 0.0


def interrupt_at(epoch):
    """A callback that presses Ctrl-C after an epoch."""

    def press(number, seconds, loss):
        if number == epoch:
            signal.raise_signal(signal.SIGINT)

    return press


def only(table, users, items, times):
    """A table of the same ids and with new records alone."""
    empty = rr.Interactions.from_matrix(csr_matrix(table.shape), table.users, table.items)
    none = replace(empty, timestamps=table.timestamps[:0])
    return none.extend(rr.Interactions.from_arrays(users, items, times=times))


def test_partial_fit_with_one_record_a_user_keeps_what_follows(model, parts):
    train, _ = parts
    updated = copy.copy(model).partial_fit(only(train, [3, 5], [7, N_ITEMS], [50, 51]))
    assert updated.order_weight_ == model.order_weight_
    assert_allclose(updated.item_leads_.rows[:N_ITEMS], model.item_leads_.rows, rtol=1e-5)
    lead = model.item_leads_.rows[train.items.find(7)]
    assert_allclose(updated.user_factors[3, 8:], lead, rtol=1e-5)
    assert_allclose(updated.user_factors[4, 8:], model.user_factors[4, 8:])
    assert not updated.item_factors[N_ITEMS, 8:].any()  # nothing is known of what it follows


def test_partial_fit_that_is_interrupted_keeps_what_follows(model, parts):
    updated = copy.copy(model)
    with pytest.warns(UserWarning, match="interrupted in epoch 2"):
        updated.partial_fit(parts[0], callback=interrupt_at(1))
    assert (updated.stopped_, updated.order_weight_) == ("interrupted", model.order_weight_)
    assert_allclose(updated.item_leads_.rows, model.item_leads_.rows, rtol=1e-5)


def test_a_fit_whose_order_diverges_changes_nothing(model, parts, monkeypatch):
    def diverge(*_):
        raise rr.DivergenceError("what follows")

    monkeypatch.setattr("robirank.latent.base.with_order", diverge)
    updated = copy.copy(model)
    with pytest.raises(rr.DivergenceError):
        updated.partial_fit(parts[0], iterations=1)
    assert updated.factors_ is model.factors_


@pytest.mark.parametrize("given", [None, 0.5])
def test_ctrl_c_while_the_order_is_learned_ends_the_fit(parts, monkeypatch, given):
    class Pressed(LocalFit):
        def run(self, problem):
            self._options = replace(self._options, callback=interrupt_at(1))
            return super().run(problem)

    monkeypatch.setattr("robirank.latent.tune.order.LocalFit", Pressed)
    monkeypatch.setattr("robirank.latent.tune.order._short_fit", None)  # would be called
    model = model_of(order=True, order_weight=given)
    with pytest.warns(UserWarning, match="interrupted"):
        model.fit(parts[0], **QUIET)
    assert (model.stopped_, model.order_weight_) == ("interrupted", given or 0.0)


def test_ctrl_c_while_the_weight_is_chosen_leaves_the_taste(parts, monkeypatch):
    learned, runs = order.run_epochs, []

    def press(*arguments):
        if not runs:
            signal.raise_signal(signal.SIGINT)
        runs.append(arguments)
        return learned(*arguments)

    monkeypatch.setattr("robirank.latent.tune.order.run_epochs", press)
    model = model_of(order=True)
    with pytest.warns(UserWarning, match="interrupted before order_weight was chosen"):
        model.fit(parts[0], **QUIET)
    assert (model.stopped_, model.order_weight_) == ("interrupted", 0.0)
    assert_array_equal(model.item_factors, model_of().fit(parts[0], **QUIET).item_factors)


def test_a_new_fit_forgets_the_checkpoint_of_another_order(model, parts, tmp_path):
    def stop(epoch, seconds, loss):
        raise KeyboardInterrupt

    file = tmp_path / "state"
    often = {"checkpoint": file, "checkpoint_minutes": 1e-6, **QUIET}
    model_of(order=True, order_weight=0.5, iterations=2).fit(walks(seed=1), **often)
    with pytest.raises(KeyboardInterrupt):
        model_of(order=True).fit(parts[0], callback=stop, **often)
    resumed = model_of(order=True).fit(parts[0], **often, resume=True)
    assert_array_equal(resumed.item_factors, model.item_factors)


def test_dislikes_and_order_go_together(parts):
    train, _ = parts
    disliked = csr_matrix((train.matrix[:, :5].toarray() == 0).astype(np.float32))
    disliked.resize(train.shape)
    model = model_of(order=True, half_life=4.0).fit(train, **QUIET, dislikes=disliked)
    assert model.order_weight_ > 0
    ids, _ = model.recommend(np.arange(400), train.matrix, N=10)
    assert not np.asarray(disliked[np.arange(400).repeat(10), ids.ravel()]).any()
    grown = train.extend({"user": [3], "item": [N_ITEMS], "time": [100]}, time="time")
    updated = model.partial_fit(grown, iterations=1)
    assert len(updated.user_dislikes_.table.items) == disliked.nnz


def test_another_weight_is_taken_when_a_fit_goes_on(model, parts):
    train, _ = parts
    weight = model.order_weight_ / 4
    updated = copy.copy(model).set_params(order_weight=weight)
    updated.partial_fit(only(train, [3], [7], [50]))
    assert updated.order_weight_ == weight
    assert_allclose(updated.user_factors[:3, 8:], model.user_factors[:3, 8:] / 2, rtol=1e-5)
    assert_allclose(updated.item_factors[:, 8:], model.item_factors[:, 8:] / 2, rtol=1e-5)


def test_a_time_limit_is_shared_and_named_as_it_was_given(parts):
    options = FitOptions(time_limit=100.0)
    assert 44 < options.limited_to(0.45).seconds_left() <= 45
    assert 11 < options.limited_to(0.5).limited_to(0.25).seconds_left() <= 12.5
    assert FitOptions().limited_to(0.5).seconds_left() == np.inf
    with pytest.warns(UserWarning, match="time_limit") as told:
        model_of(order=True, factors=64).fit(parts[0], **QUIET, time_limit=1e-3)
    said = [str(warning.message) for warning in told]
    assert any("time_limit=0.001" in text for text in said)
    assert all("time_limit=0.001" in text for text in said if "time_limit" in text)
