"""Requests of every kind at every route: ``python -m serve.fuzz --requests 100000``.

Bodies and parameters are made from the OpenAPI document, and some of them are then spoilt. No
answer may be a 500, each must be what the document says, and neither threads nor memory may grow.
The last line is one JSON object.
"""

import argparse
import json
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import msgspec

import robirank as rr
from robirank.serve import Client, app
from robirank.serve.figures import memory_bytes
from robirank.serve.messages import ProblemBody
from serve.random_requests import DOCUMENT, make_request
from serve.shop import shop

_THREADS = 4  # so that questions share batches; they mostly wait
_TURN = 10_000  # requests between two looks at memory


def check(client, asked):
    """Send a request, and look at what comes back."""
    route, method, path, query, body = asked
    response = client.send(method, path, query, body)
    told = DOCUMENT["paths"][route.path][route.method.lower()]["responses"]
    if method == route.method and path.split("/")[:3] == route.path.split("/")[:3]:
        assert str(response.status) in told, (asked, response)
    assert response.status < 500, (asked, response)
    if response.status == 200 and route.answer is not str:
        msgspec.json.decode(response.content, type=route.answer)
    elif response.status != 200:
        problem = msgspec.json.decode(response.content, type=ProblemBody)
        assert (problem.status, problem.detail != "") == (response.status, True)
    return response.status


def ranker():
    """A client of a server that ranks."""
    data = rr.make_ranking(n_queries=10, n_features=3, random_state=0)
    return Client(app(rr.RoBiRank().fit(data), log_requests=False))


def fuzz(clients, n, seed):
    """Send n requests from one thread, one in five to the last of two; statuses by number."""
    rng, counts = random.Random(seed), Counter()
    for _ in range(n):
        counts[check(clients[rng.random() < 0.2], make_request(rng))] += 1
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    begin, counts, memory = time.perf_counter(), Counter(), []
    with shop() as recommender, ranker() as other, ThreadPoolExecutor(_THREADS) as pool:
        clients, sent = (recommender, other), 0
        while sent < given.requests:
            n = min(_TURN, given.requests - sent)
            parts = [n // _THREADS + (thread < n % _THREADS) for thread in range(_THREADS)]
            seeds = [f"{given.seed} {sent} {thread}" for thread in range(_THREADS)]
            for some in pool.map(lambda part, seed: fuzz(clients, part, seed), parts, seeds):
                counts += some
            sent += n
            memory.append(memory_bytes() / 2**20)
            print(f"{sent:,} requests, {memory[-1]:.0f} MB, {dict(counts)}", flush=True)
    seconds = time.perf_counter() - begin
    grown, threads = grows(1000, given.seed)
    print(f"10,000 of the same requests: memory grew by {grown:.1f} MB, threads by {threads}")
    facts = {"requests": sent, "seconds": round(seconds), "statuses": dict(sorted(counts.items()))}
    print(json.dumps(facts | {"grown_mb": round(grown, 1), "grown_threads": threads}))
    assert (grown < 10, threads) == (True, 0)


def grows(n, seed):
    """By how many MB and threads a server grows that answers the same n requests ten times more."""

    def ask_all():
        rng = random.Random(seed)
        for _ in range(n):
            check(client, make_request(rng))

    with shop() as client:
        for _ in range(3):
            ask_all()
        memory, threads = memory_bytes(), threading.active_count()
        for _ in range(10):
            ask_all()
        return (memory_bytes() - memory) / 2**20, threading.active_count() - threads


if __name__ == "__main__":
    main()
