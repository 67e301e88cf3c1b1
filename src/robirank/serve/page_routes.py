"""The routes that the page has beside those of every client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from robirank.serve import messages, page_messages
from robirank.serve.answering import place_of
from robirank.serve.comparing import agreement, compare, other_of
from robirank.serve.facts import model_facts
from robirank.serve.loaded import ServedRecommender
from robirank.serve.mapping import map_groups, map_points
from robirank.serve.messages import Question
from robirank.serve.page_messages import Stands
from robirank.serve.route import Parameter, Route, called, recommender_of
from robirank.serve.who import about_user, find_places, find_users, takers_of
from robirank.serve.wishes import TakenSince, item_position, look_up

if TYPE_CHECKING:
    from robirank.serve.server import Server


async def users(server: Server, search: str, n: int) -> bytes:
    """Find users."""
    served = recommender_of(server)
    server.check_lists("$", n)
    return await called(server, lambda: find_users(served, search, n))


async def user(server: Server, id: str, n: int) -> bytes:
    """Tell what a user has."""
    served = recommender_of(server)
    server.check_lists("$", n)
    return await called(server, lambda: about_user(served, id, n, server.feedback))


async def takers(server: Server, id: str, n: int) -> bytes:
    """Tell who takes an item."""
    served = recommender_of(server)
    server.check_lists("$", n)
    return await called(server, lambda: takers_of(served, id, n))


async def places(server: Server, body: page_messages.WantedPlaces) -> bytes:
    """Tell which items are at which positions."""
    served = recommender_of(server)
    server.check_lists("$", 1, body.positions, body.items)
    return await called(server, lambda: find_places(served, body))


async def standing(server: Server, body: page_messages.Standing) -> bytes:
    """Tell where an item stands."""
    served = recommender_of(server)
    server.check_questions([body.question], is_one=True)
    return await called(server, lambda: _stands(served, body, server.feedback))


def _stands(
    served: ServedRecommender, body: page_messages.Standing, taken: TakenSince | None
) -> Stands:
    position = item_position(served, body.item, "$.item")
    wish = look_up(served, body.question, taken)
    place, score = place_of(served, wish, position)
    called = served.items.called(position)
    return Stands(served.checksum, called, place, len(served.items), score)


async def points(server: Server) -> bytes:
    """Give the map."""
    served = recommender_of(server)
    return await called(server, lambda: map_points(served))


async def groups(server: Server, column: str) -> bytes:
    """Give groups of items."""
    served = recommender_of(server)
    return await called(server, lambda: map_groups(served, column))


async def compared_models(server: Server) -> bytes:
    """Tell which models are compared."""
    served = recommender_of(server)
    facts = page_messages.ComparedModels(model_facts(served), model_facts(other_of(served)))
    return msgspec.json.encode(facts)


async def compare_lists(server: Server, body: Question) -> bytes:
    """Let both models answer."""
    served = recommender_of(server)
    server.check_questions([body], is_one=True)
    return await called(server, lambda: compare(served, body, server.feedback))


async def agree(server: Server, users: int, n: int) -> bytes:
    """Tell how far two models agree."""
    served = recommender_of(server)
    server.check_lists("$", n)
    return await called(server, lambda: agreement(served, users, n))


_COMMON = ("not_for_this_model", "overloaded", "too_slow")
_SEARCH = Parameter("search", messages.Text, "A part of an id.", "")
_N = Parameter("n", messages.Number, "The length of the list.", 10)

PAGE_ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/v1/users",
        "Users by a part of their ids, or some of all.",
        users,
        answer=page_messages.Users,
        parameters=(_SEARCH, _N),
        problems=_COMMON,
    ),
    Route(
        "GET",
        "/v1/users/{id}",
        "A user, and what the user has.",
        user,
        answer=page_messages.UserFacts,
        parameters=(Parameter("id", messages.Text, "The user's id.", in_path=True), _N),
        problems=("unknown_user", *_COMMON),
    ),
    Route(
        "GET",
        "/v1/takers/{id}",
        "Who takes an item, and what these users take more often than others.",
        takers,
        answer=page_messages.Takers,
        parameters=(Parameter("id", messages.Text, "The item's id.", in_path=True), _N),
        problems=("unknown_item", *_COMMON),
    ),
    Route(
        "POST",
        "/v1/standing",
        "The place of an item in the list of all items, for a user or a taste.",
        standing,
        page_messages.Standing,
        page_messages.Stands,
        problems=("unknown_item", "unknown_user", *_COMMON),
    ),
    Route(
        "POST",
        "/v1/places",
        "Items by position or id, with positions.",
        places,
        page_messages.WantedPlaces,
        page_messages.Places,
        problems=_COMMON,
    ),
    Route(
        "GET",
        "/v1/map",
        "A point of the plane for each item.",
        points,
        answer=page_messages.MapPoints,
        problems=_COMMON,
    ),
    Route(
        "GET",
        "/v1/map/groups",
        "The group of each item, by a column of the table of items.",
        groups,
        answer=page_messages.MapGroups,
        parameters=(Parameter("column", messages.Text, "The column.", ""),),
        problems=_COMMON,
    ),
    Route(
        "GET",
        "/v1/compare",
        "The two models that are compared.",
        compared_models,
        answer=page_messages.ComparedModels,
        problems=_COMMON,
    ),
    Route(
        "POST",
        "/v1/compare",
        "What two models answer to one question.",
        compare_lists,
        Question,
        page_messages.Compared,
        problems=("unknown_user", "unknown_item", *_COMMON),
    ),
    Route(
        "GET",
        "/v1/agreement",
        "How far two models agree on a sample of users.",
        agree,
        answer=page_messages.Agreement,
        parameters=(
            Parameter("users", page_messages.Sample, "The size of the sample.", 100),
            _N,
        ),
        problems=_COMMON,
    ),
)
