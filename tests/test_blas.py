"""The same bits, and the same number of BLAS threads afterwards, from any thread."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import robirank as rr
from robirank._blas import BlasLimit, one_blas_thread
from robirank._workers import Workers


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def in_another_thread(work):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


@pytest.fixture(scope="module")
def table():
    return rr.make_interactions(400, 1500, 12_000, random_state=0).matrix


def fit(table):
    model = rr.LatentRoBiRank(64, regularization=0.3, iterations=2, random_state=0)
    return model.fit(table, show_progress=False)


def test_a_fit_has_the_same_bits_in_another_thread(table):
    with Workers(2):
        pass  # this thread used BLAS's limit first, which threadpoolctl remembers
    expected = fit(table)
    model = in_another_thread(lambda: fit(table))
    np.testing.assert_array_equal(model.item_factors, expected.item_factors)
    rows = in_another_thread(lambda: model.fold_in(table))
    np.testing.assert_array_equal(rows, expected.fold_in(table))


def test_a_limit_of_the_main_thread_does_not_change_bits_elsewhere(table):
    expected = fit(table)
    with threadpool_limits(4, user_api="blas"):
        model = in_another_thread(lambda: fit(table))
        assert blas_threads() == {4}
    np.testing.assert_array_equal(model.item_factors, expected.item_factors)


def test_overlapping_fits_have_the_bits_of_single_ones(table):
    expected = fit(table)
    before = blas_threads()
    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(lambda _: fit(table), range(4)))
    for model in models:
        np.testing.assert_array_equal(model.user_factors, expected.user_factors)
    assert blas_threads() == before


def test_the_last_caller_puts_the_limit_back():
    with threadpool_limits(3, user_api="blas"):
        first_is_in, second_is_in = threading.Event(), threading.Event()

        def first():
            with one_blas_thread():
                first_is_in.set()
                assert second_is_in.wait(10)

        thread = threading.Thread(target=first)
        thread.start()
        assert first_is_in.wait(10)
        with one_blas_thread():
            second_is_in.set()
            thread.join()
            assert blas_threads() == {1}
        assert blas_threads() == {3}


def test_rankers_in_threads_leave_blas_as_it_was():
    data = rr.make_ranking(20, 10, 8, random_state=0)
    before = blas_threads()
    with ThreadPoolExecutor(4) as pool:
        fits = [
            pool.submit(rr.RoBiRank(max_iter=20).fit, data.X, data.y, qid=data.qid)
            for _ in range(8)
        ]
        weights = [fit.result().coef_ for fit in fits]
    assert blas_threads() == before
    assert all(np.array_equal(w, weights[0]) for w in weights)


class ThreadLibrary:
    """A BLAS whose limit belongs to the thread that sets it, as MKL's does."""

    internal_api, filepath = "mkl", "libmkl.so"

    def __init__(self):
        self._limits = threading.local()

    @property
    def num_threads(self):
        return getattr(self._limits, "threads", 8)

    def set_num_threads(self, threads):
        self._limits.threads = threads


def test_limits_of_threads_are_set_and_put_back_in_each(monkeypatch):
    library, limit = ThreadLibrary(), BlasLimit()
    monkeypatch.setattr(limit, "_loaded", lambda: [library])

    def inside_and_after():
        with limit.one_thread():
            inside = library.num_threads
        return inside, library.num_threads

    with limit.one_thread():
        assert in_another_thread(inside_and_after) == (1, 8)
        assert library.num_threads == 1
    assert library.num_threads == 8
