"""Sparse matrices whose indices lead out of them, at every door that takes one."""

import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import robirank as rr
from latent.tiny import tiny
from robirank._sparse import check_sparse, sound_csr

N_USERS, N_ITEMS = 30, 20


def table(dtype=np.int32):
    matrix = sp.random(N_USERS, N_ITEMS, density=0.3, format="csr", random_state=0)
    matrix.indices, matrix.indptr = matrix.indices.astype(dtype), matrix.indptr.astype(dtype)
    assert matrix.has_canonical_format  # SciPy remembers it, whatever comes
    return matrix


def damaged(what, place, value, dtype=np.int64, order="="):
    matrix = in_order(table(dtype), order)
    getattr(matrix, what)[place] = value
    return matrix


def in_order(matrix, order):
    """Bring the bytes of all arrays into that order, which SciPy lets one set and not make."""
    for name in ("data", "indices", "indptr", "row", "col"):
        if hasattr(matrix, name):
            array = getattr(matrix, name)
            setattr(matrix, name, array.astype(array.dtype.newbyteorder(order)))
    return matrix


DAMAGES = {
    "an item behind the last": (("indices", 5, N_ITEMS), "indices[5] is 20; it must be from 0 to"),
    "an item before the first": (("indices", 5, -1, np.int32), "indices[5] is -1"),
    "an item that 32 bits cannot hold": (("indices", 5, 2**32 + 3), "indices[5] is 4294967299"),
    "rows that begin late": (("indptr", 0, 2), "indptr must begin with 0; it begins with 2"),
    "rows that fall": (("indptr", 3, 170), "indptr must never fall; indptr[4] is "),
    "rows before the first": (("indptr", 3, -4, np.int32), "indptr must never fall"),
    "rows that end late": (("indptr", -1, 10**6), "indptr ends with 1000000, and there are 180"),
}


def warp():
    return rr.WARP(4, iterations=1, random_state=0, num_threads=1)


@pytest.fixture(scope="module")
def fitted():
    return {
        "WARP": warp().fit(table(), show_progress=False),
        "LatentRoBiRank": rr.LatentRoBiRank(4, iterations=1).fit(table(), show_progress=False),
    }


def fit(solver):
    model = rr.LatentRoBiRank(4, solver=solver, iterations=1)
    return lambda bad, _: model.fit(bad, show_progress=False)


EVERYONE = np.arange(N_USERS)
DOORS = {
    "fit, exact": ("user_items", fit("exact")),
    "fit, sgd": ("user_items", fit("sgd")),
    "fit, WARP": ("user_items", lambda bad, _: warp().fit(bad, show_progress=False)),
    "validation": ("validation", lambda bad, _: warp().fit(table(), False, validation=bad)),
    "partial_fit": ("user_items", lambda bad, m: m["WARP"].partial_fit(bad)),
    "fold_in, WARP": ("user_items", lambda bad, m: m["WARP"].fold_in(bad)),
    "fold_in": ("user_items", lambda bad, m: m["LatentRoBiRank"].fold_in(bad)),
    "objective": ("user_items", lambda bad, m: m["LatentRoBiRank"].objective(bad)),
    "recommend": ("user_items", lambda bad, m: m["WARP"].recommend(EVERYONE, bad)),
    "evaluate, train": ("train", lambda bad, m: rr.evaluate(m["WARP"], train=bad, test=table())),
    "evaluate, test": ("test", lambda bad, m: rr.evaluate(m["WARP"], train=table(), test=bad)),
    "from_matrix": ("matrix", lambda bad, _: rr.Interactions.from_matrix(bad)),
    "a ranker's fit": ("X", lambda bad, _: rr.RoBiRank().fit(bad, EVERYONE % 2)),
    "a ranker's predict": (
        "X",
        lambda bad, _: rr.RoBiRank().fit(table(), EVERYONE % 2).predict(bad),
    ),
    "a ranker's validation": (
        "validation",
        lambda bad, _: rr.AdaRank(2).fit(
            table().toarray(), EVERYONE % 2, validation=(bad, EVERYONE % 2, EVERYONE)
        ),
    ),
    "the classifier": ("X", lambda bad, _: rr.RobustClassifier().fit(bad, EVERYONE % 2)),
    "normalize_queries": ("X", lambda bad, _: rr.normalize_queries(bad, EVERYONE % 2)),
    "signed_log": ("X", lambda bad, _: rr.signed_log(bad)),
    "RankingData": ("X", lambda bad, _: rr.RankingData(bad, EVERYONE % 2, EVERYONE)),
}


each_order = pytest.mark.parametrize("order", ["<", ">"])
each_door = pytest.mark.parametrize(("name", "door"), DOORS.values(), ids=DOORS.keys())


@each_order
@pytest.mark.parametrize(("change", "message"), DAMAGES.values(), ids=DAMAGES.keys())
@each_door
def test_a_damaged_matrix_is_refused_by_name(name, door, change, message, order, fitted):
    with pytest.raises(ValueError, match=rf"^{name} is damaged: .*{re.escape(message)}"):
        door(damaged(*change, order=order), fitted)


@each_door
def test_an_index_that_is_small_with_its_bytes_swapped_is_refused(name, door, fitted):
    bad = table()
    bad.indices = np.full(bad.nnz, 1 << 24, ">i4")
    with pytest.raises(ValueError, match=rf"^{name} is damaged: indices\[0\] is 16777216"):
        door(bad, fitted)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@each_door
def test_a_sound_matrix_is_taken_in_every_byte_order(name, door, dtype, fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some doors have no queries to learn from
        for order in ("<", ">"):
            door(in_order(table(dtype), order), fitted)


@each_order
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
def test_the_same_matrix_from_every_byte_order(form, order):
    matrix = in_order(table().asformat(form), order)
    taken = check_sparse("plays", matrix)
    assert all(
        getattr(taken, name).dtype.isnative
        for name in ("data", "indices", "indptr", "row", "col")
        if hasattr(taken, name)
    )
    assert (taken.toarray() == table().toarray()).all()
    assert (sound_csr("plays", matrix).toarray() == table().toarray()).all()


@pytest.mark.parametrize("form", ["csc", "coo", "bsr"])
def test_other_formats_are_checked_before_they_are_converted(form):
    matrix = table().asformat(form)
    where = matrix.col if form == "coo" else matrix.indices
    where[3] = 1000
    what = "col" if form == "coo" else "indices"
    with pytest.raises(ValueError, match=rf"plays is damaged: {what}\[3\] is 1000"):
        sound_csr("plays", matrix)


def test_lists_of_lists_are_checked_once_they_are_converted():
    matrix = table().tolil()
    matrix.rows[4] = [1, 1000]
    matrix.data[4] = [1.0, 1.0]
    with pytest.raises(ValueError, match=r"plays is damaged: .* is 1000"):
        sound_csr("plays", matrix)


def test_indices_of_another_type_and_values_that_are_missing():
    matrix = table()
    matrix.indices = matrix.indices.astype(float)
    with pytest.raises(ValueError, match="indices must be a list of integers; it is float64"):
        check_sparse("plays", matrix)
    matrix = table()
    matrix.data = matrix.data[:-1]
    with pytest.raises(ValueError, match="180 indices and 179 values"):
        check_sparse("plays", matrix)


def test_a_sound_matrix_is_not_copied_and_room_at_its_end_is_left_out():
    matrix = table()
    assert check_sparse("plays", matrix) is matrix
    assert np.shares_memory(sound_csr("plays", matrix).indices, matrix.indices)
    roomy = table()
    roomy.indices, roomy.data = np.append(roomy.indices, 7777), np.append(roomy.data, 1.0)
    assert (sound_csr("plays", roomy) != matrix).nnz == 0
    model, other = (warp().fit(m, show_progress=False) for m in (matrix, roomy))
    np.testing.assert_array_equal(model.item_factors, other.item_factors)


def test_indices_that_are_no_longer_sorted():
    """SciPy does not look again where it once found them sorted."""
    matrix = table()
    begin, end = matrix.indptr[:2]
    matrix.indices[begin:end] = matrix.indices[begin:end][::-1].copy()
    model = tiny(np.ones((N_USERS, 1)), np.arange(N_ITEMS)[:, None])
    found = model.recommend(0, matrix[:1], N=N_ITEMS)[0]
    assert not set(found) & set(matrix.indices[begin:end])


def test_interactions_are_checked_before_positions_become_32_bits_wide():
    data = rr.Interactions.from_matrix(table())
    indices = data.indices.astype(np.int64)
    indices[0] += 2**32
    with pytest.raises(ValueError, match=r"indices\[0\] is \d+; it must be from 0 to 19"):
        rr.Interactions(data.users, data.items, data.indptr, indices)


def test_a_long_list_of_trials():
    """As many as the parameter's own limit allows."""
    rr.WARP(4, iterations=1, max_trials=5000).fit(table(), show_progress=False)
