"""The model of many machines: hand-worked epochs, and what must hold for any rates."""

from dataclasses import asdict, fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from robirank.experiments.scaling.simulation import (
    EpochTime,
    Network,
    Rates,
    Shape,
    epoch_time,
    mean_rates,
    million_song,
    stops_paying,
    wavefront,
)

NOTHING = dict.fromkeys((f.name for f in fields(Rates)), 0.0)
EVEN = Shape(np.full(800, 100.0), np.full(400, 200.0), factors=9, xi_share=0.5)


def rates(**named):
    return Rates(**NOTHING | named)


def test_one_machine_by_hand():
    found = epoch_time(
        EVEN,
        rates(record=1e-6, scan=1e-7, item=1e-5, task=0.5, pair=1e-6, visit=1e-5, plan=1e-4),
        Network(),
        1,
    )
    uv = 80_000 * (1e-6 + 1e-7) + 400 * 1e-5 + 0.5
    xi = 400 * 400 * 1e-6 + 400 * 1e-5
    assert_allclose(found.total, uv + xi + 400 * 1e-4)
    assert asdict(found) == asdict(EpochTime(compute=found.total))  # and nothing else


def test_scanning_and_planning_are_not_shared():
    """Every machine passes over its records once for each of p blocks, and orders all items."""
    for p in (1, 4, 16):
        found = epoch_time(EVEN, rates(scan=1e-6, plan=1e-4), None, p)
        assert_allclose(found.compute, 80_000 * 1e-6 + 400 * 1e-4)


def test_the_network_by_hand():
    p, network = 4, Network(bandwidth=1e6, latency=0.01, hand_out=0.001)
    found = epoch_time(EVEN, rates(), network, p)
    blocks = 400 * (9 + 1) * 4  # V and Adagrad's sums: a quarter in each of four moves
    visits = 2 * 400 * 9 * 4 * (1 - 1 / p)
    rounds = 4 + 1 + 1  # sub-steps, split, one wave of 100 users
    assert_allclose(found.communication, (blocks + visits) / 1e6)
    assert_allclose(found.latency, rounds * 0.01)
    assert_allclose(found.hand_out, rounds * p * 0.001)


def test_a_popular_item_makes_machines_wait():
    """Half of all records are in one block, which every part must meet: no way around it."""
    items = np.full(400, 100.0)
    items[7] = 40_000 + 100
    shape = Shape(np.full(800, 100.0), items, factors=9, xi_share=0.0)
    found = epoch_time(shape, rates(record=1e-6), Network(), 8)
    assert found.path >= 40_000 * 1e-6
    assert found.waiting > 2 * found.compute


def test_fewer_cores_than_workers():
    crowded = epoch_time(EVEN, rates(record=1e-6, pair=1e-6), None, 8, cores=2)
    alone = epoch_time(EVEN, rates(record=1e-6, pair=1e-6), None, 8)
    assert crowded.path == alone.path
    assert_allclose(crowded.total, 8 * alone.compute / 2, rtol=0.05)
    assert alone.sharing == 0


@given(
    st.integers(1, 6).flatmap(
        lambda p: st.lists(
            st.lists(st.floats(0, 10), min_size=p, max_size=p), min_size=p, max_size=p
        )
    )
)
def test_a_wavefront_lies_between_the_longest_chain_and_barriers(seconds):
    seconds = np.array(seconds)
    found, p = wavefront(seconds), len(seconds)
    by_block = [sum(seconds[(b - r) % p, r] for r in range(p)) for b in range(p)]
    assert found >= max(seconds.sum(axis=1).max(), *by_block) - 1e-9
    assert found <= seconds.max(axis=0).sum() + 1e-9


@given(st.sampled_from([1, 2, 8, 32]), st.integers(0, 3))
def test_parts_of_an_epoch_add_up_and_none_is_negative(p, seed):
    some = rates(record=1e-6, scan=1e-8, pair=1e-8, spread=0.2)
    found = epoch_time(EVEN, some, Network(), p, cores=2, seed=seed)
    assert min(asdict(found).values()) >= -1e-12
    assert_allclose(found.total, sum(asdict(found).values()))
    assert found == epoch_time(EVEN, some, Network(), p, cores=2, seed=seed)


def test_more_machines_than_there_is_work_for():
    with pytest.raises(ValueError, match=r"machines must be from 1 to 200, .* got 201"):
        epoch_time(EVEN, rates(), None, 201)


def test_where_machines_stop_paying():
    assert stops_paying([(1, 8.0), (2, 4.0), (4, 2.0)]) == 4  # as far as one has looked
    assert stops_paying([(1, 1.0), (2, 1.0)]) == 1


def test_mean_rates():
    assert mean_rates([rates(record=1.0), rates(record=3.0, scan=2.0)]) == rates(record=2, scan=1)


def test_the_top_song_is_known_to_a_tenth_of_the_users():
    shape = million_song()
    assert_allclose(shape.item_counts.sum(), shape.n_records)
    assert 0.08 < shape.item_counts.max() / len(shape.user_counts) < 0.13
