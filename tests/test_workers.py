"""Threads that share work, with one thread a matrix product."""

import threading

import pytest
from threadpoolctl import threadpool_info

from robirank import _workers
from robirank._workers import Workers


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_results_are_in_the_order_of_the_tasks(n_threads):
    late = threading.Event()

    def work(task):
        if task == 0 and n_threads > 1:
            assert late.wait(10)  # the first is done last
        if task == 1:
            late.set()
        return task * task

    with Workers(n_threads) as workers:
        assert workers.num_threads == n_threads
        assert workers.map(work, iter(range(20))) == [n * n for n in range(20)]
        assert workers.map(work, []) == []


def test_products_use_one_thread_inside_and_as_many_as_before_outside():
    before = blas_threads()
    with Workers(2) as workers:
        assert workers.map(lambda _: blas_threads(), range(2)) == [{1}, {1}]
    assert blas_threads() == before


def test_every_thread_of_the_pool_limits_its_products(monkeypatch):
    # OpenMP's number of threads belongs to the thread that sets it.
    limited = set()
    monkeypatch.setattr(_workers, "limit_this_thread", lambda: limited.add(threading.get_ident()))
    with Workers(2) as workers:
        ran = set(workers.map(lambda _: threading.get_ident(), range(50)))
    assert ran <= limited
    assert threading.get_ident() not in ran


@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_error_comes_out_and_the_limits_go(n_threads):
    before = blas_threads()
    with pytest.raises(ZeroDivisionError), Workers(n_threads) as workers:
        workers.map(lambda n: 1 // n, [1, 0, 2])
    assert blas_threads() == before


def test_nested_pools_do_not_wait_for_each_other():
    def inner(n):
        with Workers(2) as workers:
            return sum(workers.map(lambda m: m * n, range(3)))

    with Workers(2) as workers:
        assert workers.map(inner, range(4)) == [0, 3, 6, 9]


@pytest.mark.parametrize("bad", [-1, 1.5, True])
def test_bad_number_of_threads(bad):
    with pytest.raises(ValueError, match="num_threads must be 0"):
        Workers(bad)


def test_every_core_by_default(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert Workers().num_threads == 3
