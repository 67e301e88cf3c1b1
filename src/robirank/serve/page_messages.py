"""What the routes of the page take and give, beside `robirank.serve.messages`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from robirank.serve.messages import (
    MOST,
    Answer,
    Id,
    Ids,
    ModelFacts,
    Question,
    Recommended,
    Request,
)

Sample = Annotated[int, Meta(ge=1, le=500)]
Positions = Annotated[list[Annotated[int, Meta(ge=0, le=2**31 - 1)]], Meta(max_length=MOST)]


class WantedPlaces(Request, frozen=True):
    """Items, by position or by id."""

    positions: Positions = msgspec.field(default_factory=list)
    items: Ids = msgspec.field(default_factory=list)


class Place(Answer, frozen=True):
    """An item, and where it stands in the arrays of a map."""

    position: int
    item: str | int
    name: str | UnsetType = UNSET
    taken: int | UnsetType = UNSET
    new: bool = False


class Places(Answer, frozen=True):
    """Items with their positions; those that the model does not know are left out."""

    model: str
    items: list[Place]


class MapPoints(Answer, frozen=True):
    """A point for each item, in the order of positions."""

    model: str
    #: Two directions of the factors, or a map that keeps neighbours together.
    kind: Literal["directions", "neighbours"]
    #: From 0 to 65,535; a step is the same distance in x and in y.
    x: list[int]
    y: list[int]
    #: The part of the spread of the items that lies in two directions.
    share: float | UnsetType = UNSET
    #: How often each item was taken.
    taken: list[int] | UnsetType = UNSET
    #: Columns of the table of items, by which points can be coloured.
    columns: list[str] = msgspec.field(default_factory=list)


class MapGroups(Answer, frozen=True):
    """The group of each item, by its value in a column."""

    model: str
    column: str
    #: Single values, or ranges of numbers that hold about equally many items.
    kind: Literal["values", "ranges"]
    labels: list[str]
    #: The number of items in each group.
    counts: list[int]
    #: The group of each item; −1 for a value that is rare or missing.
    groups: list[int]


class Standing(Request, frozen=True):
    """An item, and who asks for its place in the list of all items."""

    item: Id
    question: Question


class Stands(Answer, frozen=True):
    """The place of an item among all items, rules and what the user has set aside."""

    model: str
    item: str | int
    #: From 1 on; null for an item that the user took against.
    place: int | None
    of: int
    score: float | None


class AlsoTaken(Answer, frozen=True):
    """An item that takers of another one have."""

    item: str | int
    #: The part of the takers that has it, and the part of all users.
    share: float
    usual: float
    name: str | UnsetType = UNSET


class Takers(Answer, frozen=True):
    """Who takes an item."""

    model: str
    item: str | int
    #: How many users have it.
    number: int
    #: Some of them.
    users: list[str | int]
    #: What these take more often than others do, the most striking first.
    also: list[AlsoTaken]


class UserFacts(Answer, frozen=True):
    """A user, and what the user has."""

    user: str | int
    #: Whether the model has a row for the user.
    known: bool
    number: int
    #: The items that were taken least often by others come last.
    items: list[Place] = msgspec.field(default_factory=list)


class Users(Answer, frozen=True):
    """Users whose ids contain a text, or some of all."""

    model: str
    users: list[UserFacts]


class ComparedModels(Answer, frozen=True):
    """The two models that are compared."""

    here: ModelFacts
    other: ModelFacts


class Compared(Answer, frozen=True):
    """What two models answer to one question."""

    here: Recommended
    other: Recommended


class Disagreement(Answer, frozen=True):
    """A user, and how much of the two lists is the same."""

    user: str | int
    overlap: float


class Agreement(Answer, frozen=True):
    """How far two models agree on a sample of the users whom both know."""

    here: str
    other: str
    users: int
    #: The length of the lists.
    n: int
    #: The mean part of a list that is in the list of the other model too.
    overlap: float | None
    #: How many users have 0, 1, … n items in both lists.
    overlaps: list[int]
    #: Spearman's rank correlation of the scores of common items, its mean over the users.
    rank_correlation: float | None
    #: The users on whom the models agree least.
    least: list[Disagreement]
