"""A little of the fuzzing of every route; ``python -m serve.fuzz`` does as much as is wanted."""

from urllib.parse import urlencode

import msgspec
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from robirank.serve.routes import ROUTES
from serve.from_schema import anything, values
from serve.fuzz import check, fuzz, ranker
from serve.random_requests import DOCUMENT, SCHEMAS
from serve.shop import ITEMS, shop


@st.composite
def requests(draw):
    """A route, and a method, path, query and body for it."""
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


def test_no_request_makes_the_server_fail():
    with shop() as recommender, ranker() as other:

        @settings(
            max_examples=200,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(requests(), st.integers(0, 4))
        def run(asked, which):
            check(other if which == 0 else recommender, asked)

        run()


def test_none_of_many_requests_makes_the_server_fail():
    with shop() as recommender, ranker() as other:
        counts = fuzz((recommender, other), 1000, 0)
    assert {200, 400, 404, 405, 422} <= set(counts)
    assert sum(counts.values()) == 1000
