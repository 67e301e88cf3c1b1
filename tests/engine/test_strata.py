"""The plan: everything is visited once, nothing by two at a time, and anyone can compute it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from robirank.data.user_parts import count_parts, user_parts
from robirank.engine.strata import Plan, task_key

parts = st.integers(1, 12)


@given(st.integers(0, 2**40), st.integers(1, 200), parts)
def test_users_are_cut_into_equal_parts(seed, n_users, n):
    cut = user_parts(seed, n_users, n)
    assert sorted(np.concatenate(cut)) == list(range(n_users))
    sizes = [len(part) for part in cut]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(0, 2**40), st.integers(0, 1000), st.integers(2, 200), parts)
def test_blocks_cover_the_items(seed, epoch, n_items, n):
    plan = Plan(seed, epoch, n_items, n)
    assert_array_equal(plan.order[plan.position], np.arange(n_items))
    assert plan.bounds[0] == 0
    assert plan.bounds[-1] == n_items
    sizes = np.diff(plan.bounds)
    assert sizes.max() - sizes.min() <= 1


def test_the_order_depends_on_seed_and_epoch_alone():
    order = Plan(3, 5, 100, 4).order
    assert_array_equal(order, Plan(3, 5, 100, 7).order)
    assert (order != Plan(3, 6, 100, 4).order).any()
    assert (order != Plan(4, 5, 100, 4).order).any()


def test_orders_are_uniform():
    """Item 0 comes first as often as any other: 3000 orders of 5 items, 5 standard errors."""
    first = [int(Plan(0, epoch, 5, 1).order[0]) for epoch in range(3000)]
    counts = np.bincount(first, minlength=5)
    assert np.abs(counts - 600).max() < 5 * np.sqrt(3000 * 0.2 * 0.8)


def test_tasks_have_keys_of_their_own():
    keys = {task_key(1, e, p, b) for e in range(5) for p in range(5) for b in range(5)}
    assert len(keys) == 125


@pytest.mark.parametrize(
    ("wanted", "n_users", "n_items", "got"),
    [(8, 100, 100, 8), (8, 3, 100, 3), (8, 9, 7, 3), (8, 9, 1, 1)],
)
def test_parts_are_no_more_than_there_is_to_share(wanted, n_users, n_items, got):
    assert count_parts(wanted, n_users, n_items) == got
