"""What waits while a thread is busy is done together; what is alone does not wait."""

import asyncio
import threading
import time

import pytest

from robirank.serve.batcher import Batcher
from robirank.serve.problems import Problem


def make(work, **options):
    return Batcher("test", work, **{"most": 64, "waiting": 64, "seconds": 5.0} | options)


def test_a_lone_job_is_begun_at_once_and_others_share_a_call():
    sizes, begun = [], threading.Event()

    def work(jobs):
        sizes.append(len(jobs))
        begun.set()
        time.sleep(0.05)
        return [2 * job for job in jobs]

    async def main():
        first = asyncio.ensure_future(batcher.ask(0))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        rest = await asyncio.gather(*(batcher.ask(n) for n in range(1, 10)))
        return [await first, *rest]

    batcher = make(work)
    assert asyncio.run(main()) == [2 * n for n in range(10)]
    assert sizes == [1, 9]
    batcher.close()


def test_jobs_fail_one_by_one():
    batcher = make(lambda jobs: [ValueError(job) if job % 2 else job for job in jobs])

    async def main():
        jobs = (batcher.ask(n) for n in range(4))
        return await asyncio.gather(*jobs, return_exceptions=True)

    told = asyncio.run(main())
    assert [isinstance(one, ValueError) for one in told] == [False, True, False, True]
    batcher.close()


def test_a_panic_is_an_error_of_its_batch_alone():
    class Panic(BaseException):
        pass

    def work(jobs):
        if jobs == ["bad"]:
            raise Panic
        return jobs

    async def main():
        with pytest.raises(RuntimeError, match="Panic"):
            await batcher.ask("bad")
        return await batcher.ask("good")

    batcher = make(work)
    assert asyncio.run(main()) == "good"
    batcher.close()


def test_what_nobody_waits_for_is_not_done():
    done = []

    def work(jobs):
        done.extend(jobs)
        time.sleep(0.2)
        return jobs

    async def main():
        first = asyncio.ensure_future(batcher.ask("first"))
        await asyncio.sleep(0.05)
        with pytest.raises(Problem, match="within"):
            await batcher.ask("second")
        with pytest.raises(Problem):
            await first

    batcher = make(work, seconds=0.1)
    asyncio.run(main())
    batcher.close()
    assert done == ["first"]


def test_close_does_what_waits():
    done = []

    def work(jobs):
        time.sleep(0.02)
        done.extend(jobs)
        return jobs

    async def main():
        asks = [asyncio.ensure_future(batcher.ask(n)) for n in range(5)]
        await asyncio.sleep(0)
        await asyncio.to_thread(batcher.close)
        return await asyncio.gather(*asks)

    batcher = make(work, most=2)
    assert asyncio.run(main()) == done == [*range(5)]
