"""The weights of content scores: found where features say something, none where they do not."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import robirank as rr
from latent.featured import shop, taste_of
from latent.tiny import as_factors
from robirank._workers import Workers
from robirank.data.feature_rows import FeatureRows
from robirank.data.user_items import as_user_items
from robirank.latent.factors.content import NO_CONTENT, Content
from robirank.latent.solvers.problem import TableShape
from robirank.latent.train.local import with_features
from robirank.latent.tune.content import best_content, default_content, search_content
from robirank.latent.tune.judge import Group, Judge
from robirank.latent.tune.path import hold_out
from robirank.latent.tune.settle import settle_by_table
from robirank.latent.tune.split import Split


def problem(train, **params):
    estimator = rr.LatentRoBiRank(4, random_state=0, iterations=6, regularization=0.2, **params)
    return settle_by_table(estimator.request(), train)


def split(features, data, seed=0):
    interactions = with_features(as_user_items(data), None, features)
    return hold_out(interactions, seed, "ndcg@10")


@pytest.fixture(scope="module")
def tables():
    return shop(300, 120, 4000)


def untrained(parts, d=4):
    """Factors that know nothing at all."""
    n_users, n_items = parts.train.shape
    return as_factors(np.zeros((n_users, d), np.float32), np.zeros((n_items, d), np.float32))


def noise(data, seed):
    """Features that no interaction has to do with; every item has a word that others have."""
    rng = np.random.default_rng(seed)
    words = [f"w{w}" for w in rng.integers(0, 12, data.n_items)]
    return rr.Features.from_frame({"id": data.items[:].tolist(), "word": words})


def test_features_that_say_everything_get_weight(tables):
    data, _, of_items = tables
    parts = split(of_items, data)
    content = best_content(untrained(parts), parts, problem(parts.train))
    assert content.old > 0
    assert content.new > 0
    judge = Judge(parts, problem(parts.train))
    before, after = (judge.parts(untrained(parts), c) for c in (NO_CONTENT, content))
    for name in ("old", "new_items"):
        assert after[name] > before[name] + 0.03


def test_features_that_say_nothing_get_no_weight(tables):
    """Popular items are found by factors that know how popular they are."""
    data = tables[0]
    for seed in range(5):
        parts = split(noise(data, seed), data, seed)
        factors = untrained(parts)
        factors.users.rows[:, 0] = 1.0
        factors.items.rows[:, 0] = parts.train.item_counts()
        assert best_content(factors, parts, problem(parts.train)) == NO_CONTENT


def test_a_column_with_one_value_gets_no_weight(tables):
    """All items are alike, so lists are the same under every weight."""
    data = tables[0]
    flat = rr.Features.from_frame({"id": data.items[:].tolist(), "colour": ["red"] * 120})
    parts = split(flat, data)
    assert best_content(untrained(parts), parts, problem(parts.train)) == Content(0.0, 0.0, 1.0)


def test_new_items_have_a_weight_of_their_own(tables):
    """Factors that know the taste of old items, and nothing of new ones, leave these to content."""
    data, of_users, of_items = tables
    parts = split(of_items, data)
    tastes = taste_of(of_users), taste_of(of_items)
    U, V = (
        np.eye(4, dtype=np.float32)[[tastes[side][name] for name in ids]]
        for side, ids in ((0, data.users), (1, [*of_items.ids]))
    )
    V[parts.train.item_counts() == 0] = 0.0
    content = best_content(as_factors(U, 10 * V), parts, problem(parts.train))
    assert content.new > 0


def factors_of_taste(parts, of_users, of_items, data, size):
    """Rows that say the taste, with noise; those of new items are longer or shorter by ``size``."""
    rng = np.random.default_rng(0)
    tastes = taste_of(of_users), taste_of(of_items)
    U, V = (
        np.eye(4, dtype=np.float32)[[tastes[side][name] for name in ids]]
        for side, ids in ((0, data.users), (1, data.items))
    )
    U, V = (rows + 0.4 * rng.standard_normal(rows.shape).astype(np.float32) for rows in (U, V))
    V[parts.train.item_counts() == 0] *= np.float32(size)
    return as_factors(U, V)


@pytest.mark.parametrize("size", [0.8, 1.25, 1.8, 2.2])
def test_new_items_get_the_scale_under_which_both_are_found(tables, size):
    """Scores that are shorter or longer than they should be are made even by the scale."""
    data, of_users, of_items = tables
    parts = split(noise(data, 0), data)
    factors = factors_of_taste(parts, of_users, of_items, data, size)
    content = best_content(factors, parts, problem(parts.train))
    assert content.old == content.new == 0.0  # these features say nothing
    assert 1.3 <= content.scale * size <= 2.0


def test_items_that_nobody_finds_keep_their_scale(tables):
    """The product is zero under every scale where no held-out new item is found."""
    data = tables[0]
    parts = split(noise(data, 0), data)
    factors = untrained(parts)
    factors.users.rows[:, 0] = 1.0
    factors.items.rows[:, 0] = parts.train.item_counts()
    assert best_content(factors, parts, problem(parts.train)).scale == 1.0


def test_without_held_out_items_both_weights_are_one(tables):
    data, _, of_items = tables
    interactions = with_features(as_user_items(data), None, of_items)
    rng = np.random.default_rng(0)
    taken = rng.random(interactions.n_interactions) < 0.1
    parts = Split(interactions.take(~taken), interactions.take(taken), "ndcg@10")
    has_any = parts.train.item_counts()[parts.held_out.items] > 0
    parts = replace(parts, held_out=parts.held_out.take(has_any))
    content = best_content(untrained(parts), parts, problem(parts.train))
    assert content == Content(content.old, content.old, 1.0)
    assert content.old > 0


def test_without_held_out_old_items_their_weight_is_none(tables):
    data, _, of_items = tables
    interactions = with_features(as_user_items(data), None, of_items)
    taken = np.isin(interactions.items, np.arange(0, 120, 9))
    parts = Split(interactions.take(~taken), interactions.take(taken), "ndcg@10")
    content = best_content(untrained(parts), parts, problem(parts.train))
    assert content.old == 0.0
    assert content.new > 0


def test_a_search_that_is_stopped_finds_nothing(tables):
    data, _, of_items = tables
    parts = split(of_items, data)
    with Workers(1) as workers:
        assert search_content(problem(parts.train), parts, workers, lambda: True) is None
        found = search_content(problem(parts.train), parts, workers)
        again = search_content(problem(parts.train), parts, workers)
    assert found == again
    assert isinstance(found, Content)


def shape_of(lengths, features=True):
    """The shape of a table of users with so many interactions."""
    n_items = max(lengths)
    rows = np.array([[1.0] * n + [0.0] * (n_items - n) for n in lengths], np.float32)
    interactions = as_user_items(sparse.csr_matrix(rows))
    if features:
        known = FeatureRows(None, sparse.csr_matrix(np.ones((n_items, 1), np.float32)))
        interactions = replace(interactions, item_features=known)
    return TableShape.of_user_items(interactions)


def test_the_rule_by_hand():
    assert default_content(shape_of([1, 1, 1])) == Content(200.0, 200.0, 1.0)
    assert default_content(shape_of([4, 6])) == Content(8.0, 8.0, 1.0)
    assert default_content(shape_of([20, 20])) == NO_CONTENT  # 200 / 20² is less than one
    assert default_content(shape_of([1, 1, 1], features=False)) == NO_CONTENT


def test_a_fit_takes_the_rule_what_is_given_or_what_is_found():
    few = rr.make_interactions(80, 40, 320, random_state=0)
    words = rr.Features.from_frame({"id": np.arange(40), "word": ["a", "b"] * 20})
    options = {"show_progress": False, "item_features": words}
    settings = {"factors": 4, "iterations": 3, "random_state": 0}
    by_rule = rr.LatentRoBiRank(**settings, solver="sgd").fit(few, **options)
    assert by_rule.user_content_.weights == Content(12.5, 12.5, 1.0)
    assert rr.WARP(**settings).fit(few, **options).user_content_.weights == Content(12.5, 12.5, 1.0)
    given = rr.LatentRoBiRank(**settings, content=(1, 2, 3)).fit(few, **options)
    assert given.user_content_.weights == Content(1, 2, 3)
    big = rr.make_interactions(300, 120, 9000, factors=4, noise=0.05, random_state=0)
    about = rr.Features.from_array(np.random.default_rng(0).random((120, 3)))
    searched = rr.LatentRoBiRank(**settings, regularization=0.2)
    searched.fit(big, show_progress=False, item_features=about)
    weights = searched.user_content_
    assert weights is None or weights.weights.old == 0.0


@pytest.mark.parametrize(("metric", "deep"), [("ndcg@10", "ndcg@100"), ("recall@300", "ndcg@300")])
def test_weights_are_chosen_by_ndcg_of_long_lists_and_their_scale_by_the_metric(
    metric, deep, tables, monkeypatch
):
    data, _, of_items = tables
    parts = replace(split(of_items, data), metric=metric)
    seen, values = [], Group.values

    def noted(self, factors, metric, problem, **options):
        seen.append((metric, options.get("scale") is not None))
        return values(self, factors, metric, problem, **options)

    monkeypatch.setattr(Group, "values", noted)
    best_content(untrained(parts), parts, problem(parts.train))
    assert {name for name, is_scaled in seen if is_scaled} == {metric}
    assert {name for name, is_scaled in seen if not is_scaled} == {deep}


def test_weights_are_found_by_any_metric_among_few_new_items(tables):
    """Recall at 100 of a dozen items is one, whatever their order."""
    data, _, of_items = tables
    parts = replace(split(of_items, data), metric="recall@20")
    assert np.count_nonzero(parts.train.item_counts() == 0) < 20
    assert best_content(untrained(parts), parts, problem(parts.train)).new > 0
