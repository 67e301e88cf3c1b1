"""Requests of every kind at every route: ``python -m serve.fuzz --requests 100000``.

Bodies and parameters are made from the OpenAPI document, and some of them are then spoilt. No
answer may be a 500, each must be what the document says, and neither threads nor memory may grow.
"""

import argparse
import threading
import time
from urllib.parse import urlencode

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import robirank as rr
from robirank.serve import Client, app
from robirank.serve.figures import memory_bytes
from robirank.serve.messages import ProblemBody
from robirank.serve.openapi import openapi_document
from robirank.serve.routes import ROUTES
from serve.from_schema import anything, values
from serve.shop import ITEMS, shop

DOCUMENT = openapi_document()
SCHEMAS = DOCUMENT["components"]["schemas"]


@st.composite
def requests(draw):
    """A route, and a method, path, query, body and headers for it."""
    route = draw(st.sampled_from(ROUTES))
    operation = DOCUMENT["paths"][route.path][route.method.lower()]
    path, query, body = route.path, {}, b""
    for one in operation.get("parameters", ()):
        value = str(draw(values(one["schema"], SCHEMAS)))
        if one["in"] == "path":
            path = path.replace(f"{{{one['name']}}}", draw(st.sampled_from([value, *ITEMS[:3]])))
        elif draw(st.booleans()):
            query[one["name"]] = value
    if route.body is not None:
        (content,) = operation["requestBody"]["content"].values()
        value = draw(values(content["schema"], SCHEMAS))
        if draw(st.integers(0, 9)) == 0:
            value = draw(anything)
        elif isinstance(value, dict) and draw(st.integers(0, 9)) == 0:
            value = value | {draw(st.sampled_from([*value, "more"])): draw(anything)}
        body = msgspec.json.encode(value)
        if draw(st.integers(0, 19)) == 0:
            place = draw(st.integers(0, len(body)))
            body = body[:place] + draw(st.binary(max_size=4)) + body[place + 1 :]
    method = draw(st.sampled_from([route.method] * 9 + ["PUT"]))
    return route, method, path, urlencode(query, errors="surrogatepass").encode(), body


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


def fuzz(n, number=0, kept=()):
    """Send so many requests to a recommender and to a ranker; how often each status came.

    The first thousand go to the list ``kept``.
    """
    data = rr.make_ranking(n_queries=10, n_features=3, random_state=0)
    ranker = Client(app(rr.RoBiRank().fit(data), log_requests=False))
    counts = {}
    with shop() as recommender, ranker:

        @seed(number)
        @settings(
            max_examples=n,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(requests(), st.integers(0, 4))
        def run(asked, which):
            status = check(ranker if which == 0 else recommender, asked)
            if isinstance(kept, list) and len(kept) < 1000:
                kept.append(asked)
            counts[status] = counts.get(status, 0) + 1

        run()
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    given_ = parser.parse_args()
    begin, kept = time.perf_counter(), []
    counts = fuzz(given_.requests, given_.seed, kept)
    seconds = time.perf_counter() - begin
    print(f"{sum(counts.values()):,} requests in {seconds:.0f} s, by status {counts}")
    grown, threads = grows(kept)
    print(f"after {len(kept) * 10:,} more: memory grew by {grown:.1f} MB, threads by {threads}")
    assert (grown < 10, threads) == (True, 0)


def grows(requests):
    """By how many MB and threads a server grows that answers the same requests again and again.

    Hypothesis remembers what it has made, so that memory says nothing while it runs.
    """
    with shop() as client:
        for _ in range(3):
            for asked in requests:
                check(client, asked)
        memory, threads = memory_bytes(), threading.active_count()
        for _ in range(10):
            for asked in requests:
                check(client, asked)
        return (memory_bytes() - memory) / 2**20, threading.active_count() - threads


if __name__ == "__main__":
    main()
