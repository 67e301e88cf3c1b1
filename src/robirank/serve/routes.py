"""The table of routes: what each takes, gives and does. The OpenAPI document is made of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from robirank.serve import messages
from robirank.serve.facts import model_facts
from robirank.serve.feedback_log import line_now
from robirank.serve.items import about_item, find_items, similar_to
from robirank.serve.messages import Question
from robirank.serve.page_routes import PAGE_ROUTES
from robirank.serve.ranking import rank
from robirank.serve.route import TEXT, Parameter, Route, called, ranker_of, recommender_of
from robirank.serve.tasks import Asked, Slow

if TYPE_CHECKING:
    from robirank.serve.server import Server

#: A request with more questions is not answered beside those of others.
_MANY = 32


async def recommend(server: Server, body: Question | list[Question]) -> bytes:
    """Answer one question or several, in the thread that fits them."""
    served = recommender_of(server)
    questions = body if isinstance(body, list) else [body]
    server.check_questions(questions, is_one=not isinstance(body, list))
    is_slow = len(questions) > _MANY or any(
        one.explain or one.items or one.disliked or one.features is not None for one in questions
    )
    until = time.monotonic() + server.limits.seconds
    asked = Asked(served, questions, not isinstance(body, list), is_slow, until)
    if is_slow:
        return await server.slow.ask(asked)
    try:
        return await server.quick.ask(asked)
    except Slow:
        return await server.slow.ask(Asked(served, questions, asked.is_one, True, until))


async def similar(server: Server, body: messages.SimilarTo) -> bytes:
    """Find items like one."""
    served = recommender_of(server)
    server.check_lists("$", body.n, body.only, body.exclude)
    return await called(server, lambda: similar_to(served, body))


async def item(server: Server, id: str, n: int) -> bytes:
    """Tell what is known of an item."""
    served = recommender_of(server)
    server.check_lists("$", n)
    return await called(server, lambda: about_item(served, id, n))


async def search_items(server: Server, search: str, n: int) -> bytes:
    """Find items by a text."""
    served = recommender_of(server)
    server.check_lists("$", n)
    return await called(server, lambda: find_items(served, search, n))


async def rank_documents(server: Server, body: messages.Documents) -> bytes:
    """Rank documents."""
    served = ranker_of(server)
    server.check_lists("$.documents", 1, body.documents)
    return await called(server, lambda: rank(served, body))


async def take_feedback(server: Server, body: messages.Taken) -> bytes:
    """Keep what a user took; it is known when this returns."""
    served = recommender_of(server)
    server.check_lists("$", 1, body.items)
    await server.disk.ask(line_now(body.user, body.items))
    server.figures.count("feedback_items", len(body.items))
    unknown = [id for id in body.items if served.items.find(id) < 0]
    told = messages.Accepted(len(body.items), unknown, served.users.find(body.user) >= 0)
    return msgspec.json.encode(told)


async def model(server: Server) -> bytes:
    """Tell what is served."""
    return msgspec.json.encode(model_facts(server.served()))


async def health(server: Server) -> bytes:  # noqa: ARG001
    """Tell that the server lives."""
    return msgspec.json.encode(messages.State("ok"))


async def ready(server: Server) -> bytes:
    """Tell that the server takes requests, or raise that it does not."""
    server.check_ready()
    return msgspec.json.encode(messages.State("ok", server.served().checksum))


async def metrics(server: Server) -> bytes:
    """Tell all figures."""
    return server.metrics_text().encode()


_N = Parameter("n", messages.Number, "The length of the list.", 10)

ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/v1/recommend",
        "The best items for a user, for who has some items, or for several of them.",
        recommend,
        Question | messages.Questions,
        messages.Recommended | list[messages.Recommended],
        problems=("unknown_user", "unknown_item", "not_for_this_model", "overloaded", "too_slow"),
    ),
    Route(
        "POST",
        "/v1/similar",
        "The items that are most like one.",
        similar,
        messages.SimilarTo,
        messages.Similar,
        problems=("unknown_item", "not_for_this_model", "overloaded", "too_slow"),
    ),
    Route(
        "GET",
        "/v1/items/{id}",
        "What is known of an item.",
        item,
        answer=messages.Item,
        parameters=(
            Parameter("id", messages.Text, "The item's id.", in_path=True),
            Parameter("n", messages.Number, "The number of neighbours.", 10),
        ),
        problems=("unknown_item", "not_for_this_model", "overloaded", "too_slow"),
    ),
    Route(
        "GET",
        "/v1/items",
        "Items by id, name, beginning or part of a name, and by similar writing.",
        search_items,
        answer=messages.FoundItems,
        parameters=(Parameter("search", messages.Text, "What to look for.", ""), _N),
        problems=("not_for_this_model", "overloaded", "too_slow"),
    ),
    Route(
        "POST",
        "/v1/rank",
        "The documents of a query, ranked by their features.",
        rank_documents,
        messages.Documents,
        messages.Ranking,
        problems=("not_for_this_model", "overloaded", "too_slow"),
    ),
    Route(
        "POST",
        "/v1/feedback",
        "What a user just took: hidden from the next answer, and kept for the next update.",
        take_feedback,
        messages.Taken,
        messages.Accepted,
        problems=("not_for_this_model", "overloaded", "too_slow"),
    ),
    Route("GET", "/v1/model", "What is served.", model, answer=messages.ModelFacts),
    Route(
        "GET",
        "/healthz",
        "Whether the server lives.",
        health,
        answer=messages.State,
        needs_key=False,
    ),
    Route(
        "GET",
        "/readyz",
        "Whether the server has a model, and takes requests.",
        ready,
        answer=messages.State,
        problems=("not_ready",),
        needs_key=False,
    ),
    Route("GET", "/metrics", "Figures for Prometheus.", metrics, answer=str, content=TEXT),
    *PAGE_ROUTES,
)
