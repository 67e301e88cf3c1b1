"""How many threads work is given to."""

import numpy as np
import pytest

from robirank import MART, RandomForests, RankBoost, RoBiRank, RoBiRankBooster, make_ranking
from robirank import _threads as threads
from robirank.objectives.listwise import Lists


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "_cores", lambda: 8)


@pytest.mark.parametrize(("cells", "expected"), [(1, 1), (10**6, 1), (10**7, 8), (10**9, 8)])
def test_work_decides_where_nobody_asked(cells, expected):
    assert threads.threads_for_cells(cells) == expected
    for asked in (1, 3):
        assert threads.threads_for_cells(cells, asked) == asked


def test_lists_count_their_pairs():
    """A list of 10 documents, one of them relevant, is 10 pairs; a million lists are enough."""
    data = make_ranking(n_queries=30, n_docs=10, random_state=0)
    assert Lists.build(data.y, data.queries).threads() == 1
    assert Lists.build(data.y, data.queries).threads(10**8) == 8
    assert Lists.build(data.y, data.queries, num_threads=3).threads() == 3
    many = np.zeros(10**6)
    many[::10] = 1.0
    long = Lists.build(many, make_ranking(n_queries=1, n_docs=10**6, n_features=1).queries)
    assert long.threads() == 8


@pytest.mark.parametrize(
    "ranker", [RoBiRank(), RoBiRankBooster(2), MART(2), RandomForests(2), RankBoost(2)], ids=repr
)
def test_rankers_use_one_thread_for_little_work(ranker, monkeypatch):
    data = make_ranking(n_queries=30, n_docs=10, random_state=0)

    def noted(cells, num_threads):
        used.append(threads.threads_for_cells(cells, num_threads))
        return used[-1]

    used = []
    modules = ("objectives.listwise", "ltr._boosting", "ltr.random_forests", "ltr.rankboost")
    for module in modules:
        monkeypatch.setattr(f"robirank.{module}.threads_for_cells", noted)
    ranker.fit(data.X, data.y, qid=data.qid)
    assert set(used) == {1}
