"""The order of tasks on threads, and what an engine does with them."""

import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from robirank._workers import Workers
from robirank.data.user_items import as_user_items
from robirank.engine.interface import Sizes, task
from robirank.engine.memory import StrataMemory
from robirank.engine.state import FromMatrix, StateArray, weights
from robirank.engine.strata import DATA_ORDER, Plan, share, user_batches, visiting_order
from robirank.engine.threads import ThreadEngine


@given(st.integers(0, 5000), st.integers(1, 7))
def test_turns_and_batches_cover_every_user_once(n_users, of):
    turns = [share(n_users, turn, of) for turn in range(of)]
    seen = [u for turn in turns for batch in user_batches(turn) for u in range(n_users)[batch]]
    assert seen == list(range(n_users))
    assert all(a.stop == b.start for a, b in pairwise(turns))


def test_visits_begin_with_the_own_block():
    assert [visiting_order(p, 3) for p in range(3)] == [[0, 1, 2], [1, 2, 0], [2, 0, 1]]


def test_the_order_of_the_data():
    assert_array_equal(Plan(3, DATA_ORDER, 7, 2).order, np.arange(7))


# ------------------------------------------------------------------------------ the engine


def make_engine(parts, threads):
    import robirank as rr

    interactions = as_user_items(rr.make_interactions(40, 20, 300, random_state=0))
    rng = np.random.default_rng(0)
    U, V, levels = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((40, 3), (20, 3), 20)
    )
    declared = [
        StateArray("U", "user", FromMatrix(U), columns=3, saved_as="user_factors"),
        StateArray("V", "item", FromMatrix(V), columns=3, saved_as="item_factors"),
        StateArray("level", "item", FromMatrix(levels), is_constant=True),
        StateArray("seen", "interaction", weights),
    ]
    memory = StrataMemory(interactions, declared, parts=parts, seed=0)
    return ThreadEngine(memory, Sizes(40, 40, 20, 300), Workers(threads)), (U, V, levels)


def rows_of(engine):
    model = engine.memory.model()
    return model["user_factors"], model["item_factors"]


@task(changes=["U", "V"])
def count_task(part, block, position, settings, key):
    """Count the interactions of the part in the block, and move both by one."""
    places = position[part.interactions.items] - block.first
    part["U"][:] += 1
    block["V"][:] += 1
    return {"done": int(((places >= 0) & (places < len(block))).sum()), "step": settings}


def test_a_sweep_visits_every_interaction_once_and_every_row_in_every_sub_step():
    engine, (U, V, _) = make_engine(parts=4, threads=1)
    with engine._workers:
        figures = engine.sweep(2, count_task, [10, 20, 30, 40])
    assert figures == {"done": 300, "step": 4 * 100}
    after = rows_of(engine)
    np.testing.assert_allclose(after[0], U + 4, rtol=1e-6)
    np.testing.assert_allclose(after[1], V + 4, rtol=1e-6)


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 99))
def test_parts_and_blocks_meet_one_by_one_and_in_order(parts, n_threads, seed):
    lock, log = threading.Lock(), []
    pauses = np.random.default_rng(seed).exponential(1e-4, (parts, parts))

    @task(reads=["level"])
    def pausing_task(part, block, position, step, key):
        names = step, int(part.users[0]), block.first
        with lock:
            log.append(("begin", *names))
        threading.Event().wait(pauses[step, names[1] % parts])
        with lock:
            log.append(("end", *names))
        return {}

    engine, _ = make_engine(parts, n_threads)
    with engine._workers:
        engine.sweep(0, pausing_task, list(range(parts)))
    users = [int(part.users[0]) for part in engine.memory.parts]
    firsts = [block.first for block in engine.memory.blocks()]
    begun = sorted(entry[1:] for entry in log if entry[0] == "begin")
    assert begun == sorted(
        (step, users[part], firsts[(part + step) % parts])
        for step in range(parts)
        for part in range(parts)
    )
    for kind, numbers in ((2, users), (3, firsts)):  # every part, and every block
        for number in numbers:
            own = [entry for entry in log if entry[kind] == number]
            assert [entry[1] for entry in own] == [s for s in range(parts) for _ in range(2)]
            assert [entry[0] for entry in own] == ["begin", "end"] * parts


@pytest.mark.parametrize("threads", [1, 3])
def test_a_task_that_fails_stops_the_others(threads):
    done = []

    @task(reads=["level"])
    def failing_task(part, block, position, step, key):
        done.append(step)
        if step == 1:
            raise ZeroDivisionError
        return {}

    engine, _ = make_engine(parts=4, threads=threads)
    with pytest.raises(ZeroDivisionError), engine._workers:
        engine.sweep(0, failing_task, [0, 1, 2, 3])
    assert 2 not in done


def test_a_sweep_stops_before_the_tasks_not_yet_begun():
    engine, _ = make_engine(parts=4, threads=1)
    asked = iter([False] * 5 + [True] * 99)
    with engine._workers:
        assert engine.sweep(0, count_task, [1] * 4, lambda: next(asked))["step"] == 5


@task(reads=["level"])
def look_task(part, blocks, position, settings):
    """Every block is seen, twice if need be, beginning with the part's own."""
    first, again = [b.first for b in blocks], [b.first for b in blocks]
    assert first == again
    return {"done": len(first), "first": first[0] * settings}


def test_a_scan_shows_all_blocks_to_every_part():
    engine, _ = make_engine(parts=4, threads=2)
    with engine._workers:
        figures = engine.scan(look_task, [1, 100])
    assert figures == {"done": 4 * 4 * 2, "first": (0 + 5 + 10 + 15) * 101}


@task(reads=["V", "level"], changes=["U", "seen"])
def add_items_task(part, blocks, position, settings):
    """Add the sum of all items to each user, and one to each interaction."""
    for block in blocks:
        part["U"][:] += (block["V"] * block["level"][:, None]).sum(0)
    part["seen"][:] += settings
    return {"done": len(part.users)}


def test_a_scan_may_change_all_that_belongs_to_a_part():
    engine, (U, V, level) = make_engine(parts=3, threads=2)
    with engine._workers:
        engine.sweep(5, count_task, [1] * 3)
        assert engine.scan(add_items_task, [2]) == {"done": 40}
    moved = U + 3 + ((V + 3) * level[:, None]).sum(0)
    np.testing.assert_allclose(rows_of(engine)[0], moved, rtol=1e-4)
    assert (engine.memory.state()["seen"] == 3).all()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["V", "level"])
def test_a_task_cannot_change_what_it_does_not_declare(threads, name):
    @task(reads=[name], changes=["U"])
    def cheat(part, blocks, position, settings):
        for block in blocks:
            block[name][:] = 0
        return {}

    engine, _ = make_engine(parts=2, threads=threads)
    with engine._workers, pytest.raises(ValueError, match="read-only"):
        engine.scan(cheat, [None])


def test_a_task_does_not_see_what_it_does_not_declare():
    @task(reads=["V"])
    def peep(part, blocks, position, settings):
        return {"done": part["U"].sum()}

    engine, _ = make_engine(parts=2, threads=1)
    with engine._workers, pytest.raises(KeyError, match="U"):
        engine.scan(peep, [None])


@pytest.mark.parametrize(
    ("reads", "changes", "message"),
    [
        (["W"], [], "reads 'W', which no declared array is called"),
        ([], ["level"], "must not change 'level', which is constant"),
        ([], ["V"], "must not change 'V': a scan shares the items"),
    ],
)
def test_declarations_of_a_scan_are_checked(reads, changes, message):
    @task(reads=reads, changes=changes)
    def some_task(part, blocks, position, settings):
        return {}

    engine, _ = make_engine(parts=2, threads=1)
    with engine._workers, pytest.raises(ValueError, match=f"some_task {message}"):
        engine.scan(some_task, [None])


def test_constant_arrays_can_be_declared_anew():
    engine, (_, V, level) = make_engine(parts=2, threads=1)
    other = StateArray("level", "item", FromMatrix(2 * level), is_constant=True)
    engine.memory.restart([other])
    blocks = engine.memory.blocks()
    seen = np.concatenate([block["level"] for block in blocks])[engine.memory.plan.position]
    assert_array_equal(seen, 2 * level)
    assert_array_equal(rows_of(engine)[1], V)


def test_state_is_in_the_order_of_the_data_and_comes_back():
    engine, (U, V, _) = make_engine(parts=3, threads=1)
    before = {name: array.copy() for name, array in engine.memory.state().items()}
    assert before.keys() == {"U", "V", "seen"}  # no constants
    assert_array_equal(before["U"], U)
    assert_array_equal(before["V"], V)
    with engine._workers:
        engine.sweep(5, count_task, [1] * 3)
        engine.scan(add_items_task, [1])
    assert (engine.memory.state()["V"] != V).all()
    engine.memory.restore(before)
    for name, array in engine.memory.state().items():
        assert_array_equal(array, before[name])
