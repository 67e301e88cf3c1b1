"""The native core refuses arguments that would make it read or write out of bounds."""

from functools import partial as made  # objects of the core, made when they are needed

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robirank import _core
from robirank.engine.state import empty_rows

I32, I64, F32 = np.int32, np.int64, np.float32


def ints(*values):
    return np.array(values, I32)


def floats(*shape):
    return np.zeros(shape, F32)


LISTS = {
    "offsets": np.array([0, 2, 5]),
    "starts": np.array([0, 1, 3]),
    "relevant": ints(1, 0, 2),
    "weight": np.ones(3),
}
USER_ITEMS = {
    "indptr": np.array([0, 2, 3]),
    "items": ints(0, 4, 2),
    "weight": np.ones(3, F32),
    "n_items": 5,
}
ROWS = {"rows": empty_rows(2, 3), "sums": floats(2), "penalty": floats(2)}
STEPS = {"factors": 3, "negatives": 4, "rate_u": 0.1, "rate_v": 0.1, "cell_items": 2}
WARP_STEPS = {
    "factors": 3,
    "weight_after": np.ones(3, F32),
    "margin": 1.0,
    "rate_u": 0.1,
    "rate_v": 0.1,
    "cell_items": 2,
}


def factor_rows(n, width=3):
    return _core.FactorRows(empty_rows(n, width), floats(n), floats(n))


def call(name, **changes):
    """Call a native function with good arguments, but for some; see `made`."""
    arguments = GOOD[name] | changes
    arguments = {key: v() if isinstance(v, made) else v for key, v in arguments.items()}
    return getattr(_core, name)(**arguments)


#: A call of every native function that relies on what is in its arrays, with good arguments.
GOOD = {
    "ListBatch": LISTS,
    "listwise": {
        "scores": np.zeros(5),
        "lists": made(_core.ListBatch, **LISTS),
        "rho": "log",
        "method": "auto",
        "hessian": None,
        "gradient": True,
        "num_threads": 1,
    },
    "linear": {
        "X": np.zeros((7, 2)),
        "w": np.zeros(2),
        "lists": made(_core.ListBatch, **LISTS),
        "rows": np.array([0, 6, 3, 3, 1]),
        "rho": "log",
        "method": "auto",
        "num_threads": 1,
    },
    "listwise_block": {
        "scores": floats(2, 4),
        "starts": np.array([0, 1, 3]),
        "relevant": ints(1, 0, 2),
        "weight": np.ones(3),
        "rho": "log",
        "num_threads": 1,
    },
    "adam": {
        "rows": floats(2, 3),
        "first": floats(2, 3),
        "second": floats(2, 3),
        "gradient": floats(2, 3),
        "penalty": floats(2),
        "rate": 0.1,
        "b1": 0.5,
        "b2": 0.5,
        "correction": 1.0,
    },
    "point_sums": {
        "scores": floats(2, 3),
        "offsets": np.array([0, 1, 2]),
        "points": floats(2),
        "t": np.zeros(2),
    },
    "InnerSums": {"U": floats(2, 4), "offsets": np.array([0, 1, 2]), "points": floats(2)},
    "topk": {
        "users": floats(4, 2),
        "user_rows": ints(0, 3),
        "items": floats(5, 2),
        "item_rows": ints(1, 4),
        "item_scale": floats(5),
        "excluded": (np.array([0, 1, 2]), ints(1, 2)),
        "wanted": 2,
        "num_threads": 1,
    },
    "FactorRows": ROWS,
    "UserItems": USER_ITEMS,
    "SgdSteps": STEPS,
    "WarpSteps": WARP_STEPS,
    "sgd_task": {
        "users": made(factor_rows, 2),
        "items": made(factor_rows, 3),
        "user_items": made(_core.UserItems, **USER_ITEMS),
        "popularity": floats(3),
        "position": ints(4, 3, 2, 1, 0),
        "first": 2,
        "steps": made(_core.SgdSteps, **STEPS),
        "key": 0,
    },
    "warp_task": {
        "users": made(factor_rows, 2),
        "items": made(factor_rows, 3),
        "user_items": made(_core.UserItems, **USER_ITEMS),
        "position": ints(4, 3, 2, 1, 0),
        "first": 2,
        "steps": made(_core.WarpSteps, **WARP_STEPS),
        "key": 0,
    },
    "interaction_scores": {
        "U": floats(2, 16),
        "V": floats(3, 16),
        "user_items": made(_core.UserItems, **USER_ITEMS),
        "position": ints(4, 3, 2, 1, 0),
        "first": 2,
        "out": floats(3),
    },
    "letor_features": {
        "values": np.ones(3),
        "columns": ints(0, 1, 0),
        "offsets": USER_ITEMS["indptr"],
    },
    "ranksvm": {
        "scores": np.zeros(3),
        "rank": ints(1, 0, 0),
        "offsets": np.array([0, 1, 3]),
        "weight": np.ones(2),
        "ranks": 2,
        "num_threads": 1,
    },
    "rankboost_potential": {
        "scores": np.zeros(3),
        "grade": ints(1, 0, 0),
        "offsets": np.array([0, 1, 3]),
        "weight": np.ones(2),
        "num_threads": 1,
    },
    "rankboost_weak_ranker": {
        "codes": np.array([[0, 2, 1]], np.uint32),
        "cuts": np.array([2]),
        "potential": np.zeros(3),
        "loss": 1.0,
        "num_threads": 1,
    },
    "metric_along": {
        "base": np.zeros(3),
        "direction": np.zeros(3),
        "steps": np.zeros(2),
        "value": np.zeros(3),
        "offsets": np.array([0, 1, 3]),
        "scale": np.ones(2),
        "discount": np.ones(2),
        "average": True,
        "num_threads": 1,
    },
    "group_interactions": {
        "user": ints(0, 1, 1),
        "item": ints(0, 1, 0),
        "count": None,
        "time": np.zeros(3),
        "n_users": 2,
        "n_items": 2,
        "num_threads": 1,
    },
    "sample_rows": {
        "indptr": np.array([0, 2, 3]),
        "take": np.array([1, 1]),
        "seed": 0,
        "num_threads": 1,
    },
    "draw_lists": {
        "indptr": np.array([0, 2, 3]),
        "share": np.ones((2, 1), F32),
        "tables": np.ones((1, 4), F32),
        "seed": 0,
        "num_threads": 1,
    },
}

FALLS = np.array([0, 4, 3])
INDEX = "must be at least 0 and less than"
BAD = [
    ("ListBatch", {"offsets": np.zeros(0, I64)}, "offsets must begin with 0 .* it is empty"),
    ("ListBatch", {"offsets": np.array([1, 2, 5])}, r"offsets must begin .* offsets\[0\] is 1"),
    ("ListBatch", {"offsets": np.array([0, 6, 5])}, r"never fall; offsets\[2\] is 5 after 6"),
    ("ListBatch", {"starts": np.array([0, 3])}, "starts must have length 3; got 2"),
    ("ListBatch", {"starts": np.array([0, 1, 2])}, "starts must end with 3; it ends with 2"),
    ("ListBatch", {"starts": FALLS}, r"starts must .* never fall; starts\[2\] is 3 after 4"),
    ("ListBatch", {"relevant": ints(1, 0, 3)}, r"list 1 has 3 items, and relevant\[2\] is 3"),
    ("ListBatch", {"relevant": ints(-1, 0, 0)}, r"list 0 has 2 items, and relevant\[0\] is -1"),
    ("ListBatch", {"weight": np.ones(2)}, "weight must have length 3; got 2"),
    ("listwise", {"scores": np.zeros(4)}, "scores must have length 5; got 4"),
    ("listwise", {"rho": "hinge"}, r"rho must be one of \['log', .*'type2'\]; got 'hinge'"),
    ("listwise", {"rho": 0}, "rho must be one of .* got 0"),
    ("listwise", {"method": "fft"}, r"method must be one of \['auto', .*\]; got 'fft'"),
    ("listwise", {"hessian": "full"}, r"\[None, 'exact', 'majorant'\]; got 'full'"),
    ("linear", {"w": np.zeros(3)}, "w must have length 2; got 3"),
    ("linear", {"rows": None}, "X must have length 5; got 7"),
    ("linear", {"rows": np.array([0, 6, 3, 3])}, "rows must have length 5; got 4"),
    ("linear", {"rows": np.array([0, 7, 3, 3, 1])}, rf"rows {INDEX} 7; rows\[1\] is 7"),
    ("linear", {"rows": np.array([-1, 6, 3, 3, 1])}, rf"rows {INDEX} 7; rows\[0\] is -1"),
    ("listwise_block", {"starts": np.array([0, 3])}, "starts must have length 3; got 2"),
    ("listwise_block", {"starts": np.array([0, 1, 2])}, "starts must end with 3"),
    ("listwise_block", {"starts": FALLS}, "starts must begin with 0 and never fall"),
    ("listwise_block", {"relevant": ints(1, 0, 4)}, rf"relevant {INDEX} 4; relevant\[2\] is 4"),
    ("listwise_block", {"relevant": ints(-1, 0, 2)}, rf"relevant {INDEX} 4; relevant\[0\] is -1"),
    ("listwise_block", {"weight": np.ones(2)}, "weight must have length 3; got 2"),
    ("listwise_block", {"scores": floats(4, 2).T}, "each row of scores must be contiguous"),
    ("adam", {"first": floats(1, 3)}, "first must have length 2; got 1"),
    ("adam", {"second": floats(2, 2)}, "second must have 3 columns; got 2"),
    ("adam", {"gradient": floats(1, 3)}, "gradient must have length 2; got 1"),
    ("adam", {"penalty": floats(3)}, "penalty must have length 2; got 3"),
    ("point_sums", {"offsets": np.array([0, 3, 2])}, "offsets must begin with 0 and never fall"),
    ("point_sums", {"scores": floats(1, 3)}, "offsets must have length 2; got 3"),
    ("point_sums", {"t": np.zeros(1)}, "t must have length 2; got 1"),
    ("point_sums", {"scores": floats(3, 2).T}, "each row of scores must be contiguous"),
    ("InnerSums", {"offsets": np.array([0, 3, 2])}, "offsets must begin with 0 and never fall"),
    ("InnerSums", {"offsets": np.zeros(0, I64)}, "offsets must have length 3; got 0"),
    ("InnerSums", {"points": floats(3)}, "offsets must end with 3; it ends with 2"),
    ("topk", {"items": floats(5, 3)}, "items must have 2 columns; got 3"),
    ("topk", {"wanted": 0}, "wanted must be between 1 and 2147483647; got 0"),
    ("topk", {"item_scale": floats(3)}, "item_scale must have length 5; got 3"),
    ("topk", {"user_rows": ints(0, 4)}, rf"user_rows {INDEX} 4; user_rows\[1\] is 4"),
    ("topk", {"user_rows": ints(-1, 0)}, rf"user_rows {INDEX} 4; user_rows\[0\] is -1"),
    ("topk", {"item_rows": ints(5)}, rf"item_rows {INDEX} 5; item_rows\[0\] is 5"),
    ("topk", {"item_rows": ints(1, 1)}, r"distinct and sorted; item_rows\[1\] is 1 after 1"),
    ("topk", {"excluded": (np.array([0, 2]), ints(1, 2))}, "length 3; got 2"),
    ("topk", {"excluded": (np.array([0, 3, 2]), ints(1, 2))}, "never fall"),
    ("topk", {"excluded": (np.array([0, 2, 2]), ints(2, 1))}, "must be sorted; .* is 1 after 2"),
    ("FactorRows", {"rows": floats(2, 17)}, "multiple of 16 columns, up to 4096; got 17"),
    ("FactorRows", {"rows": floats(2, 0)}, "multiple of 16 columns, up to 4096; got 0"),
    ("FactorRows", {"sums": floats(3)}, "sums must have length 2; got 3"),
    ("FactorRows", {"penalty": floats(1)}, "penalty must have length 2; got 1"),
    ("UserItems", {"items": ints(0, 5, 2)}, rf"items {INDEX} 5; items\[1\] is 5"),
    ("UserItems", {"items": ints(0, 4, -7)}, rf"items {INDEX} 5; items\[2\] is -7"),
    ("UserItems", {"indptr": np.zeros(0, I64)}, "indptr must begin with 0 .* it is empty"),
    ("UserItems", {"indptr": np.array([1, 2, 3])}, r"indptr must begin .* indptr\[0\] is 1"),
    ("UserItems", {"indptr": FALLS}, r"indptr must .* never fall; indptr\[2\] is 3 after 4"),
    ("UserItems", {"indptr": np.array([0, 2, 4])}, "indptr must end with 3; it ends with 4"),
    ("UserItems", {"weight": np.ones(2, F32)}, "weight must have length 3; got 2"),
    ("UserItems", {"n_items": -1}, "n_items must be between 0 and"),
    ("SgdSteps", {"factors": 0}, "factors must be between 1 and 4096; got 0"),
    ("SgdSteps", {"negatives": 1025}, "negatives must be between 1 and 1024; got 1025"),
    ("SgdSteps", {"cell_items": 65537}, "cell_items must be between 2 and 65536; got 65537"),
    ("WarpSteps", {"weight_after": np.ones(1, F32)}, "length of weight_after must be between 2"),
    ("WarpSteps", {"cell_items": 1}, "cell_items must be between 2 and 65536; got 1"),
    ("sgd_task", {"users": made(factor_rows, 3)}, "users must have length 2; got 3"),
    ("sgd_task", {"items": made(factor_rows, 3, 17)}, "items must have 16 columns; got 32"),
    ("sgd_task", {"popularity": floats(2)}, "popularity must have length 3; got 2"),
    ("sgd_task", {"position": ints(3, 2, 1, 0)}, "position must have length 5; got 4"),
    ("sgd_task", {"first": 3}, "first must be between 0 and 2; got 3"),
    ("sgd_task", {"first": -1}, "first must be between 0 and 2; got -1"),
    (
        "sgd_task",
        {"steps": made(_core.SgdSteps, **STEPS | {"factors": 17})},
        "factors .* 16; got 17",
    ),
    ("warp_task", {"users": made(factor_rows, 1)}, "users must have length 2; got 1"),
    ("warp_task", {"items": made(factor_rows, 6)}, "rows of items must be between 0 and 5; got 6"),
    ("warp_task", {"position": ints(0)}, "position must have length 5; got 1"),
    ("warp_task", {"first": 2**62}, "first must be between 0 and 2"),
    ("interaction_scores", {"U": floats(3, 16)}, "U must have length 2; got 3"),
    ("interaction_scores", {"V": floats(3, 32)}, "V must have 16 columns; got 32"),
    ("interaction_scores", {"position": ints(0)}, "position must have length 5; got 1"),
    ("interaction_scores", {"out": floats(2)}, "out must have length 3; got 2"),
    ("letor_features", {"columns": ints(0)}, "columns must have length 3; got 1"),
    ("letor_features", {"offsets": FALLS}, "offsets must begin with 0 and never fall"),
    ("ranksvm", {"rank": ints(2, 0, 0)}, rf"rank {INDEX} 2; rank\[0\] is 2"),
    ("ranksvm", {"offsets": FALLS}, "offsets must begin with 0 and never fall"),
    ("ranksvm", {"weight": np.ones(3)}, "weight must have length 2; got 3"),
    ("ranksvm", {"ranks": -5}, "ranks must be between 0"),
    ("rankboost_potential", {"grade": ints(-1, 0, 0)}, rf"grade {INDEX} 3; grade\[0\] is -1"),
    ("rankboost_potential", {"offsets": np.array([0, 1, 2])}, "offsets must end with 3"),
    ("rankboost_potential", {"offsets": FALLS}, "offsets must begin with 0 and never fall"),
    ("rankboost_weak_ranker", {"cuts": np.array([1])}, "codes must not exceed"),
    (
        "rankboost_weak_ranker",
        {"codes": np.zeros((1, 3), np.uint8), "cuts": np.array([256])},
        "codes must not exceed the number of cuts",
    ),
    ("rankboost_weak_ranker", {"potential": np.zeros(2)}, "potential must have length 3; got 2"),
    ("metric_along", {"offsets": np.array([0, 2])}, "offsets must end with 3; it ends with 2"),
    ("metric_along", {"offsets": FALLS}, "offsets must begin with 0 and never fall"),
    ("metric_along", {"value": np.zeros(2)}, "value must have length 3; got 2"),
    ("group_interactions", {"n_users": 1}, rf"user {INDEX} 1; user\[1\] is 1"),
    ("group_interactions", {"item": ints(0, -1, 0)}, rf"item {INDEX} 2; item\[1\] is -1"),
    ("group_interactions", {"n_items": -1}, "n_items must be between 0"),
    ("group_interactions", {"count": np.ones(2, F32)}, "count must have length 3; got 2"),
    ("group_interactions", {"time": np.zeros(4)}, "time must have length 3; got 4"),
    ("sample_rows", {"indptr": np.array([0, 2, 1])}, "indptr must begin with 0 and never fall"),
    ("sample_rows", {"take": np.array([1])}, "take must have length 2; got 1"),
    ("draw_lists", {"indptr": np.array([0, 2, 1])}, "indptr must begin with 0 and never fall"),
    ("draw_lists", {"indptr": np.array([0, 5, 6])}, "user's items must be between 0 and 4; got 5"),
    ("draw_lists", {"share": np.ones((1, 1), F32)}, "share must have length 2; got 1"),
    ("draw_lists", {"share": np.ones((2, 3), F32)}, "share must have 1 columns; got 3"),
    ("draw_lists", {"share": floats(2, 0), "tables": floats(0, 4)}, "at least one row"),
    ("draw_lists", {"tables": floats(1, 4)}, "every table needs a finite sum above 0"),
]


@pytest.mark.parametrize("name", GOOD)
def test_good_arguments_are_taken(name):
    call(name)


@pytest.mark.parametrize(("name", "change", "message"), BAD)
def test_bad_arguments_are_named(name, change, message):
    with pytest.raises(ValueError, match=message):
        call(name, **change)


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("listwise", "scores"),
        ("linear", "X"),
        ("listwise_block", "scores"),
        ("adam", "rows"),
        ("point_sums", "t"),
        ("InnerSums", "U"),
        ("FactorRows", "rows"),
        ("FactorRows", "sums"),
        ("interaction_scores", "out"),
    ],
)
def test_what_is_written_to_or_large_is_not_converted(name, argument):
    changed = GOOD[name][argument].astype(np.float16)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        call(name, **{argument: changed})


def test_small_arrays_of_another_type_are_converted():
    records = USER_ITEMS | {"indptr": ints(0, 2, 3), "items": np.array([0, 4, 2])}
    assert call("sgd_task", user_items=_core.UserItems(**records)) == call("sgd_task")


def test_items_with_another_number_of_factors():
    with pytest.raises(ValueError, match="V must have 4 columns; got 5"):
        call("InnerSums").add(floats(3, 5))


def test_unknown_instruction_set():
    with pytest.raises(ValueError, match="cannot run instruction set 'neon'"):
        _core.use_instruction_set("neon")


numbers = st.integers(-3, 7)


@given(st.lists(numbers, max_size=4), st.lists(numbers, max_size=4), st.integers(0, 7))
def test_records_are_checked(indptr, items, n_items):
    rises = indptr[:1] == [0] and sorted(indptr) == indptr and indptr[-1] == len(items)
    arrays = {"indptr": np.array(indptr, I64), "items": np.array(items, I32)}
    if rises and all(0 <= i < n_items for i in items):
        _core.UserItems(**arrays, n_items=n_items)
    else:
        with pytest.raises(ValueError):
            _core.UserItems(**arrays, n_items=n_items)


@given(
    rows=st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=4),
    position=st.lists(st.integers(-(2**31), 2**31 - 1) | numbers, min_size=5, max_size=7),
    first=numbers,
    n_rows=st.integers(0, 7),
)
def test_a_task_stays_within_its_rows(rows, position, first, n_rows):
    """Whatever the positions are: records whose item lies outside the block are not visited."""
    items = np.array([item for row in rows for item in row], I32)
    indptr = np.cumsum([0, *map(len, rows)])
    task = {
        "users": factor_rows(len(rows)),
        "items": factor_rows(n_rows),
        "user_items": _core.UserItems(indptr=indptr, items=items, n_items=6),
        "popularity": floats(n_rows),
        "position": np.array(position, I32),
        "first": first,
    }
    if len(position) == 6 and n_rows <= 6 and 0 <= first <= 6 - n_rows:
        places = np.array(position)[items] - first
        draws, loss, not_finite = call("sgd_task", **task)
        visited = ((places >= 0) & (places < n_rows)).sum() if n_rows > 1 else 0
        assert (draws, np.isfinite(loss), not_finite) == (4 * visited, True, 0)
    else:
        with pytest.raises(ValueError):
            call("sgd_task", **task)


def test_memory_that_is_not_there_in_a_thread_is_an_error():
    """An exception that leaves an OpenMP region would end the process."""
    codes = np.zeros((8, 4000), dtype=np.uint32)
    with pytest.raises(MemoryError):
        _core.rankboost_weak_ranker(
            codes, np.full(8, 1 << 50), np.ones(4000), loss=1.0, num_threads=2
        )
