"""Rules against a full sort; what they say of short answers, and what they refuse."""

import copy
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array, csr_matrix

import robirank as rr
from latent.factors.full_sort import Plain, full_sort, groups_of
from latent.factors.test_content import made as made_with_content
from latent.factors.test_content import plain_scores
from latent.factors.test_shards import write
from robirank.data.user_items import as_user_items
from robirank.latent.factors.factor_model import FactorModel
from robirank.latent.factors.factors import Side
from robirank.latent.factors.plain_search import best_by, masked
from robirank.latent.factors.topk import inverse_norms, top_rows

# ------------------------------------------------------------------ the same as a full sort


def drawn_rules(data, rng, m, n_users):
    """Rules as `Rules` and as the reference has them, and what each user may get."""
    table = {
        "id": rng.permutation(m + 3)[: max(1, m - m // 8)],  # unknown ones, and some are missing
    }
    n = len(table["id"])
    table["stock"] = rng.integers(0, 4, n).tolist()
    table["brand"] = [f"b{k}" if k else None for k in rng.integers(0, 1 + m // 3, n)]
    table["kind"] = rng.choice(["new", "sale", "old"], n, p=[0.2, 0.2, 0.6]).tolist()
    tags = [rng.choice([*"xyz", None], rng.integers(0, 4)).tolist() for _ in range(n)]
    table["tags"] = pl.Series([None if len(t) == 3 else t for t in tags], dtype=pl.List(pl.String))
    table["price"] = [float(p) if p else None for p in rng.integers(0, 4, n)]

    def of_items(name, default):
        row = dict(zip(table["id"].tolist(), list(table[name]), strict=True))
        return [row.get(i) if row.get(i) is not None else default for i in range(m)]

    stock, brand, kind = of_items("stock", -1), of_items("brand", ""), of_items("kind", "")
    tags = [[t for t in tags if t] for tags in of_items("tags", [])]
    has_stock, is_sale = np.array(stock) > 0, np.array(kind) == "sale"
    allowed, arguments = np.ones(m, bool), {}
    if data.draw(st.booleans(), "where"):
        allowed &= has_stock
        arguments["allow"] = [pl.col("stock") > 0]
    if data.draw(st.booleans(), "deny"):
        denied = np.flatnonzero(rng.random(m) < data.draw(st.sampled_from([0.1, 0.9, 1.0])))
        allowed[denied] = False
        allowed &= ~is_sale
        arguments["deny"] = [denied, {"kind": ["sale"]}]
    own = np.ones((n_users, m), bool)
    if data.draw(st.booleans(), "allow by user"):
        mask = rng.random((n_users, m)) < data.draw(st.sampled_from([0.0, 0.1, 0.8]))
        own &= mask
        arguments["allow"] = [*arguments.get("allow", []), csr_array(mask)]
    if data.draw(st.booleans(), "deny by user"):
        mask = rng.random((n_users, m)) < 0.3
        own &= ~mask
        arguments["deny"] = [*arguments.get("deny", []), csr_matrix(mask.astype(float))]
    caps, at_most = [], {}
    for key, column in (("brand", brand), ("kind", kind)):
        if data.draw(st.booleans(), f"cap of {key}"):
            names = sorted(set(column) - {""})
            groups = np.array([names.index(x) if x else -1 for x in column])
            at_most[key] = data.draw(st.integers(0, 4))
            caps.append((groups, at_most[key]))
    if data.draw(st.booleans(), "cap of new"):
        at_most["kind:new"] = data.draw(st.integers(1, 3))
        caps.append((np.where(np.array(kind) == "new", 0, -1), at_most["kind:new"]))
    if data.draw(st.booleans(), "cap of tags"):
        at_most["tags"] = data.draw(st.integers(0, 4))
        caps.append(([["xyz".index(t) for t in set(t)] for t in tags], at_most["tags"]))
    minimums, at_least = [], {}
    if data.draw(st.booleans(), "minimums of tags"):
        for tag, number in (("x", 1), ("y", 2)):
            minimums.append((np.array([tag in t for t in tags]), number))
            at_least[f"tags:{tag}"] = number
    for key, column in (("kind:new", kind), ("brand:b1", brand)):
        if data.draw(st.booleans(), f"minimum of {key}"):
            at_least[key] = data.draw(st.integers(1, 3))
            minimums.append((np.array(column) == key.split(":")[1], at_least[key]))
    ties = None
    if data.draw(st.booleans(), "ties"):
        arguments["ties"] = "price"
        ties = np.array(of_items("price", np.inf))
    pins = {}
    if data.draw(st.booleans(), "pins"):
        places = rng.permutation(np.arange(1, 9))[:3]
        pins = dict(zip(places.tolist(), rng.permutation(m)[:3].tolist(), strict=False))
    plain = Plain(allowed, caps, minimums, pins, ties)
    rules = rr.Rules(table, at_most=at_most, at_least=at_least, pin=pins, **arguments)
    return rules, plain, own


def contradict(plain, length):
    """Whether pins are denied, or there is no place for all that must come."""
    pins = [*plain.pins.values()]
    pinned = [([g for i in pins for g in groups_of(of[i])], cap) for of, cap in plain.caps]
    too_many = any(groups.count(g) > cap for groups, cap in pinned for g in groups)
    return not plain.allowed[pins].all() or too_many


def whole_numbers(rng, *shape):
    return rng.integers(-2, 3, shape).astype(np.float32)


@settings(max_examples=300)
@given(data=st.data())
def test_agrees_with_a_full_sort(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    n, m, d = (data.draw(st.integers(*limits)) for limits in ((1, 7), (1, 90), (1, 4)))
    U, V = whole_numbers(rng, n, d), whole_numbers(rng, m, d)
    U[rng.random(n) < 0.2] = 0  # users without interactions
    counts = rng.integers(0, 4, m).astype(np.int32)
    length = data.draw(st.integers(1, 1 + m * 5 // 4))
    model = FactorModel.of(U, V, item_counts=counts)
    try:
        rules, plain, own = drawn_rules(data, rng, m, n)
        liked = rng.random((n, m)) < 0.2
        options = {"rules": rules, "unknown_users": "popular"}
        if data.draw(st.booleans()):
            options["filter_items"] = rng.permutation(m)[: m // 4]
            own[:, options["filter_items"]] = False
        got = recommended(model, np.arange(n), csr_matrix(liked), length, **options)
    except rr.ArgumentError as error:
        assume("contradict" not in str(error))
        raise
    assert not contradict(plain, length)
    own &= ~liked
    scores = U @ V.T
    wanted = min(length, m)
    for x in range(n):
        if U[x].any():
            expected = full_sort(plain, scores[x], own[x], wanted)
        else:
            expected = full_sort(plain, counts.astype(float), own[x], wanted, counts > 0)
        assert_array_equal(got[0][x], expected[0])
        assert_array_equal(got[1][x], expected[1])
    same, others = csr_matrix(liked), [as_on_a_card(model), threaded(model), model.prepare()]
    for other, users in zip(others, (np.arange(n), np.arange(n)[::-1], [n - 1]), strict=True):
        again = recommended(other, users, same[users], length, **options)
        assert_array_equal(again[0], got[0][users])
        assert_array_equal(again[1], got[1][users])


def recommended(model, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rr.ShortAnswerWarning)
        return model.recommend(*arguments, **options)


class PlainItems(Side):
    """Items with a search as a card has it: without groups, with masks and ranks from outside."""

    def search(
        self, queries, n_best, *, excluded=None, only=None, ranks=None, groups=None, **options
    ):
        def search(places, n):
            without = None if excluded is None else excluded.rows(places)
            sums = masked(None, only, places)
            found = queries.take(places)
            return top_rows(
                found.rows, found.asked, self.rows, n, excluded=without, added=sums, **options
            )

        return best_by(search, len(queries.asked), n_best, len(self.rows), ranks)


def as_on_a_card(model):
    items = model.factors_.items
    model = copy.copy(model)
    model.factors_ = replace(model.factors_, items=PlainItems(items.rows, counts=items.counts))
    return model


def threaded(model):
    model = copy.copy(model)
    model.num_threads = 3
    return model


@pytest.mark.parametrize("seed", range(8))
def test_models_in_shards(tmp_path, seed):
    rng = np.random.default_rng(seed)
    U, V = whole_numbers(rng, 20, 2), whole_numbers(rng, 33, 2)
    one = rr.load_model(write(tmp_path, (U, V)))
    brand, price = rng.integers(0, 5, 33), rng.integers(0, 2, 33)
    table = {"id": np.arange(33), "brand": brand, "price": price}
    rules = rr.Rules(
        table,
        allow=[{"brand": [0, 1, 2, 4]}, csr_matrix(rng.random((20, 33)) < 0.8)],
        deny=[3, 17],
        at_most={"brand": 2, "brand:1": 1},
        at_least={"price:1": 2},
        ties="price",
    )
    liked = csr_matrix(rng.random((20, 33)) < 0.1)
    expected = recommended(one, np.arange(20), liked, 6, rules=rules, unknown_users="empty")
    shards = rr.ShardedModel(tmp_path)
    got = recommended(shards, np.arange(20), liked, 6, rules=rules, unknown_users="empty")
    assert_array_equal(got[0], expected[0])
    assert_array_equal(got[1], expected[1])
    assert (got[0] >= 0).any()


@pytest.mark.parametrize("seed", range(4))
def test_content_scores(seed):
    factors = made_with_content(seed, whole=True)
    model = FactorModel()
    model.factors_ = factors
    n, m = len(factors.users), len(factors.items)
    rng = np.random.default_rng(seed)
    kind, allowed = rng.integers(0, 4, m), rng.random(m) < 0.8
    rules = rr.Rules(
        {"id": np.arange(m), "kind": kind, "good": allowed},
        allow=pl.col("good"),
        at_most={"kind": 2},
        at_least={"kind:3": 1},
    )
    plain = Plain(allowed, [(kind, 2)], [(kind == 3, 1)])
    ids, values = recommended(
        model, np.arange(n), N=5, filter_already_liked_items=False, rules=rules
    )
    scores, known = plain_scores(factors), np.delete(np.arange(n), unknown_of(factors))
    for x in known:
        expected, best = full_sort(plain, scores[x], np.ones(m, bool), 5)
        np.testing.assert_allclose(values[x], np.float32(best), rtol=1e-5, atol=1e-5)
        equal = np.isclose(scores[x][ids[x]], scores[x][expected], rtol=1e-5)
        assert ((ids[x] == expected) | equal).all()


def unknown_of(factors):
    return factors.users.queries(np.arange(len(factors.users), dtype=np.int32)).without_knowledge()


# ------------------------------------------------------------------------- a shop


SHOP = pl.DataFrame(
    {
        "id": ["tea", "rum", "gin", "ale", "oat", "pie"],
        "brand": ["A", "A", "A", "B", "B", None],
        "kind": ["hot", "strong", "strong", "new", "new", "hot"],
        "stock": [3, 0, 5, 1, 2, None],
    }
)
# The best are tea, rum, gin, ale, oat, pie, in this order, for everyone but zoe, who has nothing.
PLAYS = rr.Interactions.from_matrix(
    csr_matrix(np.array([[1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0]])),
    ["ann", "bob", "zoe"],
    SHOP["id"],
)


@pytest.fixture
def model():
    made = FactorModel.of(
        np.array([[1], [1], [0]], np.float32),
        np.arange(6, 0, -1, dtype=np.float32)[:, None],
        item_counts=np.array([4, 3, 2, 1, 0, 0], np.int32),
    )
    made.user_ids_, made.item_ids_ = PLAYS.users, PLAYS.items
    return made


def names_for(model, user, rules, n=6, **options):
    names, _ = recommended(model, user, PLAYS, n, unknown_users="popular", rules=rules, **options)
    return [name for name in names.tolist() if name is not None]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, ["rum", "gin", "ale", "oat", "pie"]),
        ({"deny": ["gin"]}, ["rum", "ale", "oat", "pie"]),
        ({"allow": ["gin", "tea", "pie"]}, ["gin", "pie"]),
        ({"allow": pl.col("stock") > 0}, ["gin", "ale", "oat"]),
        (
            {"deny": pl.col("stock") > 2},
            ["rum", "ale", "oat", "pie"],
        ),  # pie: unknown
        ({"allow": {"brand": ["A", "B"], "kind": "new"}}, ["ale", "oat"]),
        ({"deny": [["gin"], {"kind": ["new"]}, pl.col("stock").is_null()]}, ["rum"]),
        ({"at_most": {"brand": 1}}, ["rum", "ale", "pie"]),  # pie has no brand
        ({"at_most": {"kind:new": 0}}, ["rum", "gin", "pie"]),
        ({"pin": {1: "pie", 3: "ale"}}, ["pie", "rum", "ale", "gin", "oat"]),
        ({"pin": {2: "tea", 3: "oat"}}, ["rum", "gin", "oat", "ale", "pie"]),  # ann has tea
        ({"pin": {5: "rum"}, "allow": ["rum", "pie"]}, ["pie", "rum"]),  # no gaps
        ({"allow": PLAYS}, []),
        ({"deny": csr_matrix(np.array([[1, 1, 0, 0, 0, 0]] * 3))}, ["gin", "ale", "oat", "pie"]),
    ],
)
def test_what_ann_gets(model, arguments, expected):
    assert names_for(model, "ann", rr.Rules(SHOP, **arguments)) == expected


def test_minimums_take_the_best_of_their_group_and_stand_by_score(model):
    rules = rr.Rules(SHOP, at_least={"kind:new": 1, "kind:hot": 1})
    assert names_for(model, "ann", rules, 3) == ["rum", "ale", "pie"]
    assert names_for(model, "ann", rules, 4) == ["rum", "gin", "ale", "pie"]
    rules = rr.Rules(SHOP, at_least={"kind:new": 2}, at_most={"brand": 1})
    assert names_for(model, "ann", rules, 3) == ["rum", "ale", "pie"]  # both new ones are of B


def test_places_past_the_end_do_not_count(model):
    rules = rr.Rules(SHOP, pin={4: "pie"})
    assert names_for(model, "ann", rules, 4) == ["rum", "gin", "ale", "pie"]
    assert names_for(model, "ann", rules, 3) == ["rum", "gin", "ale"]


def test_users_without_interactions(model):
    rules = rr.Rules(SHOP, deny=["tea"], at_most={"brand": 1})
    assert names_for(model, "zoe", rules) == ["rum", "ale"]  # nobody had oat and pie
    rules = rr.Rules(SHOP, pin={1: "oat"}, at_least={"kind:hot": 2})
    assert names_for(model, "zoe", rules, 4) == ["oat", "tea", "rum", "pie"]  # unless asked for
    names, _ = model.recommend("zoe", PLAYS, 3, unknown_users="empty", rules=rules)
    assert names.tolist() == [None] * 3
    with pytest.raises(rr.ArgumentError, match="without interactions"):
        model.recommend("zoe", PLAYS, 3, unknown_users="error", rules=rules)


def test_every_way_of_asking_has_the_same_rules(model):
    rules = rr.Rules(SHOP, allow=pl.col("stock") > 0, at_most={"brand": 1}, pin={1: "oat"})
    assert names_for(model, "bob", rules, 2) == ["oat", "tea"]
    assert names_for(model.by_id, "bob", rules, 2) == ["oat", "tea"]
    assert recommended(model, 1, PLAYS.matrix[1], 2, rules=rules)[0].tolist() == [4, 0]
    frame = model.recommend_frame(["bob", "ann"], PLAYS, 2, rules=rules)
    assert frame["item"].to_list() == ["oat", "tea", "oat", "gin"]
    assert names_for(model, "bob", rules, 2, items=["tea", "oat", "rum"]) == ["oat", "tea"]
    assert names_for(model, "bob", rules, 2, filter_items=["oat"]) == ["tea", "ale"]


def test_new_users_and_new_items():
    from latent.featured import model as estimator
    from latent.featured import shop

    table, users, items = shop()
    fitted = estimator().fit(table, show_progress=False, user_features=users, item_features=items)
    frame = {"id": [*items.ids], "taste": items.columns["taste"]}
    rules = rr.Rules(frame, at_most={"taste": 2}, at_least={"taste:t3": 2}, pin={1: "new2"})
    names, _ = fitted.recommend_for(["i1", "i2"], 6, rules=rules)
    tastes = dict(zip(items.ids, items.columns["taste"], strict=True))
    assert names[0] == "new2"
    assert sorted(tastes[name] for name in names)[-2:] == ["t3", "t3"]
    folded, _ = fitted.recommend(["u3"], table, 6, recalculate_user=True, rules=rules)
    assert folded[0, 0] == "new2"
    by_user = rr.Rules(deny=csr_matrix((len(fitted.factors_.users), len(fitted.factors_.items))))
    with pytest.raises(rr.ArgumentError, match=r"rules have a row for each user .*deny"):
        fitted.recommend_for(["i1"], 6, rules=by_user)
    fitted.add_items(rr.Features.from_frame({"id": ["today"], "taste": ["t1"]}))
    rules = rr.Rules({"id": ["today"], "new": [True]}, at_least={"new:true": 1})
    assert "today" in fitted.recommend("u0", table, 5, rules=rules)[0]


def test_masks_of_users_by_outside_ids(model):
    """Users and items are looked up; who is not in the table has no items there."""
    seen = rr.Interactions.from_arrays(["bob", "ann", "bob"], ["tea", "rum", "gone"])
    assert names_for(model, "bob", rr.Rules(deny=seen), 2) == ["rum", "gin"]
    assert names_for(model, "ann", rr.Rules(allow=seen), 2) == ["rum"]
    assert names_for(model, "zoe", rr.Rules(allow=seen), 2) == []


@pytest.mark.parametrize("frame", [SHOP, SHOP.lazy(), SHOP.to_dict(as_series=False)])
def test_tables_of_any_kind(model, frame):
    rules = rr.Rules(frame, allow=pl.col("stock") > 0, ties=-pl.col("stock"))
    assert names_for(model, "ann", rules) == ["gin", "ale", "oat"]
    assert names_for(model, "ann", rr.Rules(pd.DataFrame(SHOP.to_dict(as_series=False)))) != []


def test_ids_are_the_same_as_integers_and_as_text():
    model = FactorModel.of(np.ones((1, 1), np.float32), np.ones((3, 1), np.float32))
    rules = rr.Rules({"id": ["2", "0"], "stock": [1, 0]}, allow=pl.col("stock") > 0)
    with pytest.warns(rr.ShortAnswerWarning):
        names, _ = model.recommend(0, N=3, filter_already_liked_items=False, rules=rules)
    assert names.tolist() == [2, -1, -1]


@pytest.mark.parametrize("column", ["good", "since", "price"])
def test_groups_by_columns_of_any_type(model, column):
    table = SHOP.with_columns(
        good=pl.col("stock") > 2,
        since=pl.lit("2024-05-17").str.to_date(),
        price=pl.Series([0.5, 0.5, float("nan"), 0.5, 0.5, None]),
    )
    counts = rr.Rules(table, at_most={column: 1}).explain(model, "ann", PLAYS, N=6)
    assert counts[f"at_most {column}"] == {"good": 2, "since": 4, "price": 2}[column]


def test_ties(model):
    model.item_factors = np.ones((6, 1), np.float32)
    assert names_for(model, "ann", rr.Rules(SHOP, ties="stock")) == [
        "rum",
        "ale",
        "oat",
        "gin",
        "pie",
    ]
    by_brand = rr.Rules(SHOP, ties=pl.col("brand").rank(descending=True))
    assert names_for(model, "ann", by_brand) == ["ale", "oat", "rum", "gin", "pie"]


# -------------------------------------------------------------------- lists of values


def with_tags(*tags):
    return SHOP.with_columns(tags=pl.Series([*tags], dtype=pl.List(pl.String)))


TAGGED = with_tags(["x"], ["x", "y"], ["y"], ["x", "x"], [None], None)


def test_an_item_counts_for_each_value_of_a_list(model):
    assert names_for(model, "ann", rr.Rules(TAGGED, at_most={"tags": 1})) == ["rum", "oat", "pie"]
    assert names_for(model, "bob", rr.Rules(TAGGED, at_most={"tags:y": 1})) == [
        "tea",
        "rum",
        "ale",
        "oat",
    ]
    rules = rr.Rules(TAGGED, at_least={"tags:x": 1, "tags:y": 1})
    assert names_for(model, "ann", rules, 1) == ["rum"]  # one item is of both
    rules = rr.Rules(TAGGED, at_least={"tags:x": 2, "tags:y": 2})
    assert names_for(model, "ann", rules, 3) == ["rum", "gin", "ale"]
    rules = rr.Rules(TAGGED, deny={"tags": ["y"]})
    assert names_for(model, "ann", rules) == ["ale", "oat", "pie"]
    tags = TAGGED["tags"].to_list()
    frame = pd.DataFrame({"id": SHOP["id"].to_list(), "tags": tags})
    for kind in (frame, frame.to_dict(orient="list")):
        rules = rr.Rules(kind, at_most={"tags": 1})
        assert names_for(model, "ann", rules) == ["rum", "oat", "pie"]


def test_lists_that_contradict(model):
    """All of y are in x here: two of y cannot come where one of x may."""
    table = with_tags(["x"], ["x", "y"], ["x", "y"], ["z"], None, None)
    with pytest.raises(rr.ArgumentError, match="at_least contradicts at_most"):
        rr.Rules(table, at_most={"tags:x": 1}, at_least={"tags:y": 2})
    assert rr.Rules(TAGGED, at_most={"tags:x": 1}, at_least={"tags:y": 2}) is not None
    with pytest.raises(rr.ArgumentError, match="pin contradicts at_most tags"):
        names_for(model, "ann", rr.Rules(table, at_most={"tags": 1}, pin={1: "tea", 2: "rum"}))
    with pytest.raises(rr.ArgumentError, match="rules contradict N=2: at_least tags:x=3 needs 3"):
        names_for(model, "ann", rr.Rules(TAGGED, at_least={"tags:x": 3}), 2)


# ---------------------------------------------------------------------- similar items


@settings(max_examples=100)
@given(data=st.data())
def test_similar_items_agree_with_a_full_sort(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    m, d = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 4))
    V = np.eye(d, dtype=np.float32)[rng.integers(0, d, m)]  # with exact cosines
    V *= rng.choice([-2, 0, 1, 4], (m, 1)).astype(np.float32)
    model = FactorModel.of(np.ones((2, d), np.float32), V)
    length = data.draw(st.integers(1, 12))
    try:
        rules, plain, _ = drawn_rules(data, rng, m, 2)
        assume(not any(rule.by_user is not None for rule in rules.filters))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rr.ShortAnswerWarning)
            got = model.similar_items(np.arange(m), length, rules=rules)
    except rr.ArgumentError as error:
        assume("contradict" not in str(error))
        raise
    scale = inverse_norms(V)
    for item in range(m):
        cosines = V[item] @ (V * scale[:, None]).T
        if scale[item]:
            expected = full_sort(plain, cosines * scale[item], scale > 0, min(length, m))
            assert_array_equal(got[0][item], expected[0])
            assert_array_equal(got[1][item], expected[1])
        else:
            assert (got[0][item] == -1).all()


def test_similar_items_of_a_shop(model):
    model.item_factors = np.float32([[4, 0], [4, 1], [3, 2], [2, 3], [1, 4], [0, 4]])
    rules = rr.Rules(SHOP, allow=pl.col("stock") > 0, at_most={"brand": 1})
    with pytest.warns(rr.ShortAnswerWarning) as caught:
        names, scores = model.similar_items(["rum", "ale"], 3, rules=rules)
    assert names.tolist() == [["tea", "ale", None], ["ale", "gin", None]]
    assert (np.diff(scores[:, :2]) <= 0).all()
    assert str(caught[0].message).startswith("2 of 2 items got fewer than 3 items. Taken away of")
    assert "for the first of them, itemid[0]: no interactions 2, allow 1, at_most" in str(
        caught[0].message
    )
    rules = rr.Rules(SHOP, pin={1: "ale"})
    names, _ = model.similar_items("tea", 2, rules=rules, filter_items=["tea"])
    assert names.tolist() == ["ale", "rum"]
    with pytest.raises(rr.ArgumentError, match=r"rules have a row for each user \(deny\)"):
        model.similar_items("tea", 2, rules=rr.Rules(deny=PLAYS))
    with pytest.raises(rr.ArgumentError, match=r"rules must be Rules\(…\); got dict"):
        model.similar_items("tea", 2, rules={})


# ----------------------------------------------------------- short answers, and why


def test_a_short_answer_says_why(model):
    rules = rr.Rules(SHOP, allow=pl.col("stock") > 0, deny=["oat"], at_most={"brand": 1})
    with pytest.warns(rr.ShortAnswerWarning) as caught:
        names, _ = model.recommend("bob", PLAYS, 4, rules=rules)
    assert names.tolist() == ["tea", "ale", None, None]
    counts = {"all items": 6, "user_items": 1, "allow": 1, "deny": 1, "at_most brand": 1}
    counts |= {"lower score": 0, "answer": 2}
    assert caught[0].message.counts == counts
    assert str(caught[0].message) == (
        "the user got fewer than 4 items. Taken away of 6 items: user_items 1, allow 1, deny 1, "
        "at_most brand 1. rules.explain tells it for any user"
    )
    assert caught[0].filename == __file__
    assert rules.explain(model, "bob", PLAYS, N=4) == counts
    assert rules.explain(model, "bob", PLAYS, N=1) == counts | {
        "lower score": 1,
        "answer": 1,
    }


def test_what_arguments_leave_out_is_counted_too(model):
    rules = rr.Rules(deny=["rum"])
    counts = rules.explain(model, "ann", PLAYS, items=["rum", "gin"], N=5)
    assert counts["all items"] == 6
    assert (counts["user_items"], counts["items"], counts["deny"]) == (1, 3, 1)
    assert sum(counts.values()) == 6 + 6
    counts = rules.explain(model, "zoe", PLAYS, N=5, unknown_users="popular", filter_items=["tea"])
    assert (counts["filter_items"], counts["deny"], counts["no interactions"]) == (1, 1, 2)


def test_of_several_users_the_first_short_one_is_told(model):
    of_bob = csr_matrix(np.array([[0] * 6, [0, 1, 1, 0, 0, 0], [0] * 6]))
    rules = rr.Rules(SHOP, deny=of_bob, at_least={"kind:new": 2})
    with pytest.warns(rr.ShortAnswerWarning) as caught:
        model.recommend(["ann", "bob"], PLAYS, 5, rules=rules)
    assert len(caught) == 1
    assert str(caught[0].message) == (
        "1 of 2 users got fewer than 5 items. Taken away of 6 items for the first of them, "
        "userid[1]: user_items 1, deny 2. rules.explain tells it for any user"
    )


def test_a_minimum_that_cannot_be_reached_is_told(model):
    rules = rr.Rules(SHOP, deny=["oat"], at_least={"kind:new": 2})
    with pytest.warns(rr.ShortAnswerWarning, match="fewer than the 2 items of at_least kind:new"):
        names, _ = model.recommend("ann", PLAYS, 3, rules=rules)
    assert names.tolist() == ["rum", "gin", "ale"]


def test_full_answers_warn_of_nothing(model):
    rules = rr.Rules(SHOP, deny=["oat"], at_least={"kind:new": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.recommend(["ann", "bob"], PLAYS, 3, rules=rules)
        model.recommend("zoe", PLAYS, 3, rules=rules, unknown_users="empty")


def test_all_denied_is_an_empty_answer(model):
    rules = rr.Rules(SHOP, allow=pl.col("stock") > 100)
    with pytest.warns(rr.ShortAnswerWarning, match="allow 5"):
        names, _ = model.recommend("ann", PLAYS, 3, rules=rules)
    assert names.tolist() == [None] * 3
    with pytest.warns(rr.ShortAnswerWarning):
        assert model.recommend_frame(["ann", "bob"], PLAYS, 3, rules=rules).is_empty()


# ---------------------------------------------------------- made once, used everywhere


def test_used_by_several_models_and_threads_at_once(model):
    other = FactorModel.of(np.ones((3, 1), np.float32), np.arange(9.0, dtype=np.float32)[:, None])
    rules = rr.Rules({"id": [*SHOP["id"], *range(9)], "x": [0, 1] * 7 + [1]}, deny=pl.col("x") > 0)
    assert rules.bound_to(model.factors_) is rules.bound_to(model.prepare().factors_)

    def ask(_):
        names, _ = model.recommend("bob", PLAYS, 2, rules=rules)
        items, _ = other.recommend(0, N=2, filter_already_liked_items=False, rules=rules)
        return names.tolist(), items.tolist()

    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(ask, range(64))]
    assert answers == [(["tea", "gin"], [6, 4])] * 64


def test_models_of_the_same_items_and_other_users(model):
    """A binding is of one model, also where only the users tell two of them apart."""
    other = copy.copy(model)
    other.user_ids_ = rr.Interactions.from_arrays(["zoe", "bob", "ann"], [1, 1, 1]).users
    rules = rr.Rules(deny=rr.Interactions.from_arrays(["bob"], ["tea"]))
    assert names_for(model, "bob", rules, 1) == ["rum"]
    assert names_for(other, "zoe", rules, 1) == ["tea"]
    assert names_for(other, "bob", rules, 1) == ["rum"]
    assert names_for(model, "ann", rules, 1) == ["rum"]


def test_copies_and_changed_catalogues(model):
    rules = rr.Rules(SHOP, deny=pl.col("stock") < 1, pin={1: "ale"})
    before = names_for(model, "ann", rules, 3)
    assert before == names_for(model, "ann", pickle.loads(pickle.dumps(rules)), 3)
    smaller = copy.copy(model).remove_items(["gin"])
    table = PLAYS.matrix[:, [0, 1, 3, 4, 5]]
    names = recommended(smaller, [0], table[[0]], 3, rules=rules)[0]
    assert smaller.item_ids_[names[0]].tolist() == ["ale", "oat", "pie"]
    assert names_for(model, "ann", rules, 3) == before


# ------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"allow": pl.col("stok") > 0}, "allow names the column 'stok'.*did you mean 'stock'"),
        ({"deny": {"colour": ["red"]}}, "deny names the column 'colour'.*it has"),
        ({"at_most": {"brnad": 2}}, "at_most='brnad' names the column 'brnad'"),
        ({"at_least": {"kynd:new": 2}}, "at_least='kynd:new' names the column 'kynd'"),
        ({"ties": "prize"}, "ties names the column 'prize'"),
        ({"at_most": {"brand": -1}}, r"at_most\['brand'\] must be an integer from 0 on; got -1"),
        ({"at_most": {"brand": 1.5}}, r"at_most\['brand'\] must be a positive integer; got 1.5"),
        (
            {"at_least": {"kind:new": 0}},
            "at_least.*kind:new.* must be a positive integer; got 0",
        ),
        ({"at_least": {"kind": 1}}, "at_least needs a value of the column.*got 'kind'"),
        ({"at_most": {3: 1}}, "at_most must name columns; got 3"),
        ({"at_most": ["brand"]}, "at_most must be a dict"),
        ({"pin": ["tea"]}, "pin must be a dict"),
        ({"pin": {0: "tea"}}, "a place of pin must be a positive integer; got 0"),
        ({"allow": pl.col("stock")}, "allow must be a condition.*it gives Int64"),
        ({"allow": pl.col("kind") > 3}, "allow cannot be computed from the table of items"),
        (
            {"deny": {"stock": ["three"]}},
            "deny must name values of column 'stock', which holds",
        ),
        ({"allow": "tea"}, "allow must be a condition .* got 'tea'"),
        ({"allow": True}, "allow must be a condition .* got True"),
        ({"at_most": {"maker": 1}}, "at_most='maker' needs one value for each item.*Struct"),
        (
            {"at_least": {"kind:new": 3}, "at_most": {"kind": 2}},
            "contradicts at_most: at_least kind:new asks for 3 items, and at_most kind lets",
        ),
    ],
)
def test_errors_name_what_is_wrong(arguments, message):
    table = SHOP.with_columns(maker=pl.struct("brand", "kind"))
    with pytest.raises(rr.ArgumentError, match=message):
        rr.Rules(table, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pin": {1: "rum"}, "allow": pl.col("stock") > 0}, "pin contradicts allow.*at place 1"),
        ({"pin": {2: "tea"}, "deny": ["tea"]}, "pin contradicts deny.*at place 2"),
        ({"pin": {1: "tea", 2: "rum"}, "at_most": {"brand": 1}}, "pin contradicts at_most brand"),
        ({"pin": {1: "tea", 2: "tea"}}, "pin has 'tea' at two places, 1 and 2"),
        ({"at_least": {"kind:new": 4}}, "rules contradict N=3: at_least kind:new=4 needs 4 places"),
        (
            {"at_least": {"kind:new": 1, "kind:hot": 2}, "pin": {3: "gin"}},
            "contradict N=3: at_least kind:hot=2 needs 3 places of column 'kind' beside 1 pinned",
        ),
        ({"deny": csr_matrix((2, 6))}, r"deny must have a row for each of the 3 users.*\(2, 6\)"),
    ],
)
def test_contradictions_are_errors_and_no_empty_answers(model, arguments, message):
    rules = rr.Rules(SHOP, **arguments)
    with pytest.raises(rr.ArgumentError, match=message):
        model.recommend("ann", PLAYS, 3, rules=rules)


def test_ids_that_are_not_there(model):
    with pytest.raises(rr.UnknownIdError, match=r"pin\[1\]: there is no item 'beer'"):
        model.recommend("ann", PLAYS, 3, rules=rr.Rules(pin={1: "beer"}))
    with pytest.warns(rr.UnknownIdWarning, match="deny: 1 of 2 items unknown"):
        model.recommend("ann", PLAYS, 3, rules=rr.Rules(deny=["beer", "rum"]))
    with pytest.raises(rr.ArgumentError, match="id must differ from row to row"):
        rr.Rules({"id": ["a", "a"], "x": [1, 2]})
    with pytest.raises(rr.ArgumentError, match="ident"):
        rr.Rules(SHOP, "ident")
    with pytest.raises(rr.ArgumentError, match="allow names a column, for which Rules needs"):
        rr.Rules(allow={"brand": ["A"]})
    with pytest.raises(rr.ArgumentError, match=r"rules must be Rules\(…\); got dict"):
        model.recommend("ann", PLAYS, 3, rules={"deny": ["tea"]})
    with pytest.raises(rr.ArgumentError, match="userid must be one user"):
        rr.Rules().explain(model, ["ann", "bob"], PLAYS)


@settings(max_examples=50)
@given(data=st.data())
def test_the_search_of_cards_knows_masks_and_ranks(data):
    """As PyTorch computes it without a card; `tests/gpu` has the same on one."""
    torch = pytest.importorskip("torch")
    from robirank.latent.factors import topk_on_card

    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    n, m = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 300))
    queries, rows = whole_numbers(rng, n, 3), whole_numbers(rng, m, 3)
    only = as_user_items(csr_matrix(rng.random((n, m)) < 0.5))
    ranks = rng.permutation(m).astype(np.int32) if data.draw(st.booleans()) else None
    options = {
        "excluded": as_user_items(csr_matrix(rng.random((n, m)) < 0.2)),
        "only": only if data.draw(st.booleans()) else None,
        "ranks": ranks,
        "added": whole_numbers(rng, n, m) if data.draw(st.booleans()) else None,
    }
    allowed = rng.random(m) < data.draw(st.sampled_from([0.1, 1.0]))
    arguments = queries, np.arange(n, dtype=np.int32), rows, data.draw(st.integers(1, m))
    expected = top_rows(*arguments, allowed=allowed, **options)
    candidates = np.flatnonzero(allowed).astype(np.int32)
    found = topk_on_card.top_rows(
        *arguments, candidates=candidates, device=torch.device("cpu"), **options
    )
    assert_array_equal(found[0], expected[0])
    assert_array_equal(found[1], expected[1])
