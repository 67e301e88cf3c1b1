"""The door of the latent models: which tables come in, and as what."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from robirank import Interactions
from robirank.data.user_items import UserItems, as_user_items

TABLE = np.array([[0, 3, 0, 1], [0, 0, 0, 0], [7, 0, 0, 1]])


def dense(interactions):
    """The table again."""
    table = np.zeros((interactions.n_users, interactions.n_items))
    users = np.repeat(np.arange(interactions.n_users), interactions.user_counts())
    table[users, interactions.items] = interactions.weights_of(slice(None))
    return table


def check_form(interactions):
    assert interactions.indptr.dtype == np.int64
    assert interactions.items.dtype == np.int32
    assert interactions.weight is None or interactions.weight.dtype == np.float32
    for begin, end in zip(interactions.indptr[:-1], interactions.indptr[1:], strict=True):
        assert (np.diff(interactions.items[begin:end]) > 0).all()


@pytest.mark.parametrize(
    "form", ["csr", "csc", "coo", "lil", "dok", "bsr", "csr_array", "coo_array", "Interactions"]
)
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float32, np.float64])
def test_every_form_and_type_gives_the_same_records(form, dtype):
    if form == "Interactions":
        given = Interactions.from_matrix(sp.csr_matrix(TABLE.astype(dtype).astype(np.float32)))
    elif form.endswith("_array"):
        given = getattr(sp, form)(TABLE.astype(dtype))
    else:
        given = getattr(sp, f"{form}_matrix")(TABLE.astype(dtype))
    interactions = as_user_items(given, "count")
    check_form(interactions)
    assert (interactions.n_users, interactions.n_items, interactions.n_interactions) == (3, 4, 4)
    assert_array_equal(dense(interactions), TABLE.astype(dtype).astype(float))
    assert as_user_items(given).weight is None
    assert_array_equal(as_user_items(given).items, interactions.items)


def test_weightings():
    matrix = sp.csr_matrix(TABLE)
    assert_array_equal(dense(as_user_items(matrix, "binary")), TABLE > 0)
    assert_array_equal(dense(as_user_items(matrix, "count")), TABLE)
    assert_allclose(dense(as_user_items(matrix, "log")), np.log2(1 + TABLE))  # 3 → 2, 7 → 3
    with pytest.raises(ValueError, match=r'"binary", "log" or "count"; got \'square\''):
        as_user_items(matrix, "square")


def stored_twice():
    """Unsorted, with an entry stored twice and a stored zero."""
    indices, data = [3, 1, 3, 0, 2], [1.0, 2.0, 4.0, 0.0, 5.0]
    return sp.csr_matrix((data, indices, [0, 4, 4, 5]), shape=(3, 4))


def test_duplicates_add_up_and_stored_zeros_are_nothing():
    interactions = as_user_items(stored_twice(), "count")
    check_form(interactions)
    assert_array_equal(dense(interactions), [[0, 2, 0, 5], [0, 0, 0, 0], [0, 0, 5, 0]])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("form", ["csr", "coo"])
def test_duplicates_of_small_integers_do_not_overflow(dtype, form):
    data = np.array([100, 100, 100], dtype)
    if form == "csr":
        matrix = sp.csr_matrix((data, [0, 0, 0], [0, 3]), shape=(1, 2))
    else:
        matrix = sp.coo_matrix((data, ([0, 0, 0], [0, 0, 0])), shape=(1, 2))
    assert_array_equal(dense(as_user_items(matrix, "count")), [[300, 0]])


@pytest.mark.parametrize("weighting", ["binary", "count"])
def test_the_matrix_of_the_caller_is_not_changed(weighting):
    matrix = stored_twice()
    before = [a.copy() for a in (matrix.indptr, matrix.indices, matrix.data)]
    as_user_items(matrix, weighting)
    for now, then in zip((matrix.indptr, matrix.indices, matrix.data), before, strict=True):
        assert_array_equal(now, then)


@pytest.mark.parametrize("bad", [-1, np.nan, np.inf, -0.5])
def test_counts_that_are_none(bad):
    table = TABLE.astype(float)
    table[2, 0] = bad
    with pytest.raises(ValueError, match=rf"user_items holds {bad}.*finite and not negative"):
        as_user_items(sp.csr_matrix(table))
    with pytest.raises(ValueError, match=rf"validation holds {bad}"):
        as_user_items(sp.csr_matrix(table), name="validation")


def test_negative_integers():
    with pytest.raises(ValueError, match="holds -3"):
        as_user_items(sp.csr_matrix(-3 * np.eye(2, dtype=np.int64)))


@pytest.mark.parametrize("given", [TABLE, TABLE.tolist(), None, "table.csv"])
def test_other_things_than_tables(given):
    with pytest.raises(TypeError, match=f"or Interactions; got {type(given).__name__}"):
        as_user_items(given)


def test_tables_without_users_or_items_and_odd_types():
    for shape in ((0, 3), (3, 0)):
        with pytest.raises(ValueError, match=rf"shape is \({shape[0]}, {shape[1]}\)"):
            as_user_items(sp.csr_matrix(shape))
    with pytest.raises(ValueError, match=r"shape is \(4,\)"):
        as_user_items(sp.coo_array(np.ones(4)))
    with pytest.raises(ValueError, match="must hold real numbers; its type is complex128"):
        as_user_items(sp.csr_matrix(TABLE * 1j))
    with pytest.raises(ValueError, match="2147483648 items; at most"):
        as_user_items(sp.csr_matrix((1, 2**31)))


def test_a_table_without_any_interaction():
    interactions = as_user_items(sp.csr_matrix((3, 4)), "count")
    check_form(interactions)
    assert interactions.n_interactions == 0
    assert interactions.user_counts().tolist() == [0, 0, 0]
    assert interactions.item_counts().tolist() == [0, 0, 0, 0]


def test_int64_indices():
    matrix = sp.csr_matrix(TABLE)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    check_form(as_user_items(matrix))


tables = st.integers(1, 7).flatmap(
    lambda n: st.lists(
        st.lists(st.integers(0, 2), min_size=n, max_size=n), min_size=1, max_size=7
    ).map(np.array)
)


@given(tables, st.data())
def test_records_of_some_users(table, data):
    interactions = as_user_items(sp.csr_matrix(table), "count")
    users = np.array(
        data.draw(st.lists(st.integers(0, len(table) - 1), unique=True)), dtype=np.int64
    )
    starts, items, weights = interactions.of_users(users)
    assert starts[0] == 0
    assert starts[-1] == len(items) == len(weights)
    for row, user in enumerate(users):
        own = slice(starts[row], starts[row + 1])
        assert_array_equal(items[own], np.flatnonzero(table[user]))
        assert_array_equal(weights[own], table[user][table[user] > 0])


@given(tables, st.data())
def test_part_of_the_users_and_items(table, data):
    first = data.draw(st.integers(0, len(table) - 1))
    n_items = data.draw(st.integers(1, table.shape[1]))
    for weighting in ("count", "binary"):
        part = as_user_items(sp.csr_matrix(table), weighting).from_user(first, n_items)
        check_form(part)
        wanted = table[first:, :n_items]
        assert_array_equal(dense(part), wanted if weighting == "count" else wanted > 0)


@given(tables)
def test_counts_of_users_and_items(table):
    interactions = as_user_items(sp.csr_matrix(table))
    assert_array_equal(interactions.user_counts(), (table > 0).sum(axis=1))
    assert_array_equal(interactions.item_counts(), (table > 0).sum(axis=0))
    assert isinstance(interactions, UserItems)


@given(tables, st.data())
def test_rows_and_entries_are_those_of_the_table(table, data):
    """The same as numpy's indexing of the dense table, users in any order and more than once."""
    interactions = replace(as_user_items(sp.csr_matrix(table), "count"), cut=(2, 7))
    users = data.draw(st.lists(st.integers(0, len(table) - 1)))
    chosen = np.array(
        data.draw(st.tuples(*[st.booleans()] * interactions.n_interactions)), dtype=bool
    )
    some, kept = interactions.rows(np.array(users, dtype=np.int32)), interactions.take(chosen)
    assert_array_equal(dense(some), table[users])
    left = table.copy()
    left[left > 0] *= chosen
    assert_array_equal(dense(kept), left)
    for result in (some, kept):
        check_form(result)
        assert (result.n_items, result.cut) == (table.shape[1], None)


def test_counts_become_weights():
    counted = UserItems(np.array([0, 2]), np.array([1, 4], np.int32), np.float32([1, 3]), 5)
    assert counted.weighted("log").weight.tolist() == [1, 2]
    assert counted.weighted("binary").weight is None
    assert replace(counted, weight=None).weighted("count").weight.tolist() == [1, 1]
