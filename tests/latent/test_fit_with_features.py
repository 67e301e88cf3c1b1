"""Fits with features: what new users and items get, which bits stay, what is saved and refused."""

import json

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from safetensors import safe_open
from safetensors.numpy import save

import robirank as rr
from latent.featured import TASTES, model, same_bits, shop, taste_of

SOLVERS = ["exact", "sgd", "warp"]
CONTENT = (2.0, 8.0, 0.5)


@pytest.fixture(scope="module")
def tables():
    return shop()


def fitted(tables, solver="exact", *, users=True, items=True, **changes):
    data, of_users, of_items = tables
    features = {"user_features": of_users if users else None}
    features |= {"item_features": of_items if items else None}
    return model(solver, **changes).fit(data, show_progress=False, **features)


@pytest.fixture(scope="module")
def known(tables):
    """A model that knows features of both sides, with content scores."""
    return fitted(tables, content=CONTENT)


class StopError(Exception):
    pass


def stop_after(n):
    def tell(epoch, *_):
        if epoch + 1 == n:
            raise StopError

    return tell


# ------------------------------------------------------------------------ what a fit learns


@pytest.mark.parametrize("solver", SOLVERS)
def test_new_items_are_ranked_by_what_they_are(tables, solver):
    """Most users get the one of four new items first that is of their taste."""
    data, of_users, _ = tables
    estimator = fitted(tables, solver, users=False)
    new = [f"new{taste}" for taste in range(TASTES)]
    asked = data.users[:].tolist()
    best = estimator.recommend(asked, data, N=1, items=new)[0][:, 0]
    tastes = taste_of(of_users)
    pairs = zip(asked, best, strict=True)
    assert np.mean([item == f"new{tastes[user]}" for user, item in pairs]) > 0.7


@pytest.mark.filterwarnings("error")  # they are not unknown
@pytest.mark.parametrize("solver", SOLVERS)
def test_new_users_get_what_is_of_their_taste(tables, solver):
    estimator = fitted(tables, solver, items=False)
    new, tastes = [f"new{taste}" for taste in range(TASTES)], taste_of(tables[2])
    lists = estimator.recommend(new, N=5, filter_already_liked_items=False)[0]
    right = [tastes[item] == taste for taste, row in enumerate(lists) for item in row]
    assert np.mean(right) > 0.7


def test_features_bring_new_users_and_items_into_the_model(known, tables):
    data = tables[0]
    assert len(known.user_ids_) == data.n_users + TASTES
    assert list(known.item_ids_)[-TASTES:] == ["new0", "new1", "new2", "new3"]
    assert known.item_counts_[-TASTES:].tolist() == [0] * TASTES
    assert known.user_factors.shape == (data.n_users + TASTES, 8)
    rows = known.item_centres_.of(known.item_centres_.features)
    assert_array_equal(known.item_factors[-TASTES:], rows[-TASTES:])


def test_the_order_of_the_features_does_not_matter(tables):
    """Only the names of new items would change their order, so none is new here."""
    data, _, of_items = tables
    frame = pl.DataFrame(
        {"id": of_items.ids[:60].tolist(), "taste": of_items.columns["taste"][:60]}
    )
    fits = [
        model().fit(data, show_progress=False, item_features=rr.Features.from_frame(rows))
        for rows in (frame, frame.reverse())
    ]
    scores = [fit.user_factors @ fit.item_factors.T for fit in fits]
    assert_allclose(*scores, atol=1e-2)


def test_users_and_items_without_features_are_fine(tables):
    data, _, of_items = tables
    half = rr.Features.from_frame(
        {"id": of_items.ids[:30].tolist(), "taste": of_items.columns["taste"][:30]}
    )
    estimator = model().fit(data, show_progress=False, item_features=half)
    assert np.isfinite(estimator.item_factors).all()
    assert estimator.recommend("u0", data, N=60)[0].tolist().count(None) == int(data.lengths[0])


def test_a_matrix_has_positions_and_new_items_come_after_them(tables):
    data, _, of_items = tables
    frame = {"id": np.arange(64), "taste": of_items.columns["taste"]}
    by_position = model().fit(
        data.matrix, show_progress=False, item_features=rr.Features.from_frame(frame)
    )
    by_id = fitted(tables, users=False)
    assert_array_equal(by_position.item_factors, by_id.item_factors)
    assert by_position.item_ids_ is None
    assert by_position.recommend(0, data.matrix[0], N=1, items=[60, 61, 62, 63])[0][0] >= 60


def test_a_column_with_one_value_is_fitted_as_if_it_said_nothing(tables):
    data = tables[0]
    flat = {"id": data.items[:].tolist(), "colour": ["red"] * 60, "price": [3.0] * 60}
    estimator = model().fit(data, show_progress=False, item_features=rr.Features.from_frame(flat))
    rows = estimator.item_centres_.of(estimator.item_centres_.features)
    assert_array_equal(rows, np.broadcast_to(rows[0], rows.shape))
    plain = model().fit(data, show_progress=False)
    of_both = [m.user_factors @ m.item_factors.T for m in (estimator, plain)]
    assert np.corrcoef(*map(np.ravel, of_both))[0, 1] > 0.9


# ---------------------------------------------------------------------------- which bits stay


@pytest.mark.parametrize("solver", SOLVERS)
def test_features_that_are_none_change_no_bit(tables, solver, tmp_path):
    data = tables[0]
    absent = model(solver).fit(data, show_progress=False)
    none = fitted(tables, solver, users=False, items=False)
    same_bits(absent, none)
    assert none.item_centres_ is None
    assert none.user_centres_ is None
    assert none.user_content_ is None
    absent.save(tmp_path / "absent")
    none.save(tmp_path / "none")
    assert (tmp_path / "absent").read_bytes() == (tmp_path / "none").read_bytes()


@pytest.mark.parametrize("solver", SOLVERS)
def test_threads_change_no_bit(tables, solver):
    one = fitted(tables, solver, num_threads=1, content=CONTENT)
    same_bits(fitted(tables, solver, num_threads=3, content=CONTENT), one)


def test_another_seed_and_other_features_change_bits(tables):
    first = fitted(tables, users=False)
    assert not np.array_equal(
        fitted(tables, users=False, random_state=1).item_factors, first.item_factors
    )
    assert not np.array_equal(fitted(tables, items=False).user_factors, first.user_factors[:124])


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_resumed_fit_has_the_same_bits(tables, solver, tmp_path):
    data, of_users, of_items = tables
    options = {"user_features": of_users, "item_features": of_items, "show_progress": False}
    through = model(solver, content=CONTENT).fit(data, **options)
    options |= {"checkpoint": tmp_path / "fit"}
    with pytest.raises(StopError):
        model(solver, content=CONTENT).fit(
            data, callback=stop_after(4), checkpoint_minutes=1e-9, **options
        )
    seen = []
    resumed = model(solver, content=CONTENT).fit(
        data, resume=True, callback=lambda *epoch: seen.append(epoch[0]), **options
    )
    assert seen[0] == 3  # the fourth was told of, but not yet saved
    same_bits(resumed, through)
    other = rr.Features.from_frame({"id": data.items[:].tolist(), "taste": ["t0", "t1"] * 30})
    with pytest.raises(rr.ModelFileError, match=r"belongs to another|another"):
        model(solver, content=CONTENT).fit(data, resume=True, **options | {"item_features": other})


def test_validation_watches_the_users_and_items_of_the_table(tables, tmp_path):
    data, of_users, of_items = tables
    train, valid = rr.split_ratio(data, 0.2, random_state=0)
    options = {"user_features": of_users, "item_features": of_items, "validation": valid}
    options |= {"metric": "recall@5", "patience": 3, "show_progress": False}
    estimator = model(iterations=20).fit(train, **options)
    values = [entry["recall@5"] for entry in estimator.history_]
    assert estimator.best_iter_ == 1 + int(np.argmax(values))
    assert len(estimator.item_ids_) == data.n_items + TASTES
    options |= {"checkpoint": tmp_path / "fit"}
    with pytest.raises(StopError):
        model(iterations=20).fit(train, callback=stop_after(3), checkpoint_minutes=1e-9, **options)
    same_bits(model(iterations=20).fit(train, resume=True, **options), estimator)


def test_a_callback_sees_the_rows_of_new_items(tables):
    data, _, of_items = tables
    shapes = []
    model(iterations=2).fit(
        data,
        show_progress=False,
        item_features=of_items,
        callbacks=[lambda report: shapes.append(report.item_factors.shape)],
    )
    assert shapes == [(64, 8)] * 2


# ------------------------------------------------------------------------------ partial_fit


@pytest.mark.parametrize("solver", ["exact", "sgd"])
def test_a_few_new_interactions_do_not_diverge(tables, solver):
    """The loss is compared with that of all items that were ever trained, not of these two."""
    estimator = fitted(tables, solver)
    few = rr.Interactions.from_arrays(["new1", "u3"], ["new2", "i4"])
    estimator.partial_fit(few, iterations=5)
    assert estimator.n_iter_ == 5


@pytest.mark.parametrize("solver", SOLVERS)
def test_partial_fit_goes_on_with_the_features_of_the_fit(tables, solver):
    data = tables[0]
    estimator = fitted(tables, solver)
    late = data.take(data.user_codes() >= 60)
    users = ["una", "new1", "u3", *data.users[late.user_codes()][::-1]]
    items = ["ivy", "new2", "new2", *data.items[late.indices][::-1]]
    before = estimator.user_factors.copy()
    estimator.partial_fit(rr.Interactions.from_arrays(users, items), iterations=2)
    assert len(estimator.user_ids_) == 125
    assert list(estimator.item_ids_)[-1] == "ivy"
    counts = dict(zip(estimator.item_ids_, estimator.item_counts_, strict=True))
    assert (counts["new2"], counts["new1"], counts["ivy"]) == (2, 0, 1)
    assert counts["i0"] == np.count_nonzero(data.indices == 0)
    # A user of the model who is not in the table keeps their factors.
    assert_array_equal(estimator.user_factors[:3], before[:3])
    assert_array_equal(estimator.user_factors[4:60], before[4:60])
    assert not np.array_equal(estimator.user_factors[3], before[3])


def test_partial_fit_puts_new_items_where_their_features_say(tables):
    data, of_users, _ = tables
    estimator = fitted(tables, users=False)
    more = rr.Features.from_frame(
        {"id": [f"late{t}" for t in range(4)], "taste": ["t0", "t1", "t2", "t3"]}
    )
    estimator.partial_fit(data, iterations=1, item_features=more)
    assert list(estimator.item_ids_)[-4:] == ["late0", "late1", "late2", "late3"]
    asked, tastes = data.users[:].tolist(), taste_of(of_users)
    best = estimator.recommend(asked, data, N=1, items=more.ids[:].tolist())[0][:, 0]
    pairs = zip(asked, best, strict=True)
    assert np.mean([item == f"late{tastes[user]}" for user, item in pairs]) > 0.7


def test_partial_fit_takes_features_where_the_fit_had_none(tables):
    """Users who are not in the new table have learned rows, which stay."""
    data, of_users, of_items = tables
    estimator = model().fit(data, show_progress=False)
    before = estimator.user_factors.copy()
    some = data.take(data.user_codes() < 10)
    estimator.partial_fit(some, iterations=1, user_features=of_users, item_features=of_items)
    assert_array_equal(estimator.user_factors[10:120], before[10:])
    assert estimator.recommend("new1", N=3, filter_already_liked_items=False)[0][0] is not None


def test_partial_fit_takes_a_table_with_times_and_a_validation_part(tables):
    """The table of a model with features may be in any order; so may its validation part."""
    estimator = fitted(tables)
    users, items = ["u5", "una", "u1", "u2"], ["i9", "i3", "i9", "i4"]
    more = rr.Interactions.from_arrays(users, items, times=[4, 3, 2, 1])
    valid = rr.Interactions.from_arrays(["u1", "u5"], ["i4", "i3"]).align(more)
    estimator.partial_fit(more, iterations=2, validation=valid, metric="recall@5")
    assert "recall@5" in estimator.history_[0]
    assert list(estimator.user_ids_)[-1] == "una"


def test_partial_fit_goes_on_from_a_checkpoint(known, tables, tmp_path):
    data = tables[0]
    known.save(tmp_path / "model")
    more = data.extend({"user": ["u0", "una"], "item": ["new2", "ivy"]})

    def partly(**options):
        return rr.load_model(tmp_path / "model").partial_fit(more, iterations=4, **options)

    with pytest.raises(StopError):
        partly(callback=stop_after(3), checkpoint=tmp_path / "fit", checkpoint_minutes=1e-9)
    same_bits(partly(checkpoint=tmp_path / "fit", resume=True), partly())


def test_partial_fit_keeps_what_users_have(known, tables, tmp_path):
    """Content scores count what a user had in the fit and has now."""
    known.save(tmp_path / "model")
    estimator = rr.load_model(tmp_path / "model")
    more = rr.Interactions.from_arrays(["u0", "new1"], ["new2", "i7"])
    estimator.partial_fit(more, iterations=1)
    assert estimator.user_content_.weights == CONTENT
    taken = estimator.user_content_.taken
    items = estimator.item_ids_[taken.items[taken.indptr[0] : taken.indptr[1]]]
    data = tables[0]
    assert set(items) == {*data.items[data.matrix[0].indices], "new2"}


# ------------------------------------------------------------------------------------ files


def test_a_model_comes_back_with_the_same_bits(known, tables, tmp_path):
    data = tables[0]
    known.save(tmp_path / "model")
    loaded = rr.load_model(tmp_path / "model")
    same_bits(loaded, known)
    asked = ["u3", "new2", "u70"]
    for answer, expected in zip(
        loaded.recommend(asked, data, N=9), known.recommend(asked, data, N=9), strict=True
    ):
        assert_array_equal(answer, expected)
    someone = {"liked": ["i3", "new1"], "features": {"taste": "t2"}}
    for answer, expected in zip(
        loaded.recommend_for(**someone), known.recommend_for(**someone), strict=True
    ):
        assert_array_equal(answer, expected)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


@pytest.mark.parametrize(
    "columns",
    [
        {"price": np.r_[0.0, np.full(59, 1e-300)]},
        {"price": np.r_[1e38, np.arange(59.0)]},
        {"vector": [[1e-38 * i, 1.0] for i in range(60)]},
        {"price": [None] * 60, "word": [""] * 60},
    ],
)
def test_whatever_can_be_fitted_can_be_loaded_again(tables, columns, tmp_path):
    """One over a spread of 1e-300 was infinite, and the file was refused."""
    data = tables[0]
    frame = {"id": data.items[:].tolist()} | columns
    kinds = {"price": "number"} if "price" in columns else {}
    features = rr.Features.from_frame(frame, kinds=kinds)
    estimator = model(iterations=2).fit(data, show_progress=False, item_features=features)
    estimator.save(tmp_path / "model")
    same_bits(rr.load_model(tmp_path / "model"), estimator)


def changed(path, name, change):
    """Write a model file again with one array changed, or without it."""
    with safe_open(path, framework="numpy") as file:
        own = json.loads(file.metadata()["robirank"])
        arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    own.pop("crc32", None)
    assert name in arrays
    arrays[name] = change(arrays[name])
    arrays = {key: array for key, array in arrays.items() if array is not None}
    path.write_bytes(save(arrays, metadata={"robirank": json.dumps(own)}))


def with_first(value):
    def change(array):
        array = array.copy()
        array[0] = value
        return array

    return change


@pytest.mark.filterwarnings("ignore:.*has no checksum")
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("item_centres_.weights", lambda a: a[:, :-1].copy()),
        ("item_centres_.weights", lambda a: a[:-1]),
        ("item_centres_.weights", lambda a: a * np.nan),
        ("item_centres_.weights", lambda a: a.astype(np.float64)),
        ("item_centres_.weights", lambda a: None),
        ("item_centres_.indptr", lambda a: a[:-1]),
        ("item_centres_.indptr", lambda a: a[:0]),
        ("item_centres_.indptr", with_first(1)),
        ("item_centres_.indices", with_first(1 << 20)),
        ("item_centres_.indices", with_first(-1)),
        ("item_centres_.data", with_first(np.inf)),
        ("item_centres_.encoder.columns", lambda a: a[:-1]),
        ("item_centres_.encoder.columns", lambda a: None),
        ("item_centres_.encoder.0.scale", lambda a: a[:-1]),
        ("user_centres_.indptr", lambda a: a[:-1]),
        ("item_counts_", lambda a: None),
        ("user_counts_", lambda a: None),
        ("user_counts_", lambda a: a[:-1]),
        ("user_content_.n_items", lambda a: a + 1),
        ("user_content_.n_items", lambda a: a - 1),
        ("user_content_.n_items", lambda a: -a),
        ("user_content_.items", with_first(1 << 20)),
        ("user_content_.items", with_first(-1)),
        ("user_content_.items", lambda a: np.append(a, a[:1])),
        ("user_content_.indptr", lambda a: a[:-1]),
        ("user_content_.indptr", lambda a: a[:0]),
        ("user_content_.indptr", lambda a: None),
        ("user_content_.weights", lambda a: -a),
        ("user_content_.weights", lambda a: a[:2]),
        ("user_content_.weights", with_first(np.nan)),
    ],
)
def test_damaged_files_are_refused(known, tmp_path, name, change):
    path = tmp_path / "model"
    known.save(path)
    changed(path, name, lambda array: array)
    same_bits(rr.load_model(path), known)
    changed(path, name, change)
    with pytest.raises(rr.ModelFileError, match="cannot load"):
        rr.load_model(path)


# --------------------------------------------------------------------------------- the search


@pytest.fixture(scope="module")
def large():
    return shop(300, 120, 4000)


def search(large, *, users=False, items=True, estimator=None, **options):
    data, of_users, of_items = large
    features = {"user_features": of_users if users else None}
    features |= {"item_features": of_items if items else None}
    estimator = estimator or rr.LatentRoBiRank(4, iterations=4, random_state=0)
    found = rr.LatentRoBiRankCV(estimator, **options)
    return found.fit(data, show_progress=False, **features)


@pytest.mark.parametrize(
    ("users", "items", "names"),
    [
        (False, True, {"old", "new_items"}),
        (True, False, {"old", "new_users"}),
        (True, True, {"old", "new_items", "new_users"}),
    ],
)
def test_a_search_holds_out_whole_users_and_items(large, users, items, names):
    found = search(large, users=users, items=items)
    columns = found.cv_results_
    assert names <= columns.keys()
    assert columns.keys() & {"old", "new_items", "new_users"} == names
    assert len({len(column) for column in columns.values()}) == 1
    for kind, value, *parts in zip(
        columns["kind"], columns["value"], *(columns[name] for name in sorted(names)), strict=True
    ):
        old = parts[sorted(names).index("old")]
        assert value == pytest.approx(np.mean(parts) if kind == "fit" else old)
    # New ones are ranked by taste: a tenth of the items and of the users, far above chance.
    for name in names - {"old"}:
        assert max(columns[name]) > 0.2
    assert ("content" in found.best_params_) == items


def test_a_search_without_features_has_no_such_columns(large):
    found = search(large, items=False)
    assert found.cv_results_.keys() == {"kind", "split", "regularization", "value", "seconds"}


def test_the_model_of_a_search_is_a_fit_with_what_was_chosen(large):
    data, _, of_items = large
    found = search(large)
    alone = rr.LatentRoBiRank(4, iterations=4, random_state=0, **found.best_params_)
    alone.fit(data, show_progress=False, item_features=of_items)
    same_bits(found.best_estimator_, alone)
    assert alone.content == found.best_params_["content"]


@pytest.mark.parametrize("make", [rr.LatentRoBiRank, rr.WARP])
def test_content_that_is_given_is_not_searched(large, make):
    estimator = make(4, iterations=4, random_state=0, content=(0.0, 0.0, 1.0))
    found = search(large, estimator=estimator)
    assert "content" not in found.best_params_
    assert found.best_estimator_.content == (0.0, 0.0, 1.0)
    assert found.best_estimator_.user_content_ is None


def test_held_out_interactions_may_all_be_with_new_items(large):
    """There is no group of old items then, and the new ones decide."""
    data, _, of_items = large
    train, test = rr.split_new_items(data, 0.3, random_state=0)
    found = search(large, cv=test)
    assert "old" not in found.cv_results_
    assert found.cv_results_["value"] == found.cv_results_["new_items"]
    assert found.best_score_ > 0.2
    fit = rr.LatentRoBiRank(4, iterations=4, random_state=0, content=(0, 0, 1))
    fit.fit(train, show_progress=False, validation=test, item_features=of_items)
    assert fit.regularization_ != fit.regularization_for(train)  # it was searched for


def test_what_is_held_out_may_be_given(large):
    """Features bring users and items into the model that the tables do not have."""
    data = large[0]
    _, test = rr.split_ratio(data, 0.1, random_state=0)
    found = search(large, users=True, cv=test)
    assert found.cv_results_.keys() & {"old", "new_items", "new_users"} == {"old"}
    assert len(found.best_estimator_.user_ids_) == 304
    with pytest.raises(rr.ArgumentError, match="cv must have the shape of user_items"):
        search(large, users=True, cv=test.matrix[:, :50])


def test_a_sample_of_the_users_is_searched_on(large):
    found = search(large, users=True, sample_users=150)
    assert max(found.cv_results_["new_users"]) > 0.2
    assert len(found.best_estimator_.user_ids_) == 304


def test_splits_may_have_other_groups(large, monkeypatch):
    """A fit that diverges has no parts; the columns have None there."""
    from robirank.latent.tune import search as module

    whole, calls = module.whole_fit, []

    def sometimes(*arguments):
        calls.append(1)
        return {"values": [-1.0]} if len(calls) == 1 else whole(*arguments)

    monkeypatch.setattr(module, "whole_fit", sometimes)
    columns = search(large).cv_results_
    assert columns["new_items"].count(None) == 1
    assert len({len(column) for column in columns.values()}) == 1


def test_a_search_goes_on_where_it_was_interrupted(large, tmp_path, monkeypatch):
    from robirank.latent.tune import search as module

    through = search(large)
    data, _, of_items = large
    options = {"item_features": of_items, "checkpoint": tmp_path / "fit", "show_progress": False}
    whole, calls = module.whole_fit, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise StopError
        return whole(*arguments)

    estimator = rr.LatentRoBiRank(4, iterations=4, random_state=0)
    with monkeypatch.context() as patch:
        patch.setattr(module, "whole_fit", interrupted)
        with pytest.raises(StopError):
            rr.LatentRoBiRankCV(estimator).fit(data, **options)
    again = rr.LatentRoBiRankCV(estimator).fit(data, resume=True, **options)
    assert again.best_params_ == through.best_params_
    assert again.cv_results_["new_items"] == through.cv_results_["new_items"]
    same_bits(again.best_estimator_, through.best_estimator_)


# ------------------------------------------------------------------------- what is refused


def frame_of(data, **columns):
    return rr.Features.from_frame({"id": data.items[:].tolist()} | columns)


@pytest.mark.parametrize("door", ["fit", "partial_fit", "search"])
def test_wrong_features_are_refused_at_every_door(tables, door):
    data = tables[0]

    def call(**features):
        if door == "search":
            return rr.LatentRoBiRankCV(model()).search(data, show_progress=False, **features)
        estimator = model() if door == "fit" else model().fit(data, show_progress=False)
        return getattr(estimator, door)(data, show_progress=False, **features)

    for wrong in ({"id": ["i0"]}, np.eye(60), pl.DataFrame({"id": ["i0"], "x": [1]}), "taste"):
        with pytest.raises(TypeError, match="item_features must be Features, such as"):
            call(item_features=wrong)
    others = "others, such as 'u0', 'u1', 'u2'"
    with pytest.raises(
        rr.ArgumentError, match=f"item_features .* 60 .* 'i0', 'i1', 'i2'; .*{others}"
    ):
        call(
            item_features=rr.Features.from_frame({"id": [f"u{i}" for i in range(9)], "x": [1] * 9})
        )
    with pytest.raises(
        rr.ArgumentError, match=r"user_features .* it has 5 others, such as 0, 1, 2"
    ):
        call(user_features=rr.Features.from_array(np.eye(5)))
    with pytest.raises(rr.ArgumentError, match="it has no rows"):
        call(item_features=rr.Features.from_frame({"id": [], "x": []}))
    with pytest.raises(rr.ArgumentError, match="price must hold finite numbers; row 1 has inf"):
        call(item_features=frame_of(data, price=[1.0, np.inf, *np.ones(58)]))
    with pytest.raises(rr.ArgumentError, match="row 0 has 1e\\+300, more than float32 can hold"):
        call(item_features=frame_of(data, price=[1e300, *np.ones(59)]))


def test_a_sparse_matrix_with_an_index_out_of_range_is_refused(tables):
    data = tables[0]
    counts = sp.csr_matrix(np.eye(60, 5))
    features = rr.Features.from_matrix(counts, data.items[:])
    counts.indices[0] = 99
    with pytest.raises(rr.ArgumentError, match=r"counts is damaged: indices\[0\] is 99"):
        model().fit(data, show_progress=False, item_features=features)


@pytest.mark.parametrize(
    ("column", "kind", "message"),
    [
        ([1] * 60, "counts", "x must be a sparse matrix, as Features.from_matrix takes it; got"),
        ([["a", "b"]] * 60, "vector", r"x must hold vectors of numbers; row 0 has \['a', 'b'\]"),
        ([[1.0]] * 59 + [[1e300]], "vector", "x must hold finite numbers; row 59 has inf at 0"),
        (["red"] * 60, "number", "x must hold finite numbers; row 0 has 'red'"),
    ],
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_columns_that_are_not_of_their_kind_are_refused(tables, column, kind, message):
    data = tables[0]
    features = rr.Features.from_frame({"id": data.items[:], "x": column}, kinds={"x": kind})
    with pytest.raises(rr.ArgumentError, match=message):
        model().fit(data, show_progress=False, item_features=features)


def test_features_of_a_matrix_must_have_positions(tables):
    data, _, of_items = tables
    with pytest.raises(rr.ArgumentError, match="item_features must have positions as ids"):
        model().fit(data.matrix, show_progress=False, item_features=of_items)
    gap = rr.Features.from_array(np.random.default_rng(0).random((61, 2)), [*range(60), 62])
    with pytest.raises(rr.ArgumentError, match="new ones from 60 on without a gap; got 62"):
        model().fit(data.matrix, show_progress=False, item_features=gap)
    beyond = rr.Features.from_array(np.eye(2), [60, 61])
    with pytest.raises(rr.ArgumentError, match=r"some of the 60 .* such as 0, 1, 2; .* 60, 61"):
        model().fit(data.matrix, show_progress=False, item_features=beyond)
    negative = rr.Features.from_array(np.eye(2), [-1, 0])
    with pytest.raises(rr.ArgumentError, match=r"ids from 0 to 59.*; got -1"):
        model().fit(data.matrix, show_progress=False, item_features=negative)


@pytest.mark.parametrize(
    "content",
    [(1.0, 2.0), (1, 2, 3, 4), (), "123", 5, (-1, 0, 1), (1, 1, 0), (1, np.nan, 1), (1, "x", 1)],
)
@pytest.mark.parametrize("solver", ["exact", "warp"])
def test_wrong_content_weights_are_refused(tables, solver, content):
    with pytest.raises(rr.ArgumentError, match=r"content must be None or three numbers: .* got"):
        model(solver, content=content).fit(tables[0], show_progress=False)


def test_content_weights_without_features_mean_nothing(tables):
    data, of_users, _ = tables
    plain = model().fit(data, show_progress=False, user_features=of_users)
    weighted = model(content=CONTENT).fit(data, show_progress=False, user_features=of_users)
    asked = data.users[:].tolist()
    assert_array_equal(weighted.recommend(asked, data)[0], plain.recommend(asked, data)[0])


def test_features_of_partial_fit_must_have_the_columns_of_the_fit(known, tables):
    more = rr.Features.from_frame({"id": ["i0"], "colour": ["red"]})
    with pytest.raises(rr.ArgumentError, match=r"must have the columns \['taste'\] of the fit"):
        fitted(tables).partial_fit(tables[0], item_features=more)
    with pytest.raises(TypeError, match="unexpected keyword argument 'features'"):
        known.partial_fit(tables[0], features=more)


def test_a_smaller_matrix_is_no_table_to_go_on_with(tables):
    """Interactions can be put in order by their ids; a matrix must have all positions."""
    data, _, of_items = tables
    frame = {"id": np.arange(64), "taste": of_items.columns["taste"]}
    estimator = model().fit(
        data.matrix, show_progress=False, item_features=rr.Features.from_frame(frame)
    )
    with pytest.raises(rr.ArgumentError, match="at least the 120 users and 64 items"):
        estimator.partial_fit(data.matrix)


def test_a_model_with_features_has_no_objective(tables):
    data, _, of_items = tables
    fitted = model().fit(data, show_progress=False, item_features=of_items)
    with pytest.raises(ValueError, match="user_items has no objective under a model with features"):
        fitted.objective(data)
