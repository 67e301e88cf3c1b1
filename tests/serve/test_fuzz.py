"""A little of the fuzzing of every route; ``python -m serve.fuzz`` does as much as is wanted."""

from serve.fuzz import fuzz


def test_no_request_makes_the_server_fail():
    counts = fuzz(400)
    assert {200, 400, 404, 405, 422} <= set(counts)
    assert sum(counts.values()) >= 400
